"""Crafted model files: whatever a file claims, under a valid digest, made from good ones by structured changes.

`crafted` makes one file from a seed; `tests.persistence.crafted_trials` loads it and scores with it.
"""

import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dplan._kernels import perceptron
from dplan.persistence import model_file
from dplan.tables import TableModel
from tests.detectors.quick import QUICK
from tests.persistence.saved import SUMMARY, quick_model

_TYPES = {np.dtype("<f4"): "F32", np.dtype("<f8"): "F64", np.dtype("<i4"): "I32", np.dtype("<i8"): "I64"}
ODD = [
    *(None, True, False, "", "x", "\ud800", "two\nlines\x1b[2J", [], {}, [[]], [None], {"a": 1}, "9" * 400),
    *(-1, 0, 1, 2, 3, 255, 2**31, 2**63, 10**30, 10**400, 0.5, -0.5, 1e9, 1e38, 1e308, -1e308, 5e-324),
    *(float("nan"), float("inf"), float("-inf")),
]
_ODD_FLOATS = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e30, -1e30, 1e308, -1e308, 1e-45, 0.0, -1.0, 1.0]
_ODD_INTEGERS = [-1, 0, 1, 2, 7, 100, 30_000, 2**31 - 1, -(2**31), 2**62, -(2**63)]

Tensors = dict[str, np.ndarray]
Rng = np.random.Generator


class Draft:
    """A model file in pieces, to be changed."""

    def __init__(self, description: dict[str, Any], tensors: Tensors) -> None:
        self.description = copy.deepcopy(description)
        self.tensors = {name: tensor.copy() for name, tensor in tensors.items()}
        self.header: list[
            Callable[[dict[str, Any]], object]
        ] = []  # what happens to the header at the very end
        self.tail = b""
        self.nesting = 0

    def signed(self) -> bytes:
        """Return the file, with the digest that it must have."""
        table, blocks, end = {}, [], 0
        for name, tensor in self.tensors.items():
            blocks.append(np.ascontiguousarray(tensor).tobytes())
            place = [end, end := end + len(blocks[-1])]
            kind = _TYPES.get(tensor.dtype, tensor.dtype.str)
            table[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": place}
        deep = "[" * self.nesting + "]" * self.nesting
        own = {"sha256": "0" * 64, "dplan": json.dumps(self.description).replace('"<deep>"', deep)}
        header: dict[str, Any] = {"__metadata__": own, **table}
        for change in self.header:
            change(header)
        text = json.dumps(header, separators=(",", ":")).encode()
        content = bytearray(len(text).to_bytes(8, "little") + text + b"".join(blocks) + self.tail)
        if len(content) >= model_file._DIGEST.stop:
            content[model_file._DIGEST] = hashlib.sha256(content).hexdigest().encode()
        return bytes(content)


def write_originals(folder: Path) -> None:
    """Write models of every detector, of arrays and of tables."""
    for i, name in enumerate(QUICK):
        detector, preparer, X = quick_model(name)
        detector.save(folder / f"{i:02}-arrays.dplan")
        summary = replace(SUMMARY, ids=("id",), dropped={"note": "no value at all"})
        rows = np.ascontiguousarray(X)
        model = TableModel(detector, preparer, rows[20:], rows[:10], np.ones(10, dtype=np.int64), summary)
        model.save(folder / f"{i:02}-table.dplan")


def read_originals(folder: Path) -> list[Draft]:
    """Read what `write_originals` wrote."""
    found = []
    for path in sorted(folder.glob("*.dplan")):
        tensors, metadata, _ = model_file._unpacked(path)
        found.append(Draft(json.loads(metadata["dplan"]), tensors))
    return found


def crafted(originals: list[Draft], seed: int) -> bytes:
    """Return the file that a seed stands for."""
    rng = np.random.default_rng(seed)
    original = originals[seed % len(originals)]
    draft = Draft(original.description, original.tensors)
    other = originals[rng.integers(len(originals))]
    wanted, made = int(rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1])), 0
    for change in rng.permutation(np.array(_CHANGES, dtype=object)):
        if made == wanted:
            break
        try:
            with np.errstate(all="ignore"):
                change(draft, rng, other)
            made += 1
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError, StopIteration):
            continue  # there is nothing to change like that, in this model or after an earlier change
    return draft.signed()


