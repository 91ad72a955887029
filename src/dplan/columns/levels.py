"""What columns with levels have in common, whether each level has a feature or only its frequency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import highest_first
from dplan.columns.column import TEXTS, Bins, Column
from dplan.columns.formatting import LONGEST_VALUE, format_value
from dplan.columns.records import Condition, Counts, Features, Graph, Histogram

__all__ = ["Levels", "read_part"]

_BARS = 7  # levels in a distribution


@dataclass(frozen=True, kw_only=True)
class Levels(Column):
    """Text with levels, of which some have a feature: those at the beginning of `levels`, in this order.

    Attributes
    ----------
    levels : tuple of str
        The levels.
    """

    is_decided_only = False
    has_levels = True
    tensor = "texts"

    levels: tuple[str, ...] = ()

    @classmethod
    def holds(cls, dtype: pl.DataType) -> bool:
        return dtype in TEXTS

    def accepts(self, dtype: pl.DataType) -> bool:
        return True  # the text of a number may be a level

    def read(self, series: pl.Series) -> pl.Series:
        return self.parse(series) if self.decided and series.dtype == pl.String else series

    @property
    def is_constant(self) -> bool:
        return len(self.levels) == 1

    def format(self, found: Any) -> str:
        return format_value(found, LONGEST_VALUE)

    def write(self, values: Mapping[str, Any], out: NDArray[np.float32]) -> Counts:
        texts = values[self.name].cast(pl.String)
        codes = texts.cast(pl.Enum(self.levels), strict=False).to_physical()
        known = np.flatnonzero(codes.is_not_null().to_numpy())
        out[:] = 0.0
        self._mark(out, known, codes.drop_nulls().to_numpy())
        n_missing = texts.null_count()
        if n_missing:
            out[texts.is_null().to_numpy()] = np.array(self.fill, dtype=np.float32)
        return Counts(n_missing, len(texts) - len(known) - n_missing)

    def _mark(self, out: NDArray[np.float32], rows: NDArray[np.int64], levels: NDArray[np.integer]) -> None:
        """Write the features of rows that have one of the levels, given its place."""
        out[rows, levels] = 1.0

    def conditions(self, found: Any, own: Features, background: Features, known: Features) -> list[Condition]:
        if not own.any():  # unseen
            return []
        level = int(own.argmax())
        name = format_value(self.levels[level])
        # Of an e-mail address, the level is the domain alone.
        operator = "=" if name == self.format(found) else ""
        return [Condition(operator, name, background[:, level] == 1, known[:, level] == 1)]

    def histogram(self, parts: Sequence[Features]) -> Histogram:
        means = [part.astype(np.float64).mean(axis=0) for part in parts]
        strongest = highest_first(np.maximum(means[0], means[-1]))[:_BARS]
        labels = [self.levels[level] for level in strongest]
        shares = [np.append(mean[strongest], max(0.0, 1 - mean[strongest].sum())) for mean in means]
        if max(share[-1] for share in shares) < 0.005:
            return Histogram(labels, None, [share[:-1] for share in shares])
        n_others = len(self.levels) - len(strongest)
        others = f"{n_others:,} other levels and new ones" if n_others else "levels not seen in training"
        while others in labels:
            others = f"all {others}"
        return Histogram([*labels, others], None, shares)

    def bins(self, quantiles: NDArray[np.float64]) -> Bins:
        return []

    def counts(self, rows: Features, bins: Bins) -> list[list[int]]:
        levels = rows.sum(axis=0).round()  # one level per feature; the rest was unseen in training
        return [[*levels.astype(int).tolist(), max(0, len(rows) - int(levels.sum()))]]

    def distance(self, shares: NDArray[np.float64]) -> float:
        return float(np.abs(shares).sum() / 2)  # total variation: levels have no order

    def spread(self, series: pl.Series) -> str:
        counts = series.drop_nulls().cast(pl.String).value_counts(sort=True)
        listed = ", ".join(format_value(text) for text in counts[counts.columns[0]].head(3).to_list())
        return listed + (f" and {counts.height - 3:,} more" if counts.height > 3 else "")

    def onnx(self, graph: Graph, cell_of: Callable[[str], str]) -> str:
        text = cell_of(self.name)
        levels = graph.constant(np.array([self.levels], dtype=object))
        known = self._marked_in_onnx(
            graph, graph.add("Cast", graph.add("Equal", text, levels), to=1)
        )  # float32
        missing = graph.constant(np.array([self.fill], dtype=np.float32))
        empty = graph.constant(np.array([""], dtype=object))
        return graph.add("Where", graph.add("Equal", text, empty), missing, known)

    def _marked_in_onnx(self, graph: Graph, hot: str) -> str:
        """Add what `_mark` does, given a one for the level and zeros for the others."""
        return hot

    def schema(self) -> dict[str, Any]:
        return {**super().schema(), "examples": list(self.levels[:3])}


def read_part(texts: pl.Series, part: str) -> pl.Series:
    """Reduce structured text to a part of it; a part alone stays.

    Examples
    --------
    >>> read_part(pl.Series(["ann@Example.org", "example.org"]), "domain").to_list()
    ['example.org', 'example.org']
    """
    texts = texts.str.strip_chars()
    if part == "country":
        return texts.str.slice(0, 2).str.to_uppercase()
    pattern = r"^.*@" if part == "domain" else r"(?i)^https?://(?:www\.)?|[/:?#].*$"
    return texts.str.replace_all(pattern, "").str.to_lowercase()
