"""Colours, groups and labels of all pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan.explain.drawing import LOWERS, RAISES, plain

__all__ = ["GREY", "groups_of", "labelled", "repeated", "threshold_of", "truth_of"]

GREY = "#8a8f98"
_COLOURS = (RAISES, LOWERS, "#15803d", "#7c3aed", "#a16207", "#0e7490")


def threshold_of(model: Any) -> float:
    """Return the lowest score of an alert of a model or a detector."""
    fitted = model.to_model() if hasattr(model, "to_model") else model
    return -float(fitted.offset_)


def truth_of(y: ArrayLike, n_rows: int) -> NDArray[np.bool_]:
    """Return which rows are anomalies, given labels: true, or a number above 0."""
    values = np.asarray(y)
    if values.shape != (n_rows,):
        raise ValueError(f"y must have one value for each of the {n_rows:,} rows, got shape {values.shape}")
    if values.dtype.kind not in "biuf":
        raise ValueError("y must be true or false for each row; compare words first, as in y == 'fraud'")
    return np.asarray(values > 0, dtype=np.bool_)


def groups_of(y: ArrayLike, n_rows: int) -> dict[str, NDArray[np.bool_]]:
    """Return the rows of each group by its name, the largest group first."""
    values = np.asarray(y).astype(str)
    if values.shape != (n_rows,):
        raise ValueError(f"expected one value for each of the {n_rows:,} rows, got shape {values.shape}")
    names, counts = np.unique(values, return_counts=True)
    order = np.argsort(counts, kind="stable")[::-1]
    return {plain(str(names[i])): values == names[i] for i in order}


def repeated(n: int) -> list[str]:
    """Return n colours: grey for the first and largest group, if there are several."""
    colours = _COLOURS if n == 1 else (GREY, *_COLOURS)
    return [colours[i % len(colours)] for i in range(n)]


def labelled(picture: Any, x: str, y: str) -> Any:
    """Name the axes of a picture and return it."""
    picture.set_xlabel(x)
    picture.set_ylabel(y)
    picture.spines[["top", "right"]].set_visible(False)
    return picture
