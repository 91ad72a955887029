"""Saving and loading detectors: each says in `_saved` what its fit leaves behind, and everything is checked on loading.

Kernels walk trees and networks without looking left or right, so nothing from a file reaches them unchecked.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.trees import Trees
from dplan.detectors._registry import entry_of
from dplan.persistence import model_file
from dplan.persistence.container import Tensors

COLUMNS = "columns"  # in a shape: as many as the detector has columns


class Stored(NamedTuple):
    """The part of a file that fitted attributes are stored in."""

    tensors: Tensors
    numbers: dict[str, Any]
    n_columns: int = 0


class Field(Protocol):
    """How a fitted attribute is stored."""

    @property
    def optional(self) -> bool:
        """Whether older files lack it."""

    def put(self, name: str, value: Any, stored: Stored) -> None:
        """Store it."""

    def take(self, name: str, stored: Stored) -> Any:
        """Return what is stored, checked."""


class Number:
    """A fitted attribute that is a number."""

    optional = False

    def put(self, name: str, value: Any, stored: Stored) -> None:
        """Store it."""
        stored.numbers[name] = value

    def take(self, name: str, stored: Stored) -> Any:
        """Return what is stored, checked."""
        number = stored.numbers[name]
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise ValueError(f"{name} is not a number")
        return number


@dataclass(frozen=True)
class Array:
    """A fitted attribute that is an array. A length in its shape is a number, `COLUMNS`, or None for any but 0."""

    dtype: Any = np.float32
    shape: tuple[int | str | None, ...] = (None,)
    optional: bool = False
    may_be_empty: bool = False

    def put(self, name: str, value: Any, stored: Stored) -> None:
        """Store it."""
        stored.tensors[name] = value

    def take(self, name: str, stored: Stored) -> Any:
        """Return what is stored, checked."""
        array = stored.tensors[name]
        expected = tuple(stored.n_columns if length == COLUMNS else length for length in self.shape)
        lengths = zip(array.shape, expected, strict=False)
        if len(array.shape) != len(expected) or any(e not in (None, found) for found, e in lengths):
            raise ValueError(f"{name} has the shape {array.shape} instead of {expected}")
        if array.size == 0 and not self.may_be_empty:
            raise ValueError(f"{name} is empty")
        return _checked(name, array, self.dtype)


class TreeArrays:
    """A fitted attribute that is `Trees`: one array of the file for each of its arrays."""

    optional = False

    def put(self, name: str, value: Any, stored: Stored) -> None:
        """Store them."""
        stored.tensors.update({f"{name}.{key}": part for key, part in value._asdict().items()})

    def take(self, name: str, stored: Stored) -> Trees:
        """Return what is stored, checked."""
        types = {"thresholds": np.float32, "values": np.float64}
        trees = Trees(
            **{
                key: _checked(f"{name}.{key}", stored.tensors[f"{name}.{key}"], types.get(key, np.int32))
                for key in Trees._fields
            }
        )
        _check_trees(trees, stored.n_columns)
        return trees


# The weights and layers of a network; `check_network` compares the two.
NETWORK: dict[str, Field] = {"weights_": Array(), "layer_sizes_": Array(np.int64)}


@dataclass(frozen=True)
class SavedModel:
    """What a model file holds.

    Attributes
    ----------
    detector : Detector
        The fitted detector.
    preparation : object
        What turned a table into the detector's features, as JSON values; None if it saw numbers only.
    arrays : dict
        Arrays that go with the model, such as a sample of the training rows.
    summary : dict
        How the model came about, as JSON values.
    package : str
        Version of this package that wrote the file.
    """

    detector: Any
    preparation: Any = None
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    summary: dict[str, Any] = field(default_factory=dict, repr=False)
    package: str = ""


def save(
    path: str | Path,
    detector: Any,
    *,
    preparation: Any = None,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    summary: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted detector, and what goes with it, to a file; see `SavedModel`.

    Examples
    --------
    >>> import tempfile
    >>> from dplan import LogisticBaseline
    >>> X, y = np.arange(20.0).reshape(-1, 1), np.arange(20) > 17
    >>> detector = LogisticBaseline().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Path(folder) / "model.dplan", detector)
    ...     again = load(Path(folder) / "model.dplan").detector
    >>> bool((again.anomaly_score(X) == detector.anomaly_score(X)).all())
    True
    """
    name = type(detector).__name__
    entry = entry_of(name)
    if entry is None or type(detector) is not entry.detector:
        raise TypeError(f"only registered detectors can be saved, not {name}: see docs/adding-a-detector.md")
    if not hasattr(detector, "offset_"):
        raise ValueError(f"this {name} is not fitted yet: call fit before save")
    detector._check_can_be_saved()
    stored = Stored({}, {})
    for key, kind in detector._saved.items():
        if not kind.optional or hasattr(detector, key):
            kind.put(key, getattr(detector, key), stored)
    parameters, defaults = _plain_parameters(detector), _plain_parameters(type(detector)())
    names = getattr(detector, "feature_names_in_", None)
    description = {
        "detector": name,
        "parameters": parameters,
        "changed": [key for key, value in parameters.items() if value != defaults[key]],
        "members": [kind._asdict() for kind in detector._member_kinds()],
        "numbers": stored.numbers,
        "n_features": int(detector.n_features_in_),
        "feature_names": None if names is None else [str(column) for column in names],
        "history": {key: [_or_none(value) for value in values] for key, values in detector.history_.items()},
        "preparation": preparation,
        "summary": dict(summary or {}),
    }
    kept = {f"table.{key}": array for key, array in (arrays or {}).items()}
    model_file.write(path, description, stored.tensors | kept)


