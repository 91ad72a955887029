"""How fitted attributes are stored, and the checks of those that come from a file.

Kernels do not check bounds when they traverse trees and networks, so nothing from a file may reach them unchecked.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.trees import Trees
from dplan.persistence.model_file import Tensors

_LARGEST = 1e100  # far larger than any fitted value, and small enough for finite sums
_MOST_LAYERS = 100  # far more than any network has; finding a layer's weights takes a step per layer

# Far deeper than fitted trees. The time to explain a score is proportional to nodes times levels.
_DEEPEST = 1_000

COLUMNS = "columns"  # in a shape: the number of columns of the detector


class Stored(NamedTuple):
    """The part of a file that stores fitted attributes."""

    tensors: Tensors
    numbers: dict[str, Any]
    n_columns: int = 0


class Field(Protocol):
    """How a fitted attribute is stored."""

    def put(self, name: str, value: Any, stored: Stored) -> None:
        """Store it."""

    def take(self, name: str, stored: Stored) -> Any:
        """Return what is stored, checked."""

    def size(self, value: Any) -> int:
        """Return the number of stored values, which bounds the work to score a row."""


@dataclass(frozen=True)
class Number:
    """A fitted attribute that is a number of at least `lowest`."""

    lowest: float = -math.inf

    def put(self, name: str, value: Any, stored: Stored) -> None:
        """Store it."""
        stored.numbers[name] = value

    def take(self, name: str, stored: Stored) -> Any:
        """Return what is stored, checked."""
        number = stored.numbers[name]
        if type(number) not in (int, float):
            raise ValueError(f"{name} is not a number")
        if not max(self.lowest, -_LARGEST) <= number <= _LARGEST:
            raise ValueError(f"{name} is {str(number)[:20]}, which is out of range")
        return float(number)

    def size(self, value: Any) -> int:
        """See `Field`."""
        return 1


@dataclass(frozen=True)
class Array:
    """A fitted attribute that is an array. A length in its shape is an integer, `COLUMNS`, or None for any except 0.

    Values are at least `lowest`, and at most `largest` in absolute value, which may be infinite.
    """

    dtype: Any = np.float32
    shape: tuple[int | str | None, ...] = (None,)
    may_be_empty: bool = False
    lowest: float = -math.inf
    largest: float = _LARGEST

    def put(self, name: str, value: Any, stored: Stored) -> None:
        """Store it."""
        stored.tensors[name] = value

    def take(self, name: str, stored: Stored) -> Any:
        """Return what is stored, checked."""
        array = stored.tensors[name]
        expected = tuple(stored.n_columns if length == COLUMNS else length for length in self.shape)
        lengths = zip(array.shape, expected, strict=False)
        if len(array.shape) != len(expected) or any(e not in (None, found) for found, e in lengths):
            wanted = str(expected).replace("None", "any")
            raise ValueError(f"{name} has the shape {array.shape}, expected {wanted}")
        if array.size == 0 and not self.may_be_empty:
            raise ValueError(f"{name} is empty")
        same(array.dtype, np.dtype(self.dtype), f"the type of {name}")
        extremes = (float(array.min()), float(array.max())) if array.size else ()
        for extreme in extremes:  # both are NaN if any value is
            if not max(self.lowest, -self.largest) <= extreme <= self.largest:
                raise ValueError(f"{name} contains {extreme:g}, which is out of range")
        return array

    def size(self, value: Any) -> int:
        """See `Field`."""
        return int(value.size)


@dataclass(frozen=True)
class Optional:
    """A fitted attribute that is only stored if it is not the default, which is also that of older files."""

    field: Field
    default: Any = None

    def put(self, name: str, value: Any, stored: Stored) -> None:
        """Store it."""
        if not np.array_equal(value, self.default):
            self.field.put(name, value, stored)

    def take(self, name: str, stored: Stored) -> Any:
        """Return what is stored, checked."""
        is_stored = name in stored.tensors or name in stored.numbers
        return self.field.take(name, stored) if is_stored else self.default

    def size(self, value: Any) -> int:
        """See `Field`."""
        return 0 if value is None else self.field.size(value)


@dataclass(frozen=True)
class TreeArrays:
    """A fitted attribute that is `Trees`, stored as one array per field; leaf values are at least `lowest`.

    Trees may test more columns than the table has, if the detector adds `n_more_columns`.
    """

    lowest: float = -math.inf
    n_more_columns: int = 0
    may_be_empty: bool = False

    def put(self, name: str, value: Any, stored: Stored) -> None:
        """Store them."""
        stored.tensors.update({f"{name}.{key}": part for key, part in value._asdict().items()})

    def take(self, name: str, stored: Stored) -> Trees:
        """Return what is stored, checked."""
        integers = Array(np.int32, may_be_empty=self.may_be_empty)
        how = {
            "children": replace(integers, shape=(None, 2)),
            # An infinite threshold sends all rows of a boosted tree to one side.
            "thresholds": replace(integers, dtype=np.float32, largest=math.inf),
            "values": replace(integers, dtype=np.float64, lowest=self.lowest),
        }
        parts = {key: how.get(key, integers).take(f"{name}.{key}", stored) for key in Trees._fields}
        trees = Trees(**parts)
        check_trees(name, trees, stored.n_columns + self.n_more_columns)
        return trees

    def size(self, value: Any) -> int:
        """See `Field`."""
        return len(value.values)


# The weights and layers of a network; `check_network` compares the two.
NETWORK: dict[str, Field] = {"weights_": Array(), "layer_sizes_": Array(np.int64)}


def check_network(detector: Any, n_outputs: int | None = None) -> None:
    """Raise unless the weights match the layers, and these the columns and the number of outputs."""
    fewest = 2 if n_outputs is None else 3  # a network with outputs has a hidden layer
    if not fewest <= len(detector.layer_sizes_) <= _MOST_LAYERS:
        raise ValueError(
            f"layer_sizes_ has {len(detector.layer_sizes_):,} layers, expected {fewest} to {_MOST_LAYERS}"
        )
    sizes = detector.layer_sizes_.tolist()
    if not all(0 < size < 2**31 for size in sizes):
        raise ValueError(f"invalid layer_sizes_: {sizes}")
    same(sizes[0], detector.n_features_in_, "inputs")
    same(sizes[-1], n_outputs or sizes[-1], "outputs")
    same(detector.weights_.size, sum((below + 1) * above for below, above in pairwise(sizes)), "weights")


def same(found: object, expected: object, what: str) -> None:
    """Raise unless two values are equal.

    Examples
    --------
    >>> same(3, 4, "inputs")
    Traceback (most recent call last):
    ValueError: inputs: expected 4, got 3
    """
    if found != expected:
        raise ValueError(f"{what}: expected {expected}, got {found}")


def check_trees(name: str, trees: Trees, n_columns: int) -> None:
    """Raise ValueError unless every node is in one tree and tests a column, and all depths are right.

    Examples
    --------
    >>> from dplan._kernels.trees import complete_trees
    >>> stump = complete_trees(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32), np.ones((1, 2), np.float32))
    >>> check_trees("trees_", stump, n_columns=1)
    >>> check_trees("trees_", stump._replace(depths=np.array([9])), n_columns=1)
    Traceback (most recent call last):
    ValueError: trees_: tree 0 has a depth of 1, but the file says 9
    """
    n_nodes = len(trees.values)
    for key in ("children", "features", "thresholds"):
        found = len(getattr(trees, key))
        if found != n_nodes:
            raise ValueError(f"{name} has {found:,} {key} for {n_nodes:,} nodes")
    if len(trees.depths) != len(trees.roots):
        raise ValueError(f"{name} has {len(trees.depths):,} depths for {len(trees.roots):,} trees")
    _reject(name, "tests a column that does not exist", (trees.features < 0) | (trees.features >= n_columns))
    places = np.arange(n_nodes)[:, None]
    is_leaf = (trees.children == places).all(axis=1)
    # Children come after their parent, so that every traversal ends.
    is_inner = ((trees.children > places) & (trees.children < n_nodes)).all(axis=1)
    _reject(name, "has invalid children", ~(is_leaf | is_inner))
    outside = (trees.roots < 0) | (trees.roots >= n_nodes)
    if outside.any():
        raise ValueError(f"{name}: the root of tree {np.argmax(outside)} does not exist")
    # A node must not have two parents: visiting all paths could take forever.
    parents = np.bincount(np.append(trees.children[~is_leaf], trees.roots), minlength=n_nodes)
    _reject(name, "has two parents", parents > 1)
    _reject(name, "is in no tree", parents < 1)
    _check_depths(name, trees, is_leaf)


def _check_depths(name: str, trees: Trees, is_leaf: NDArray[np.bool_]) -> None:
    """Traverse all trees level by level, and compare their depths with the stored ones."""
    depths = np.zeros(len(trees.roots), dtype=np.int64)
    nodes, tree_of = trees.roots, np.arange(len(trees.roots))
    for depth in range(_DEEPEST + 1):
        inner = ~is_leaf[nodes]
        if not inner.any():
            break
        nodes, tree_of = trees.children[nodes[inner]].ravel(), np.repeat(tree_of[inner], 2)
        depths[tree_of] = depth + 1
    else:
        raise ValueError(f"{name}: tree {tree_of[0]} is more than {_DEEPEST:,} levels deep")
    wrong = depths != trees.depths
    if wrong.any():
        tree = int(np.argmax(wrong))
        raise ValueError(
            f"{name}: tree {tree} has a depth of {depths[tree]:,}, but the file says {trees.depths[tree]:,}"
        )


def _reject(name: str, why: str, wrong: NDArray[np.bool_]) -> None:
    if wrong.any():
        raise ValueError(f"{name}: node {np.argmax(wrong)} {why}")