def _one(rng: Rng, choices: Any) -> Any:
    choices = list(choices)
    return choices[rng.integers(len(choices))]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) below a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [place for key in keys for place in [(value, key), *places(value[key])]]


# The description.


def an_odd_value(draft: Draft, rng: Rng, other: Draft) -> None:
    where, key = _one(rng, places(draft.description))
    where[key] = copy.deepcopy(_one(rng, ODD))


def an_odd_value_near_the_top(draft: Draft, rng: Rng, other: Draft) -> None:
    where = _one(rng, [draft.description, draft.description["numbers"], draft.description["parameters"]])
    where[_one(rng, where)] = copy.deepcopy(_one(rng, ODD))


def a_missing_value(draft: Draft, rng: Rng, other: Draft) -> None:
    where, key = _one(rng, places(draft.description))
    del where[key]


def a_further_key(draft: Draft, rng: Rng, other: Draft) -> None:
    where = _one(rng, [where for where, _ in places(draft.description) if isinstance(where, dict)])
    where[_one(rng, ["spin", "offset_", "callback", "two\nlines", "self", "__class__"])] = _one(rng, ODD)


def a_number_changed(draft: Draft, rng: Rng, other: Draft) -> None:
    numbers = [(w, k) for w, k in places(draft.description) if type(w[k]) in (int, float)]
    where, key = _one(rng, numbers)
    where[key] = _one(rng, [-where[key], where[key] + 1, where[key] * 1e300, where[key] / 3, str(where[key])])


def values_swapped(draft: Draft, rng: Rng, other: Draft) -> None:
    (first, i), (second, j) = (_one(rng, places(draft.description)) for _ in range(2))
    first[i], second[j] = copy.deepcopy(second[j]), copy.deepcopy(first[i])


def a_part_of_another_file(draft: Draft, rng: Rng, other: Draft) -> None:
    for key in rng.permutation(sorted(draft.description))[: rng.integers(1, 4)]:
        draft.description[str(key)] = copy.deepcopy(other.description[str(key)])


def another_detector(draft: Draft, rng: Rng, other: Draft) -> None:
    draft.description["detector"] = other.description["detector"]
    if rng.random() < 0.8:
        draft.description["parameters"] = copy.deepcopy(other.description["parameters"])
    if rng.random() < 0.5:
        draft.tensors |= {name: tensor.copy() for name, tensor in other.tensors.items()}


