"""Save and load detectors. Each lists its fitted attributes in `_saved`, and all of them are checked on loading.

Kernels do not check bounds when they traverse trees and networks, so nothing from a file may reach them unchecked.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.trees import Trees
from dplan.detectors._registry import entry_of
from dplan.detectors._tree_checks import check_trees
from dplan.persistence import model_file
from dplan.persistence.model_file import Tensors

_LARGEST = 1e100  # far larger than any fitted value, and small enough for finite sums
_MOST_LAYERS = 100  # far more than any network has; finding a layer's weights takes a step per layer

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


@dataclass(frozen=True)
class SavedModel:
    """The contents of a model file.

    Attributes
    ----------
    detector : Detector
        The fitted detector.
    preparation : object
        How a table is turned into the detector's features, as JSON values; None if it was fitted on an array.
    arrays : dict
        Additional arrays, such as a sample of the training rows.
    summary : dict
        How the model was trained, as JSON values.
    package : str
        Version of this package that wrote the file.
    digest : str
        SHA-256 of the file.
    """

    detector: Any
    preparation: Any = None
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    summary: dict[str, Any] = field(default_factory=dict, repr=False)
    package: str = ""
    digest: str = ""


def save(
    path: str | Path,
    detector: Any,
    *,
    preparation: Any = None,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    summary: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted detector and additional data to a file; see `SavedModel`.

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
    content = packed(detector, preparation=preparation, arrays=arrays, summary=summary)
    model_file.store(path, content)


def packed(
    detector: Any,
    *,
    preparation: Any = None,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    summary: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the bytes of the file that `save` writes."""
    name = type(detector).__name__
    entry = entry_of(name)
    if entry is None or type(detector) is not entry.detector:
        raise TypeError(
            f"cannot save a {name}: only registered detectors can be saved; see docs/adding-a-detector.md"
        )
    if not hasattr(detector, "offset_"):
        raise ValueError(f"this {name} is not fitted yet; call fit before save")
    stored = Stored({}, {})
    for key, kind in detector._saved.items():
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
    return model_file.packed(description, stored.tensors | kept)


def load(source: str | Path | bytes) -> SavedModel:
    """Read what `save` wrote, from a file or from bytes; raise ModelFileError for anything else."""
    contents = model_file.read(source)
    with model_file.model_file_errors(contents.name):
        description, tensors = contents.description, contents.tensors
        for key in ("parameters", "numbers", "history", "summary"):
            if not isinstance(description[key], dict):
                raise ValueError(f"{key} is not a JSON object")
        arrays = {key.removeprefix("table."): tensors[key] for key in tensors if key.startswith("table.")}
        preparation, summary = description["preparation"], description["summary"]
        detector = _rebuilt(description, tensors)
        return SavedModel(detector, preparation, arrays, summary, contents.package, contents.digest)


def _rebuilt(description: dict[str, Any], tensors: Tensors) -> Any:
    name, n_features = description["detector"], description["n_features"]
    entry = entry_of(name)
    if entry is None:
        raise ValueError(f"unknown detector {name!r}")
    if type(n_features) is not int or n_features < 1:
        raise ValueError(f"invalid n_features: {n_features!r}")
    kind = entry.detector
    parameters = {
        key: tuple(value) if isinstance(value, list) else value  # JSON has no tuples
        for key, value in description["parameters"].items()
        if key not in kind._removed or value != kind._removed[key]
    }
    unknown = sorted(set(parameters) - set(kind._get_param_names()))
    if unknown:
        raise ValueError(f"{name} has no parameter {unknown[0]!r}")
    detector = kind(**parameters)
    detector._checked_rng()
    detector.n_features_in_ = n_features
    stored = Stored(tensors, description["numbers"], n_features)
    for key, how in detector._saved.items():
        setattr(detector, key, how.take(key, stored))
    detector._check_saved()
    names = description["feature_names"]
    if names is not None:
        if not isinstance(names, list) or not all(isinstance(column, str) for column in names):
            raise ValueError("feature_names must be strings")
        same(len(names), n_features, "feature names")
        detector.feature_names_in_ = np.array(names, dtype=object)
    detector.history_ = {key: _rounds(key, values) for key, values in description["history"].items()}
    return detector


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


def _plain_parameters(detector: Any) -> dict[str, Any]:
    """Return the parameters as JSON values. Callbacks and generators are not saved."""
    plain = {}
    for name, value in detector.get_params(deep=False).items():
        value = value.item() if isinstance(value, np.generic) else value
        value = list(value) if isinstance(value, tuple) else value
        if name == "callback" or (name == "random_state" and not isinstance(value, int)):
            value = None
        plain[name] = value
    return plain


def _rounds(key: str, values: Any) -> list[float]:
    """Return the values of a metric, one per round of training."""
    if not isinstance(values, list) or not all(
        value is None or (type(value) in (int, float) and abs(value) <= sys.float_info.max)
        for value in values
    ):
        raise ValueError(f"the history of {key!r} is not a list of numbers")
    return [math.nan if value is None else float(value) for value in values]


def _or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None  # JSON has no NaN
