"""Save and load detectors. Each lists its fitted attributes in `_saved`, and all of them are checked on loading."""

import inspect
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan.detectors._fields import Stored, same
from dplan.detectors._registry import entry_of
from dplan.persistence import model_file
from dplan.persistence.atomic import store
from dplan.persistence.model_file import Tensors


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
    store(path, content)


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
        # Without durations, so that the same training gives the same file.
        "history": {
            key: [None if key == "seconds" else _or_none(value) for value in values]
            for key, values in detector.history_.items()
        },
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
    unknown = sorted(set(parameters) - set(_parameter_names(kind)))
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


def _parameter_names(kind: Any) -> list[str]:
    return sorted(inspect.signature(kind).parameters)


def _plain_parameters(detector: Any) -> dict[str, Any]:
    """Return the parameters as JSON values. Callbacks and generators are not saved."""
    plain = {}
    for name in _parameter_names(type(detector)):
        value = getattr(detector, name)
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