def a_long_list(draft: Draft, rng: Rng, other: Draft) -> None:
    lists = [(w, k) for w, k in places(draft.description) if isinstance(w[k], list) and w[k]]
    where, key = _one(rng, lists)
    where[key] = where[key] * min(int(rng.integers(2, 5_000)), 2 + 2_000_000 // len(json.dumps(where[key])))


def deep_nesting(draft: Draft, rng: Rng, other: Draft) -> None:
    where, key = _one(rng, places(draft.description))
    where[key], draft.nesting = "<deep>", int(10 ** rng.uniform(0, 4.5))


# The preparation of tables.


def columns_changed(draft: Draft, rng: Rng, other: Draft) -> None:
    columns = draft.description["preparation"]["columns"]
    column = _one(rng, columns)
    match rng.integers(10):
        case 0:
            columns.append(copy.deepcopy(column))
        case 1:
            columns.reverse()
        case 2:
            column["kind"] = _one(rng, ["number", "flag", "date", "text", "dropped", "object"])
        case 3:
            column["minimum"], column["maximum"] = column["maximum"], column["minimum"]
        case 4:
            column["minimum"], column["maximum"] = _one(rng, [(-1e308, 1e308), (0, 5e-324), (-1e308, -1e308)])
        case 5:
            column["fill"] = [_one(rng, ODD) for _ in column["fill"]]
        case 6:
            column["levels"] = [_one(rng, ["", "de", "\ud83d", "x" * 10_000, 3]) for _ in column["fill"]]
        case 7:
            column["name"] = _one(rng, ["", "amount", "country", "a\nb", "\ud800", "x" * 100_000])
        case 8:  # as wide as before, and of another kind
            column.update(kind="text", levels=[f"level {i}" for i in range(len(column["fill"]))])
        case _:
            column.update(kind="date", levels=[], minimum=-(2**62), maximum=2**62)


def many_levels(draft: Draft, rng: Rng, other: Draft) -> None:
    column = next(c for c in draft.description["preparation"]["columns"] if c["kind"] == "text")
    n = int(rng.integers(4, 3_000))
    column["fill"], column["levels"] = [1 / n] * n, [f"level {i}" for i in range(n)]
    draft.description["n_features"] += n - 3


# Arrays.


def an_odd_number(draft: Draft, rng: Rng, other: Draft) -> None:
    tensor = draft.tensors[_one(rng, draft.tensors)]
    odd = _ODD_FLOATS if tensor.dtype.kind == "f" else [*_ODD_INTEGERS, len(tensor), len(tensor) - 1]
    fitting = [
        number for number in odd if tensor.dtype.kind == "f" or abs(number) < 2 ** (8 * tensor.itemsize - 1)
    ]
    number = _one(rng, fitting)
    match rng.integers(4):
        case 0:
            tensor.flat[rng.integers(tensor.size)] = number
        case 1:
            tensor.flat[rng.choice(tensor.size, max(1, tensor.size // 3))] = number
        case 2:
            tensor[...] = number
        case _:
            tensor *= tensor.dtype.type(min(max(number, -1e30), 1e30) if np.isfinite(number) else 2)


def any_numbers(draft: Draft, rng: Rng, other: Draft) -> None:
    tensor = draft.tensors[_one(rng, draft.tensors)]
    if tensor.dtype.kind == "f":
        tensor[...] = rng.normal(size=tensor.shape) * 10.0 ** rng.integers(-30, 35)
    else:
        tensor[...] = rng.integers(-2, max(len(tensor), 1) + 2, size=tensor.shape)


def numbers_in_another_order(draft: Draft, rng: Rng, other: Draft) -> None:
    tensor = draft.tensors[_one(rng, draft.tensors)]
    rng.shuffle(tensor.reshape(-1) if rng.random() < 0.5 else tensor)


def another_shape(draft: Draft, rng: Rng, other: Draft) -> None:
    name = _one(rng, draft.tensors)
    tensor = draft.tensors[name]
    draft.tensors[name] = _one(
        rng,
        [
            *(tensor[:0], tensor[:1], tensor[:-1], tensor[1:], tensor[..., :0]),
            *(tensor.ravel(), tensor.T, tensor[None], tensor[..., None], tensor.reshape(-1)[:1].reshape(())),
            *(np.concatenate([tensor, tensor]), np.concatenate([tensor] * 50)),
        ],
    )


def another_type(draft: Draft, rng: Rng, other: Draft) -> None:
    name = _one(rng, draft.tensors)
    tensor, dtype = draft.tensors[name], _one(rng, [*_TYPES, np.dtype("f2"), np.dtype("u1"), np.dtype(">f4")])
    draft.tensors[name] = tensor.astype(dtype) if rng.random() < 0.6 else tensor.ravel().view(dtype)


def arrays_missing_or_swapped(draft: Draft, rng: Rng, other: Draft) -> None:
    first, second = _one(rng, draft.tensors), _one(rng, draft.tensors)
    match rng.integers(5):
        case 0:
            del draft.tensors[first]
        case 1:
            draft.tensors["further"] = draft.tensors[first]
        case 2:
            draft.tensors[first + "x"] = draft.tensors.pop(first)
        case 3:
            name = _one(rng, set(draft.tensors) & set(other.tensors))
            draft.tensors[name] = other.tensors[name].copy()
        case _:
            draft.tensors[first], draft.tensors[second] = draft.tensors[second], draft.tensors[first]


# Trees, networks and members that fit each other: what simple checks let pass.


def _forest(draft: Draft, rng: Rng) -> str:
    return str(_one(rng, sorted({name.split(".")[0] for name in draft.tensors if name.endswith(".roots")})))


def _set_trees(draft: Draft, name: str, roots: Any, depths: Any, children: Any, features: Any = 0) -> None:
    children = np.asarray(children, dtype=np.int32).reshape(-1, 2)
    n = len(children)
    is_leaf = children[:, 0] == np.arange(n)
    draft.tensors |= {
        f"{name}.roots": np.asarray(roots, dtype=np.int32),
        f"{name}.depths": np.broadcast_to(np.asarray(depths, dtype=np.int32), np.shape(roots)).copy(),
        f"{name}.children": children,
        f"{name}.features": np.where(is_leaf, 0, features).astype(np.int32),
        f"{name}.thresholds": np.full(n, 0.5, dtype=np.float32),
        f"{name}.values": np.where(is_leaf, 1.0, 0.0),
    }


def leaves_that_claim_depth(draft: Draft, rng: Rng, other: Draft) -> None:
    n = int(rng.integers(1, 30_001))
    nodes = np.arange(n)
    _set_trees(
        draft, _forest(draft, rng), nodes, _one(rng, [0, 1, n, 30_000]), np.stack([nodes, nodes], axis=1)
    )


def a_deep_chain(draft: Draft, rng: Rng, other: Draft) -> None:
    n = int(rng.integers(1, 5_000))
    inner = 2 * np.arange(n)
    children = np.stack([np.arange(2 * n + 1)] * 2, axis=1)
    children[inner] = np.stack([inner + 1, inner + 2], axis=1)
    features = rng.integers(0, draft.description["n_features"], 2 * n + 1)
    _set_trees(draft, _forest(draft, rng), [0], _one(rng, [n, n, n, 2 * n, 1]), children, features)


def nodes_in_another_order(draft: Draft, rng: Rng, other: Draft) -> None:
    """Number nodes anew, consistently: children may now stand before their parents."""
    name = _forest(draft, rng)
    own = {key: draft.tensors[f"{name}.{key}"] for key in ("children", "features", "thresholds", "values")}
    n = len(own["values"])
    new = np.arange(n)
    if rng.random() < 0.5:
        rng.shuffle(new)
    else:
        i, j = rng.integers(n, size=2)
        new[[i, j]] = new[[j, i]]
    for key, part in own.items():
        moved = np.empty_like(part)
        moved[new] = new[part] if key == "children" else part
        draft.tensors[f"{name}.{key}"] = moved
    draft.tensors[f"{name}.roots"] = new[draft.tensors[f"{name}.roots"]].astype(np.int32)


def a_wrong_child(draft: Draft, rng: Rng, other: Draft) -> None:
    name = _forest(draft, rng)
    children = draft.tensors[f"{name}.children"]
    node, n = rng.integers(len(children)), len(children)
    children[node, rng.integers(2)] = _one(rng, [node, node + 1, node - 1, 0, n, n - 1, -1, rng.integers(n)])


def no_trees(draft: Draft, rng: Rng, other: Draft) -> None:
    name = _forest(draft, rng)
    keys = ("roots", "depths", "children", "features", "thresholds", "values")
    for key in keys[: _one(rng, [2, 6])]:
        draft.tensors[f"{name}.{key}"] = draft.tensors[f"{name}.{key}"][:0]


def another_network(draft: Draft, rng: Rng, other: Draft) -> None:
    sizes = draft.tensors["layer_sizes_"].tolist()
    match rng.integers(5):
        case 0:
            sizes[1:-1] = [int(rng.integers(1, 100_000))]
        case 1:
            sizes[1:-1] = [1] * int(rng.integers(1, 3_000))
        case 2:
            sizes[1:-1] = rng.integers(1, 300, rng.integers(1, 5)).tolist()
        case 3:
            sizes[-1] = int(rng.integers(1, 50_000))
        case _:
            sizes[_one(rng, range(len(sizes)))] = int(_one(rng, [0, -1, 2**31, 2**62, 1]))
    draft.tensors["layer_sizes_"] = np.array(sizes, dtype=np.int64)
    n = perceptron.n_parameters(draft.tensors["layer_sizes_"])
    if 0 < n < 5_000_000:
        scale = _one(rng, [0.0, 0.01, 1.0, 1e20, 1e37])
        draft.tensors["weights_"] = (scale * rng.normal(size=n)).astype(np.float32)
    if "centre_" in draft.tensors and 0 < sizes[-1] < 10**6:
        draft.tensors["centre_"] = np.ones(sizes[-1], dtype=np.float32)
    if "references_" in draft.tensors and 0 < sizes[-1] < 10**5:
        draft.tensors["references_"] = np.ones((sizes[-1], 8, 5), dtype=np.float32)


def many_members(draft: Draft, rng: Rng, other: Draft) -> None:
    n_networks, n = min(int(draft.tensors["layer_sizes_"][-1]) // 2, 100), int(rng.integers(1, 50_000))
    for name in ("member_medians_", "member_scales_", "member_weights_"):
        draft.tensors[name] = np.ones(n_networks + n + 2)
    if rng.random() < 0.5:
        n = min(n, 3_000)  # a member of trees takes a call of its own
        for name in ("member_medians_", "member_scales_", "member_weights_"):
            draft.tensors[name] = np.ones(n_networks + n + 2)
        _set_trees(draft, "trees_", np.arange(n), 0, np.stack([np.arange(n)] * 2, axis=1))
    elif rng.random() < 0.5:
        draft.tensors |= {name: t[:0] for name, t in draft.tensors.items() if name.startswith("trees_.")}


def many_neighbours(draft: Draft, rng: Rng, other: Draft) -> None:
    n_columns = min(max(int(draft.description["n_features"]), 1), 100)
    n = int(10 ** rng.uniform(0, 6) / n_columns) + 1
    shape = _one(rng, [(1, n, n_columns), (n, 1, n_columns), (0, n, n_columns), (1, n, n_columns + 1)])
    draft.tensors["neighbours_"] = rng.normal(size=shape).astype(np.float32)


def odd_quantiles(draft: Draft, rng: Rng, other: Draft) -> None:
    quantiles = draft.tensors["score_quantiles_"]
    low, high = _one(rng, [(0.0, 0.0), (-1e308, 1e308), (1.0, 0.0), (0.0, 5e-324), (-np.inf, np.inf)])
    quantiles[...] = np.linspace(low, high, len(quantiles))


# The container.


def an_odd_header(draft: Draft, rng: Rng, other: Draft) -> None:
    odd = _one(rng, ODD)
    name, key = _one(rng, draft.tensors), _one(rng, ["dtype", "shape", "data_offsets"])
    numbers = [0, 1, -1, 8, 2**40, 2**63, 10**30, True, 1.0, None]
    match rng.integers(7):
        case 0:
            draft.header.append(lambda header: header[name].update({key: odd}))
        case 1:
            shape = [_one(rng, numbers) for _ in range(rng.integers(0, 5))]
            draft.header.append(lambda header: header[name].update(shape=shape))
        case 2:
            offsets = [_one(rng, numbers) for _ in range(2)]
            draft.header.append(lambda header: header[name].update(data_offsets=offsets))
        case 3:
            draft.header.append(lambda header: header["__metadata__"].update(further=odd))
        case 4:
            draft.header.append(lambda header: header.update(further=odd))
        case 5:
            draft.header.append(lambda header: header["__metadata__"].pop("dplan"))
        case _:
            draft.tail = bytes(int(rng.integers(1, 100)))


_CHANGES: list[Callable[[Draft, Rng, Draft], None]] = [
    an_odd_value,
    an_odd_value_near_the_top,
    a_missing_value,
    a_further_key,
    a_number_changed,
    values_swapped,
    a_part_of_another_file,
    another_detector,
    a_long_list,
    deep_nesting,
    *(columns_changed, columns_changed, many_levels),
    *(an_odd_number, an_odd_number, an_odd_number, any_numbers, numbers_in_another_order),
    *(another_shape, another_type, arrays_missing_or_swapped),
    # Each of these has something to change in a few of the models only.
    *3 * (leaves_that_claim_depth, a_deep_chain, nodes_in_another_order, a_wrong_child, no_trees),
    *3 * (another_network, another_network, many_members, many_neighbours, odd_quantiles),
    an_odd_header,
]
