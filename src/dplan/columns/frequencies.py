"""Text with very many levels, such as customers or postcodes: how frequent a level is, and a few levels themselves.

One feature per level would cost most of the time of a fit, and says little about levels that few rows have. Labels are
not used, so that nothing leaks from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.column import Bins, Column
from dplan.columns.formatting import format_share, format_value
from dplan.columns.levels import Levels, read_part
from dplan.columns.records import (
    SAME,
    Condition,
    Features,
    Graph,
    Histogram,
    Training,
    Typical,
)
from dplan.columns.unused import Unused
from dplan.text import visible

__all__ = ["Frequency"]

_FEATURES = 63  # levels that have a feature of their own
_MOST_LEVELS = 10_000  # whose frequency is stored


@dataclass(frozen=True, kw_only=True)
class Frequency(Levels):
    """Text of which the first feature is the frequency of the level; the most frequent levels have one each, too.

    Attributes
    ----------
    levels, shares : tuple
        The levels, the most frequent first, and the shares of the training rows that have them.
    part : str
        The part of structured text that is used, as in `Part`; empty for the whole.
    """

    kind = "text by frequency"
    words = ("frequency",)

    shares: tuple[float, ...] = ()
    part: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.shares, list):  # from JSON
            object.__setattr__(self, "shares", tuple(self.shares))

    @classmethod
    def like(cls, column: Levels) -> Frequency:
        """Return the column that learns the frequencies of another one's levels."""
        part = getattr(column, "part", "")
        return cls(why=column.why, sure=column.sure, decided=column.decided, part=part)

    def parse(self, texts: pl.Series) -> pl.Series:
        return read_part(texts, self.part) if self.part else texts.str.strip_chars()

    def learn(self, series: pl.Series, training: Training) -> Column:
        """Learn the levels and their shares.

        Examples
        --------
        >>> shop = pl.Series("shop", ["a", "b", "a", "c", "a", None])
        >>> column = Frequency().learn(shop, Training(shop.to_frame(), [], 255))
        >>> column.levels, column.shares, column.output_names()
        (('a', 'b', 'c'), (0.6, 0.2, 0.2), ['shop', 'shop=a', 'shop=b', 'shop=c'])
        """
        texts = series.drop_nulls()
        if texts.is_empty():
            return Unused.without_values(series.name)
        found = pl.DataFrame({"level": texts.cast(pl.String)}).group_by("level").len()
        found = found.sort("len", "level", descending=[True, False])
        shares = found["len"].to_numpy() / len(texts)
        stored, n_own = shares[:_MOST_LEVELS].tolist(), min(_FEATURES, training.max_levels, len(shares))
        learned = replace(
            self, name=series.name, levels=tuple(found["level"].head(_MOST_LEVELS)), shares=tuple(stored)
        )
        mean = float((learned._frequencies.astype(np.float64) * shares[:_MOST_LEVELS]).sum())
        return replace(learned, fill=(min(mean, 1.0), *stored[:n_own]))

    @property
    def _frequencies(self) -> NDArray[np.float32]:
        """The first feature of each level: from nearly 0 for the rarest to 1; on a scale of logarithms."""
        least = self.shares[-1]
        times = np.log1p(np.array(self.shares) / least)
        return np.asarray(times / times[0], dtype=np.float32)

    def _share_of(self, feature: float) -> float:
        """Return the share of the training rows that have a level with this first feature."""
        least = self.shares[-1]
        return float(np.expm1(feature * np.log1p(self.shares[0] / least)) * least)

    def _shown(self, feature: float) -> str:
        share = self._share_of(feature)
        return format_share(share) if share >= 0.01 else f"{100 * share:.2g} %"

    def limit(self) -> tuple[int, float]:
        return len(self.levels), max(0.0, 1.0 - sum(self.shares))

    def output_names(self) -> list[str]:
        return [self.name, *(f"{self.name}={level}" for level in self.levels[: self.width - 1])]

    def _mark(self, out: NDArray[np.float32], rows: NDArray[np.int64], levels: NDArray[np.integer]) -> None:
        out[rows, 0] = self._frequencies[levels]
        own = levels < self.width - 1
        out[rows[own], levels[own] + 1] = 1.0

    def restored(self, own: Features) -> str:
        if own[1:].max() == 1:
            return visible(self.levels[int(own[1:].argmax())], 80)
        return "missing or rare" if self.is_new(own) else self._of_rows(own[0])

    def _of_rows(self, feature: float) -> str:
        return f"a value of {self._shown(feature)} of rows"

    def typical(self, background: Features) -> Typical:
        """Return how frequent typical levels are.

        Examples
        --------
        >>> column = Frequency(name="shop", fill=(0.9, 0.8), levels=("a", "b", "c"), shares=(0.8, 0.19, 0.01))
        >>> column.typical(np.array([[1.0, 1.0]] * 8 + [[0.6815, 0.0]] * 2)).text
        'values of at least 19 % of rows'
        """
        low = float(np.quantile(background[:, 0], 0.05, method="lower")) if len(background) else 0.0
        return Typical(f"values of at least {self._shown(low)} of rows", low=low)

    def conditions(self, found: Any, own: Features, background: Features, known: Features) -> list[Condition]:
        if self.is_new(own):
            return []
        if own[1:].max() == 1:
            return super().conditions(found, own[1:], background[:, 1:], known[:, 1:])
        rarer = (rows[:, 0] <= own[0] + SAME for rows in (background, known))
        return [Condition("", f"a value of at most {self._shown(float(own[0]))} of rows", *rarer)]

    def is_new(self, own: Features) -> bool:
        return bool(own[0] <= SAME)

    def histogram(self, parts: Sequence[Features]) -> Histogram:
        return super().histogram([part[:, 1:] for part in parts])

    def picture(self, background: Features, own: Features, *, missing: bool) -> dict[str, Any]:
        mine = int(own[1:].argmax()) if own[1:].max() == 1 else None
        most = [0, 1, 2, 3][: self.width - 1]
        order = most if mine is None or mine in most else [*most, mine]
        bars = [[visible(self.levels[k], 40), round(self.shares[k], 4), k == mine] for k in order]
        if mine is None and not missing and not self.is_new(own):
            bars.append([self._of_rows(float(own[0])), round(self._share_of(float(own[0])), 4), True])
        return {"bars": bars}

    def counts(self, rows: Features, bins: Bins) -> list[list[int]]:
        return super().counts(rows[:, 1:], bins)

    def summary(self) -> str:
        listed = ", ".join(map(format_value, self.levels[:8])) + (", …" if len(self.levels) > 8 else "")
        n_own = self.width - 1
        return (
            f"{len(self.levels):,} levels by frequency, {n_own} of them with a feature of their own: {listed}"
        )

    def _marked_in_onnx(self, graph: Graph, hot: str) -> str:
        features = np.zeros((len(self.levels), self.width), dtype=np.float32)
        features[:, 0] = self._frequencies
        features[np.arange(self.width - 1), np.arange(1, self.width)] = 1.0
        return graph.add("MatMul", hot, graph.constant(features))

    def is_valid(self) -> bool:
        numbers = isinstance(self.shares, tuple) and all(type(share) in (int, float) for share in self.shares)
        return (
            super().is_valid()
            and numbers
            and len(self.shares) == len(self.levels) == len(set(self.levels))
            and 0 < self.width - 1 <= len(self.levels)
            and all(0 < share <= 1 for share in self.shares)
            and list(self.shares) == sorted(self.shares, reverse=True)
        )
