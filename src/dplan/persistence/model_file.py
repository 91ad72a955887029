"""Saving and loading fitted detectors: one file, no pickle, nothing in it is executed.

A model file is a safetensors file (see `dplan.persistence.container`) whose metadata hold one JSON text. The
detector's name in it is looked up in a closed list in this module, and its fitted state is plain arrays and numbers,
each of which is checked before it is used: kernels walk trees and networks without looking left or right.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.trees import Trees
from dplan._version import __version__
from dplan.detectors._base import Detector
from dplan.detectors._explorers import EXPLORERS
from dplan.detectors._registry import list_detectors
from dplan.detectors.ensemble import DPLANEnsemble
from dplan.exceptions import ModelFileError
from dplan.persistence import container as _tensors_file
from dplan.tables.preparing import TablePreparer

__all__ = ["FORMAT", "SavedModel", "load", "read", "save"]

FORMAT = 1  # raised when an older package could not read a newer file rightly; all lower ones keep loading


class _Fitted(NamedTuple):
    """What a detector's fit leaves behind, beside what all detectors have."""

    arrays: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()


_NETWORK = ("weights_", "layer_sizes_")
_FITTED = {
    "DPLAN": _Fitted(_NETWORK),
    "DPLANEnsemble": _Fitted(
        (*_NETWORK, "neighbours_", "middles_", "spreads_", "member_weights_", "score_quantiles_"),
        numbers=("usual_path_length_",),
        trees=("trees_", "forest_"),
    ),
    "DevNet": _Fitted(_NETWORK),
    "DeepSAD": _Fitted((*_NETWORK, "centre_")),
    "REPEN": _Fitted((*_NETWORK, "reference_rows_", "references_")),
    "IForest": _Fitted(numbers=("usual_path_length_",), trees=("trees_",)),
    "DUA": _Fitted((*_NETWORK, "pseudo_anomalies_")),
    "PReNet": _Fitted((*_NETWORK, "reference_rows_"), numbers=("reference_score_",)),
    "LogisticBaseline": _Fitted(("coefficients_",), numbers=("intercept_",)),
    "BoostedBaseline": _Fitted(trees=("trees_",)),
}
_TYPES: dict[str, Any] = {  # of what is not float32
    **dict.fromkeys(("layer_sizes_", "pseudo_anomalies_"), np.int64),
    **dict.fromkeys(("roots", "depths", "children", "features"), np.int32),
    **dict.fromkeys(("column_low_", "column_inverse_", "coefficients_", "values"), np.float64),
    **dict.fromkeys(("middles_", "spreads_", "member_weights_", "score_quantiles_"), np.float64),
}
_OUTPUTS = {"DPLAN": 2, "DevNet": 1, "DUA": 1, "PReNet": 2}


@dataclass(frozen=True)
class SavedModel:
    """What stands in a model file.

    Attributes
    ----------
    detector : Detector
        The fitted detector.
    preparation : TablePreparer or None
        What turned the table into the detector's features.
    arrays : dict
        Arrays that go with the model, such as a sample of the training rows.
    summary : dict
        How the model came about, as JSON values.
    package : str
        Version of this package that wrote the file.
    """

    detector: Detector
    preparation: TablePreparer | None = None
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    summary: dict[str, Any] = field(default_factory=dict, repr=False)
    package: str = __version__


