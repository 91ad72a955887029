"""What is already known about the rows of a table: their labels, and whether the model was trained on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.tables.label_values import has_verdict, verdicts_of
from dplan.tables.model import TableModel
from dplan.text import shown

__all__ = ["Labels", "TrainingRows"]

_UNLABELLED = ("", "0", "false", "-1")  # labels that mark no anomaly, unless other values do
_LISTED = 10


class Labels:
    """The labels of a table, read chunk by chunk.

    Parameters
    ----------
    model : TableModel
        The model, whose label column is used by default.
    column : str, optional
        The label column; None for the model's, if the table has it.
    anomaly : sequence of str
        Labels of anomalies; without any, those of the training table or all except 0, -1, false and missing ones.
    """

    def __init__(self, model: TableModel, column: str | None, anomaly: Sequence[str]) -> None:
        self.column = column
        self._summary = model.summary
        self._own = model.summary.get("label")
        self._required = column is not None
        self._given = list(anomaly)
        classes = list(model.summary.get("labels", {}))[1:]
        by_name = not anomaly and column in (None, self._own) and not all(name.isdigit() for name in classes)
        self._anomaly = [name.strip().lower() for name in (classes if by_name else anomaly)]
        self._found: Counter[str] = Counter()

    def read(self, frame: pl.DataFrame) -> tuple[list[str], NDArray[np.bool_]] | None:
        """Return the labels of some rows and which of them mark anomalies; None if the table has no labels."""
        if not self._required and self.column is None and self._own in frame.columns:
            self.column = self._own
        if self.column is None:
            return None
        if self.column not in frame.columns:
            raise ValueError(f"the table has no column {shown(self.column)}")
        texts = (
            frame[self.column]
            .cast(pl.String)
            .fill_null("")
            .str.strip_chars()
            .str.replace(r"^(-?\d+)\.0+$", "$1")
        )
        folded = texts.str.to_lowercase()
        marked = folded.is_in(self._anomaly) if self._anomaly else ~folded.is_in(_UNLABELLED)
        if self._given:
            self._found.update(dict(texts.value_counts().iter_rows()))
        return texts.to_list(), marked.to_numpy()

    def judged(self, frame: pl.DataFrame, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which rows have a verdict, anomalous or normal, if some of them are marked as anomalies."""
        labels = frame[self.column or ""]
        if self.column == self._own:
            return marked | has_verdict(labels, self._summary)
        return marked if self._anomaly else marked | verdicts_of(labels, None).astype(np.bool_)

    def check(self) -> None:
        """Raise an error if a given label of anomalies was never found."""
        folded = {text.lower() for text in self._found}
        for value in self._given if self._found else ():
            if value.strip().lower() not in folded:
                listed = ", ".join(
                    f"{shown(text)} ({n:,} rows)" for text, n in self._found.most_common(_LISTED)
                )
                raise ValueError(
                    f"label column {shown(self.column)} has no value {shown(value)}; its values are {listed}"
                )


class TrainingRows:
    """Finds rows that the model was trained on, by the training rows that it keeps."""

    def __init__(self, model: TableModel) -> None:
        self._background = _digests(model.background)
        self._seen = np.zeros(len(self._background), dtype=bool)
        self._distinct = len(np.unique(self._background)) / len(self._background)
        names = model.summary.get("known_names") or ["a known anomaly"] * len(model.known_anomalies)
        self._known = dict(zip(_digests(model.known_anomalies).tolist(), names, strict=False))

    def add(self, prepared: Floats) -> None:
        """Look for training rows among some prepared rows."""
        self._seen |= np.isin(self._background, _digests(prepared))

    def known_names(self, prepared: Floats) -> list[str]:
        """Return the known anomaly with the same values as each row; an empty text if no anomaly has them."""
        return [self._known.get(digest, "") for digest in _digests(prepared).tolist()]

    @property
    def share(self) -> float:
        """The fraction of the unlabelled training rows that the table contains; 0 if too many rows are identical."""
        return float(self._seen.mean()) if self._distinct > 0.5 else 0.0


def _digests(prepared: Floats) -> NDArray[np.uint64]:
    """Return a number for each row, the same for equal rows and most likely different for others."""
    bits = np.ascontiguousarray(prepared, dtype=np.float32).view(np.uint32)
    factors: NDArray[np.uint64] = np.random.default_rng(0).integers(
        1, 2**63, (bits.shape[1],), dtype=np.uint64
    )
    digests = np.zeros(len(bits), dtype=np.uint64)
    for j in range(bits.shape[1]):
        digests += bits[:, j] * factors[j]
    return digests