def load(source: str | Path | bytes) -> SavedModel:
    """Read what `save` wrote, from a file or from its bytes; anything else is a ModelFileError."""
    contents = model_file.read(source)
    with model_file.refusing(contents.name):
        description, tensors = contents.description, contents.tensors
        arrays = {key.removeprefix("table."): tensors[key] for key in tensors if key.startswith("table.")}
        summary = description["summary"]
        if not isinstance(summary, dict):
            raise ValueError("the summary is not an object")
        detector = _rebuilt(description, tensors)
    return SavedModel(detector, description["preparation"], arrays, summary, contents.package)


def _rebuilt(description: dict[str, Any], tensors: Tensors) -> Any:
    name, n_features = description["detector"], description["n_features"]
    entry = entry_of(name)
    if entry is None:
        raise ValueError(f"there is no detector {name!r}")
    if type(n_features) is not int or n_features < 1:
        raise ValueError(f"n_features is {n_features!r}")
    kind = entry.detector
    parameters = {kind._renamed.get(key, key): value for key, value in description["parameters"].items()}
    for key, value in parameters.items():
        parameters[key] = tuple(value) if isinstance(value, list) else value  # JSON has no tuples
    detector = kind(**parameters)
    detector._check_parameters()
    detector.n_features_in_ = n_features
    stored = Stored(tensors, description["numbers"], n_features)
    for key, how in detector._saved.items():
        if not how.optional or key in tensors:
            setattr(detector, key, how.take(key, stored))
    detector._check_saved()
    names = description["feature_names"]
    if names is not None:
        same(len(names), n_features, "feature names")
        detector.feature_names_in_ = np.array([str(column) for column in names], dtype=object)
    detector.history_ = {
        str(key): [math.nan if value is None else float(value) for value in values]
        for key, values in description["history"].items()
    }
    return detector


def check_network(detector: Any, n_outputs: int | None = None) -> None:
    """Raise unless a detector's weights are those of its layers, from its columns to so many outputs."""
    sizes = detector.layer_sizes_.tolist()
    fewest = 2 if n_outputs is None else 3  # a network with outputs has a hidden layer below them
    if len(sizes) < fewest or not all(0 < size < 2**31 for size in sizes):
        raise ValueError(f"layer_sizes_ are {sizes}")
    same(sizes[0], detector.n_features_in_, "inputs")
    same(sizes[-1], n_outputs or sizes[-1], "outputs")
    same(detector.weights_.size, sum((below + 1) * above for below, above in pairwise(sizes)), "weights")


def same(found: object, expected: object, what: str) -> None:
    """Raise unless two things are equal.

    Examples
    --------
    >>> same(3, 4, "inputs")
    Traceback (most recent call last):
    ValueError: inputs: 3, but must be 4
    """
    if found != expected:
        raise ValueError(f"{what}: {found}, but must be {expected}")


def _checked(name: str, array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    same(array.dtype, np.dtype(dtype), f"the type of {name}")
    sound = np.isfinite(array)
    if name.endswith(".thresholds"):  # a boosted tree sends everything to one side by an infinite threshold
        sound |= np.abs(array) == np.inf
    if not sound.all():
        raise ValueError(f"{name} holds values that are not finite")
    return array


def _check_trees(trees: Trees, n_columns: int) -> None:
    n_nodes = len(trees.values)
    same(trees.children.shape, (n_nodes, 2), "children")
    same((trees.features.shape, trees.thresholds.shape), ((n_nodes,), (n_nodes,)), "nodes")
    places = np.arange(n_nodes)
    is_leaf = (trees.children == places[:, None]).all(axis=1)
    # Children stand after their parent, so that every walk comes to an end.
    leads_on = (trees.children > places[:, None]).all(axis=1) & (trees.children < n_nodes).all(axis=1)
    inside = (trees.features >= 0) & (trees.features < n_columns)
    same(trees.depths.shape, (len(trees.roots),), "depths")
    roots_inside = (trees.roots >= 0) & (trees.roots < n_nodes)
    roots_inside &= (trees.depths >= 0) & (trees.depths <= n_nodes)
    if trees.roots.ndim != 1 or not ((is_leaf | leads_on) & inside).all() or not roots_inside.all():
        raise ValueError("a tree points outside of itself")
    # Nor may two ways lead to one node: walking all of them would take forever.
    if np.bincount(np.append(trees.children[~is_leaf], trees.roots), minlength=1).max() > 1:
        raise ValueError("a node belongs to two others")


def _plain_parameters(detector: Any) -> dict[str, Any]:
    """Return the parameters as JSON values. Callbacks and generators stay behind: they are no settings."""
    plain = {}
    for name, value in detector.get_params(deep=False).items():
        value = value.item() if isinstance(value, np.generic) else value
        value = list(value) if isinstance(value, tuple) else value
        if name == "callback" or (name == "random_state" and not isinstance(value, int)):
            value = None
        plain[name] = value
    return plain


def _or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None  # JSON has no NaN