def save(
    path: str | Path,
    detector: Detector,
    *,
    preparation: TablePreparer | None = None,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    summary: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted detector to a file, which is there whole or not at all.

    Parameters
    ----------
    path : path
        The file; an existing one is replaced.
    detector : Detector
        A fitted detector of this package.
    preparation : TablePreparer, optional
        The fitted preparation of the table.
    arrays : mapping, optional
        Arrays of float32, float64 or int64 to keep with it.
    summary : mapping, optional
        JSON values to keep with it.

    Examples
    --------
    >>> import tempfile
    >>> from dplan import LogisticBaseline
    >>> X, y = np.arange(20.0).reshape(-1, 1), np.arange(20) > 17
    >>> detector = LogisticBaseline().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Path(folder) / "model.dplan", detector)
    ...     again = load(Path(folder) / "model.dplan")
    >>> bool((again.anomaly_score(X) == detector.anomaly_score(X)).all())
    True
    """
    name = type(detector).__name__
    if name not in _FITTED or type(detector) is not _class_of(name):
        raise TypeError(f"only detectors of this package can be saved, not {name}")
    if not hasattr(detector, "offset_"):
        raise ValueError(f"this {name} is not fitted yet: call fit before save")
    if hasattr(detector, "booster_"):
        raise TypeError(
            "a model of CatBoost cannot be saved: use engine='scikit-learn', or CatBoost's own save_model"
        )
    fitted = _FITTED[name]
    tensors = {key: getattr(detector, key) for key in ("column_low_", "column_inverse_", *fitted.arrays)}
    for trees in fitted.trees:
        tensors |= {f"{trees}.{key}": part for key, part in getattr(detector, trees)._asdict().items()}
    tensors |= {f"table.{key}": array for key, array in (arrays or {}).items()}
    names = getattr(detector, "feature_names_in_", None)
    description = {
        "format": FORMAT,
        "package": __version__,
        "detector": name,
        "parameters": _plain_parameters(detector),
        "numbers": {key: getattr(detector, key) for key in ("offset_", *fitted.numbers)},
        "n_features": int(detector.n_features_in_),
        "feature_names": None if names is None else [str(column) for column in names],
        "history": {key: [_or_none(value) for value in values] for key, values in detector.history_.items()},
        "preparation": None if preparation is None else preparation.to_state(),
        "summary": dict(summary or {}),
    }
    text = json.dumps(description, separators=(",", ":"), allow_nan=False)
    _tensors_file.write(path, tensors, {"dplan": text})


def load(path: str | Path) -> Any:
    """Load a fitted detector.

    Parameters
    ----------
    path : path
        A file that `save` or ``dplan fit`` wrote.

    Returns
    -------
    Detector
        It scores as the saved one did, to the last bit.

    Raises
    ------
    ModelFileError
        If the file is no model file, is damaged, or comes from a newer version.
    """
    return read(path).detector


def read(source: str | Path | bytes) -> SavedModel:
    """Load everything that stands in a model file, or in its bytes; errors as in `load`."""
    tensors, metadata = _tensors_file.read(source)
    name = "the model" if isinstance(source, bytes) else Path(source).name
    try:
        description = json.loads(metadata["dplan"])
        written, package = description["format"], str(description["package"])
        if type(written) is int and written > FORMAT:
            raise ModelFileError(
                f"{name} was written by dplan {package} in format {written}; "
                f"this is dplan {__version__}, which reads up to {FORMAT}: install a newer one"
            )
        if written != FORMAT:
            raise ValueError(f"there is no format {written!r}")
        detector = _rebuild(description, tensors)
        state = description["preparation"]
        preparation = None if state is None else TablePreparer.from_state(state)
        if preparation is not None:
            _same(len(preparation.output_groups()), detector.n_features_in_, "prepared columns")
        arrays = {key.removeprefix("table."): tensors[key] for key in tensors if key.startswith("table.")}
        summary = description["summary"]
        if not isinstance(summary, dict):
            raise ValueError("the summary is no object")
    except ModelFileError:
        raise
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ModelFileError(f"{name} is no usable model file: {error}") from error
    return SavedModel(detector, preparation, arrays, summary, package)


def _rebuild(description: dict[str, Any], tensors: _tensors_file.Tensors) -> Detector:
    name = description["detector"]
    if name not in _FITTED:
        raise ValueError(f"there is no detector {name!r}")
    parameters = dict(description["parameters"])
    if isinstance(parameters.get("hidden_units"), list):
        parameters["hidden_units"] = tuple(parameters["hidden_units"])
    detector: Detector = _class_of(name)(**parameters)
    detector._check_parameters()
    fitted, n_features = _FITTED[name], description["n_features"]
    arrays = {key: _checked(tensors[key], key) for key in ("column_low_", "column_inverse_", *fitted.arrays)}
    numbers = {key: description["numbers"][key] for key in ("offset_", *fitted.numbers)}
    if type(n_features) is not int or n_features < 1:
        raise ValueError(f"n_features is {n_features!r}")
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers.values()):
        raise ValueError("a fitted number is none")
    _check_shapes(name, arrays, n_features)
    for key, value in (arrays | numbers).items():
        setattr(detector, key, value)
    for trees in fitted.trees:
        parts = {key: _checked(tensors[f"{trees}.{key}"], key) for key in Trees._fields}
        setattr(detector, trees, _checked_trees(Trees(**parts), n_features))
    if isinstance(detector, DPLANEnsemble):
        _check_members(detector)
    detector.n_features_in_ = n_features
    names = description["feature_names"]
    if names is not None:
        _same(len(names), n_features, "feature names")
        detector.feature_names_in_ = np.array([str(column) for column in names], dtype=object)
    detector.history_ = {
        str(key): [math.nan if value is None else float(value) for value in values]
        for key, values in description["history"].items()
    }
    return detector


def _check_shapes(name: str, arrays: dict[str, NDArray[Any]], n_features: int) -> None:
    _same(arrays["column_low_"].shape, (n_features,), "column_low_")
    _same(arrays["column_inverse_"].shape, (n_features,), "column_inverse_")
    if "coefficients_" in arrays:
        _same(arrays["coefficients_"].shape, (n_features,), "coefficients_")
    if "layer_sizes_" in arrays:
        sizes = arrays["layer_sizes_"].tolist()
        if not isinstance(sizes, list) or len(sizes) < 2 or not all(0 < size < 2**31 for size in sizes):
            raise ValueError(f"layer_sizes_ are {sizes}")
        _same(sizes[0], n_features, "inputs")
        _same(sizes[-1], _OUTPUTS.get(name, sizes[-1]), "outputs")
        n_weights = sum((below + 1) * above for below, above in pairwise(sizes))
        _same(arrays["weights_"].shape, (n_weights,), "weights_")
        if "centre_" in arrays:
            _same(arrays["centre_"].shape, (sizes[-1],), "centre_")
        if "references_" in arrays:
            references = arrays["references_"]
            _same((references.ndim, references.shape[0]), (3, sizes[-1]), "references_")
            if references.size == 0:
                raise ValueError("references_ are empty")
    if "neighbours_" in arrays:
        neighbours = arrays["neighbours_"]
        _same((neighbours.ndim, neighbours.shape[-1]), (3, n_features), "neighbours_")
        if neighbours.size == 0:
            raise ValueError("neighbours_ are empty")
    if "reference_rows_" in arrays:
        _same(arrays["reference_rows_"].shape[1:], (n_features,), "reference_rows_")


def _check_members(ensemble: DPLANEnsemble) -> None:
    """Check that every member has its part of the network or its trees."""
    sizes = ensemble.layer_sizes_.tolist()
    n_networks, rest = divmod(sizes[-1], 2)
    if len(sizes) != 3 or n_networks == 0 or rest or sizes[1] % n_networks:
        raise ValueError(f"{sizes} are not the layers of whole network agents")
    n_trees, n_boosted = (
        len(ensemble.trees_.roots),
        len(ensemble.member_weights_) - n_networks - len(EXPLORERS),
    )
    if n_boosted < 0 or (n_trees % n_boosted if n_boosted else n_trees):
        raise ValueError("the trees are not those of whole agents")
    if len(ensemble.forest_.roots) == 0:
        raise ValueError("the forest has no tree")
    for name in ("middles_", "spreads_", "member_weights_"):
        _same(getattr(ensemble, name).shape, (n_networks + n_boosted + len(EXPLORERS),), name)
    if not (ensemble.spreads_ > 0).all() or not (np.diff(ensemble.score_quantiles_) >= 0).all():
        raise ValueError("a spread is not positive, or quantiles are not in order")
    _same(ensemble.score_quantiles_.shape, (1001,), "score_quantiles_")
    if ensemble.usual_path_length_ <= 0:
        raise ValueError("usual_path_length_ is not positive")


def _checked_trees(trees: Trees, n_features: int) -> Trees:
    n_nodes = len(trees.values)
    _same(trees.children.shape, (n_nodes, 2), "children")
    _same((trees.features.shape, trees.thresholds.shape), ((n_nodes,), (n_nodes,)), "nodes")
    places = np.arange(n_nodes)
    is_leaf = (trees.children == places[:, None]).all(axis=1)
    # Children stand after their parent, so that every walk comes to an end.
    goes_on = (trees.children > places[:, None]).all(axis=1) & (trees.children < n_nodes).all(axis=1)
    inside = (trees.features >= 0) & (trees.features < n_features)
    _same(trees.depths.shape, (len(trees.roots),), "depths")
    roots_inside = (trees.roots >= 0) & (trees.roots < n_nodes)
    roots_inside &= (trees.depths >= 0) & (trees.depths <= n_nodes)
    if trees.roots.ndim != 1 or not ((is_leaf | goes_on) & inside).all() or not roots_inside.all():
        raise ValueError("a tree points outside of itself")
    # Nor may two ways lead to one node: walking all of them would take forever.
    if np.bincount(np.append(trees.children[~is_leaf], trees.roots), minlength=1).max() > 1:
        raise ValueError("a node belongs to two others")
    return trees


def _checked(tensor: NDArray[Any], name: str) -> NDArray[Any]:
    _same(tensor.dtype, np.dtype(_TYPES.get(name, np.float32)), f"the type of {name}")
    finite = np.isfinite(tensor)
    # A boosted tree sends everything to one side by an infinite threshold.
    if not (finite | (np.abs(tensor) == np.inf) if name == "thresholds" else finite).all():
        raise ValueError(f"{name} holds values that are not finite")
    return tensor


def _same(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise ValueError(f"{what}: {found}, but {expected} is needed")


def _plain_parameters(detector: Detector) -> dict[str, Any]:
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


def _class_of(name: str) -> Any:
    """Return a detector's class; only names of the closed list above come here."""
    return next(entry.detector for entry in list_detectors() if entry.name == name)
