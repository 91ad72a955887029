"""What column types exchange with the rest of the package: scalings, conditions, typical values, distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = [
    "LIMIT",
    "MANY",
    "MOSTLY",
    "N_BINS",
    "SAME",
    "Condition",
    "Counts",
    "Features",
    "Graph",
    "Hints",
    "Histogram",
    "Scaling",
    "Training",
    "Typical",
    "range_picture",
    "scaled_in_onnx",
]

# New rows are not clipped to [0, 1], but values far beyond the training range would become infinite in float32.
LIMIT = 1e9

SAME = 1e-6  # prepared numbers are float32 values around 1
N_BINS = 24  # of small pictures
MOSTLY, MANY = 0.9, 20  # share of numbers among so many values that text is doubtful

Features = NDArray[np.floating]


class Scaling(NamedTuple):
    """``(x * factor - shift) / span`` is in [0, 1] for training rows."""

    factor: float
    shift: float
    span: float

    @classmethod
    def between(cls, minimum: float, maximum: float) -> Scaling:
        """Return the scaling of a range.

        Examples
        --------
        >>> Scaling.between(100.0, 300.0).apply(np.array([150.0])).tolist()
        [0.25]
        """
        # Near the largest float the span overflows; half of it does not, and halving is exact.
        factor = 1.0 if np.isfinite(maximum - minimum) else 0.5
        span = maximum * factor - minimum * factor
        return cls(factor, minimum * factor, span if span > 0 else 1.0)

    def apply(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale values, with the steps of the preparer's kernel."""
        with np.errstate(over="ignore"):
            return np.clip((values * self.factor - self.shift) / self.span, -LIMIT, LIMIT)

    def invert(self, features: Features) -> NDArray[np.float64]:
        """Return scaled values in the units of the column.

        Examples
        --------
        >>> Scaling.between(100.0, 300.0).invert(np.array([0.25, 1.0])).tolist()
        [150.0, 300.0]
        """
        with np.errstate(over="ignore"):
            return (features.astype(np.float64) * self.span + self.shift) / self.factor

    def inverse(self, feature: float) -> float:
        """Return one scaled value in the units of the column."""
        return (feature * self.span + self.shift) / self.factor


class Counts(NamedTuple):
    """How many values of some rows were missing, unseen in training, and far outside the training range."""

    missing: int = 0
    unseen: int = 0
    outside: int = 0


class Training(NamedTuple):
    """What a column may look at while it learns: the table, the columns before it, and the limit on levels."""

    frame: pl.DataFrame
    before: Sequence[tuple[Any, pl.Series]]
    max_levels: int = 255


class Typical(NamedTuple):
    """The typical values of a column.

    Attributes
    ----------
    text : str
        In words.
    low, high : float
        The ends of the range of the first feature, as they are shown.
    levels : frozenset of int
        The features of typical levels; empty for other columns than text.
    """

    text: str
    low: float = -np.inf
    high: float = np.inf
    levels: frozenset[int] = frozenset()

    def includes(self, own: Features) -> bool:
        """Return whether the features of a row are typical."""
        if self.levels:
            return int(own.argmax()) in self.levels
        return bool(self.low - SAME <= own[0] <= self.high + SAME)


class Condition(NamedTuple):
    """What a value meets, such as "≥ 80", and the background rows and known anomalies that meet it too."""

    operator: str
    value: str
    rest: NDArray[np.bool_]
    known: NDArray[np.bool_]

    @property
    def text(self) -> str:
        """The condition in words."""
        return f"{self.operator} {self.value}".lstrip()


class Histogram(NamedTuple):
    """The distribution of a column in several groups of rows.

    Attributes
    ----------
    labels : list of str
        The names of the bins; empty if they are ranges of numbers.
    edges : ndarray or None
        The edges of ranges of numbers, in the units of the column.
    shares : list of ndarray
        For each group of rows, the fraction of its rows in each bin.
    """

    labels: list[str]
    edges: NDArray[np.float64] | None
    shares: list[NDArray[np.float64]]


class Graph(Protocol):
    """What a column needs of an ONNX graph."""

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""

    def constant(self, value: NDArray[Any]) -> str:
        """Add a constant; return its name."""


@dataclass(frozen=True)
class Hints:
    """What is known about the conventions of a table, for columns that leave doubt.

    Attributes
    ----------
    decimal, order : str
        The decimal sign and the order of dates in the other columns; empty if they have none.
    quoted : bool
        Whether numbers would have been stored as numbers, as in JSON and Parquet, so that plain digits are text.
    """

    decimal: str = ""
    order: str = ""
    quoted: bool = False


def scaled_in_onnx(graph: Graph, cells: str, scalings: Sequence[Scaling]) -> str:
    """Add the steps of `Scaling.apply` to an ONNX graph, with a scaling for each column of the cells."""
    factor, shift, span = (graph.constant(np.array(field)) for field in zip(*scalings, strict=True))
    scaled = graph.add("Div", graph.add("Sub", graph.add("Mul", cells, factor), shift), span)
    return graph.add("Clip", scaled, *(graph.constant(np.array(limit)) for limit in (-LIMIT, LIMIT)))


def range_picture(background: Features, own: float, end: Callable[[float], str]) -> dict[str, Any]:
    """Return a histogram of a feature and the place of a row in it, as JSON values.

    Parameters
    ----------
    background, own
        The feature of background rows and of the row.
    end : callable
        Formats an end of the range.
    """
    usual = background.astype(np.float64)
    # The ends are those of most background rows, or the row itself.
    low, high = np.quantile(usual, [0.005, 0.995])
    low, high = min(low, own), max(high, own)
    if high <= low:
        low, high = low - 0.5, low + 0.5
    counts = np.histogram(np.clip(usual, low, high), np.linspace(low, high, N_BINS + 1))[0]
    typical = np.quantile(usual, [0.05, 0.95])
    return {
        "bins": (counts / max(counts.max(), 1)).round(3).tolist(),
        "at": round((own - low) / (high - low), 4),
        "typical": [round(float(x), 4) for x in np.clip((typical - low) / (high - low), 0, 1)],
        "ends": [end(float(x)) for x in (low, high)],
    }
