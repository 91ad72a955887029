"""What is already known about the rows of a table: their labels, and whether the model was trained on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s
from dplan.tables.label_columns import labels_in
from dplan.tables.labels import LabelReader
from dplan.tables.model import TableModel
from dplan.tables.words import Words, listed, says_nothing, words_of
from dplan.text import shown

__all__ = ["TableLabels", "TrainingRows"]


class TableLabels:
    """The labels of a table, read chunk by chunk.

    Parameters
    ----------
    model : TableModel
        The model, whose label column is used by default.
    column : str, optional
        The label column; None for the model's, if the table has it.
    anomaly : sequence of str
        Labels of anomalies, and all others are not; without any, labels mean what they mean for the model.

    Attributes
    ----------
    found : bool
        Whether the table has labels, as far as it was read.
    """

    def __init__(self, model: TableModel, column: str | None, anomaly: Sequence[str]) -> None:
        self.found = False
        self._needed, self._given = column is not None, list(anomaly)
        self._column = column or model.summary.label
        words = Words.of(anomaly, None, None) if anomaly else words_of(model)
        assert words is not None
        self._reader = LabelReader(self._column, words, f"--label {self._column} --anomaly VALUE")

    def read(self, frame: pl.DataFrame) -> NDArray[np.int64]:
        """Return the labels of some rows: above 0 for anomalies, -1 for checked normal rows, 0 for all others."""
        labels = labels_in(frame, self._column)
        if labels is None:
            if self._needed:
                raise ValueError(f"the table has no column {shown(self._column)}")
            return np.zeros(frame.height, dtype=np.int64)
        self.found = True
        codes = self._reader.read(labels)
        return np.where(np.isin(codes, list(self._reader.new.values())), 0, codes)

    def texts(self, frame: pl.DataFrame) -> list[str]:
        """Return the labels of some rows as they are written; an empty text for one that says nothing."""
        labels = labels_in(frame, self._column)
        if labels is None:
            return [""] * frame.height
        texts = labels.cast(pl.String).fill_null("").str.strip_chars()
        whole = texts.str.replace(r"^(-?\d+)\.0+$", "$1")
        return ["" if says_nothing(text) else text for text in whole.to_list()]

    def check(self, *, skipped: bool) -> None:
        """Raise an error if a given label was never found or, unless labelled rows are skipped, if nobody knows one."""
        found = self._reader.spellings
        for value in self._given if found else ():
            if self._reader.words.key(value.strip()) not in found:
                texts = {text: n for own in found.values() for text, n in own.items()}
                raise ValueError(
                    f"label column {shown(self._column)} has no value {shown(value)}; its values are {listed(texts)}"
                )
        if not skipped:
            self._reader.check()


class TrainingRows:
    """Finds rows that the model was trained on, by the training rows that it keeps."""

    def __init__(self, model: TableModel) -> None:
        self._background = _digests(model.background)
        self._seen = np.zeros(len(self._background), dtype=bool)
        self._distinct = len(np.unique(self._background)) / len(self._background)
        names = model.summary.known_names
        self._known = dict(zip(_digests(model.known_anomalies).tolist(), names, strict=False))

    def add(self, prepared: Float32s) -> None:
        """Look for training rows among some prepared rows."""
        self._seen |= np.isin(self._background, _digests(prepared))

    def known_names(self, prepared: Float32s) -> list[str]:
        """Return the known anomaly with the same values as each row; an empty text if no anomaly has them."""
        return [self._known.get(digest, "") for digest in _digests(prepared).tolist()]

    @property
    def share(self) -> float:
        """The fraction of the unlabelled training rows that the table contains; 0 if too many rows are identical."""
        return float(self._seen.mean()) if self._distinct > 0.5 else 0.0


def _digests(prepared: Float32s) -> NDArray[np.uint64]:
    """Return a number for each row, the same for equal rows and most likely different for others."""
    bits = np.ascontiguousarray(prepared, dtype=np.float32).view(np.uint32)
    factors: NDArray[np.uint64] = np.random.default_rng(0).integers(
        1, 2**63, (bits.shape[1],), dtype=np.uint64
    )
    digests = np.zeros(len(bits), dtype=np.uint64)
    for j in range(bits.shape[1]):
        digests += bits[:, j] * factors[j]
    return digests
