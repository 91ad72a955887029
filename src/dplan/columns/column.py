"""What every column type is: what was learned from one column, and how its cells become features.

A type is one class in one file and one line in `dplan.columns`. Before training, an instance says how a column is read
(from `propose` or from a person); `learn` returns one with ranges, means or levels, which the model stores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.formatting import LONGEST_VALUE, format_range, format_value
from dplan.columns.frames import check_cells
from dplan.columns.records import (
    SAME,
    Condition,
    Counts,
    Features,
    Graph,
    Hints,
    Histogram,
    Scaling,
    Training,
    Typical,
)
from dplan.columns.stored import LEARNED, PART, READING, is_like
from dplan.text import shortened, shown

__all__ = ["TEXTS", "Column"]

TEXTS = (pl.String, pl.Categorical, pl.Enum)

Bins = list[NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table: how it is read and, after `learn`, what was learned from the training rows.

    Attributes
    ----------
    name : str
        Its name.
    fill : tuple of float
        The features of a missing value, usually the means of the training rows; empty before training.
    why : str
        What decided how the column is read.
    sure : bool
        Whether the values left no doubt.
    decided : bool
        Whether this was decided from text or by a person; otherwise the table had types, and that was enough.
    """

    kind: ClassVar[str]  # in summaries and model files
    words: ClassVar[tuple[str, ...]]  # by which people ask for it; the first one is its own
    options: ClassVar[tuple[str, ...]] = ()  # that people may add
    is_used: ClassVar[bool] = True
    is_as_stored: ClassVar[bool] = True  # databases have values as they are read here, for SQL to compare
    is_as_shown: ClassVar[bool] = False  # spreadsheets have values as they are read here, to sort them
    is_decided_only: ClassVar[bool] = True  # no data type is of this type without a decision
    is_plain_text: ClassVar[bool] = False  # what text is that no type recognises
    overrules_types: ClassVar[bool] = False  # asking for it matters even if the table has types
    has_levels: ClassVar[bool] = False  # values may be unseen, also because another type took their place
    cells: ClassVar[str] = "texts"  # in a request: "numbers", "texts", or "" if they are not read
    tensor: ClassVar[str] = "numbers"  # the input of an ONNX graph: "numbers" or "texts"
    datatype: ClassVar[str] = "BYTES"  # of the open inference protocol
    _settings: ClassVar[Mapping[str, str]] = {}  # stored name of a setting → attribute, where they differ

    name: str = ""
    fill: tuple[float, ...] = ()
    why: str = ""
    sure: bool = True
    decided: bool = True

    # Deciding

    @classmethod
    def propose(cls, values: Sequence[str], hints: Hints) -> Column | None:
        """Return how some distinct values are read by this type; None if they are not of it."""
        return None

    @classmethod
    def propose_few(cls, n_values: int, n_rows: int) -> Column | None:
        """Return how a column is read because few of its rows have a value, whatever these are; None if they do."""
        return None

    @classmethod
    def recognises(cls, text: str) -> bool:
        """Return whether a text can only be of this type, even if other texts of its column are not."""
        return False

    @classmethod
    def holds(cls, dtype: pl.DataType) -> bool:
        """Return whether columns of a data type are of this type, if nothing was decided."""
        return False

    @classmethod
    def settings(cls, word: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a person wrote, as the stored names of settings; raise a ValueError for unknown options."""
        for key in options:
            listed = ", ".join(cls.options)
            raise ValueError(
                f"{word} has no option {shown(key)}" + (f"; choose from {listed}" if listed else "")
            )
        return {"kind": cls.words[0]}

    @classmethod
    def as_given(cls, given: Mapping[str, Any], values: Sequence[str], hints: Hints) -> Column:
        """Return how values are read if some of it is given: at least the type."""
        return cls().with_settings(given)

    def with_settings(self, given: Mapping[str, Any]) -> Self:
        """Return the column with settings that a person gave."""
        own = {self._settings.get(key, key): value for key, value in given.items() if key != "kind"}
        return replace(self, **{"why": "as specified", "sure": True, **own})

    def votes(self) -> Mapping[str, str]:
        """Return what the values say about the conventions of their table, as in `Hints`."""
        return {}

    def depends_on(self, hints: Hints) -> bool:
        """Return whether a proposal without hints might be another with these."""
        return not self.sure

    def settled(
        self, values: pl.Series, sample: Sequence[str], *, distinct: bool
    ) -> tuple[Column, pl.Series]:
        """Return the column and its values after all of them were read; `distinct` if most of a sample differ."""
        return self, values

    @property
    def reads_untidied(self) -> bool:
        """Whether text can be parsed before it is stripped and missing values are replaced."""
        return False

    @property
    def type(self) -> str:
        """The word for its type."""
        return self.words[0]

    def described(self) -> str:
        """Return in words what its values are, such as "a number with decimal comma"."""
        return f"a {self.kind}" if not self.decided else self.type

    def described_briefly(self) -> str:
        """Like `described`, without how it is written."""
        return self.described()

    def understood(self) -> str:
        """Return in a few words how it is understood, for a table of all columns."""
        return self.type if self.decided else self.kind

    # Reading

    def parse(self, texts: pl.Series) -> pl.Series:
        """Convert text to values; text that is not of this type becomes null."""
        return texts.str.strip_chars()

    def accepts(self, dtype: pl.DataType) -> bool:
        """Return whether columns of a data type can be read."""
        return self.holds(dtype) or dtype in TEXTS or dtype == pl.Null

    def takes(self, dtype: pl.DataType) -> bool:
        """Return whether a person may ask for this type if a column has a data type other than text."""
        return self.holds(dtype)

    def read(self, series: pl.Series) -> pl.Series:
        """Return the values of a column, which may be text; raise a CellError for the first that is not of the type."""
        return self._read_all(series.cast(pl.String)) if series.dtype in TEXTS else series

    def _read_all(self, texts: pl.Series) -> pl.Series:
        values = self.parse(texts)
        kind = self.type if self.decided else self.kind
        check_cells(
            texts,
            values.is_null() & texts.is_not_null(),
            f"{{}} is not {self.described()}, but the column was a {kind} column in training; "
            "fix it, or leave it empty",
        )
        return values

    # Features

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.fill)

    @property
    def is_constant(self) -> bool:
        """Whether all training rows have the same value."""
        return False

    def limit(self) -> tuple[int, float]:
        """Return how many levels are stored, and the share of the training rows that have another one."""
        return 0, 0.0

    def learn(self, series: pl.Series, training: Training) -> Column:
        """Return what the training rows say about the column; it is not used if they say nothing."""
        raise NotImplementedError

    def output_names(self) -> list[str]:
        """Return the names of the features."""
        return [self.name] * self.width

    def scaling(self) -> Scaling | None:
        """Return how a number is scaled, if that is all; the preparer does it for all such columns at once."""
        return None

    def values(self, series: pl.Series) -> Any:
        """Return the values that were read in the form that `write` takes, or an array to be scaled."""
        return series

    def write(self, values: Mapping[str, Any], out: NDArray[np.float32]) -> Counts:
        """Write the features of rows to `out`, from the values of the columns by name; needed without a scaling."""
        raise NotImplementedError

    # Words and pictures

    def format(self, found: Any) -> str:
        """Format a value of the table. Numbers and dates that a file has as text stay as they are."""
        return shortened(found.strip(), LONGEST_VALUE) if isinstance(found, str) else format_value(found)

    def restored(self, own: Features) -> str:
        """Return the value of a prepared row of which the original is not known."""
        raise NotImplementedError

    def typical(self, background: Features) -> Typical:
        """Return the typical values, given the features of background rows."""
        raise NotImplementedError

    def conditions(self, found: Any, own: Features, background: Features, known: Features) -> list[Condition]:
        """Return what a value meets, given its features, those of background rows and of known anomalies."""
        raise NotImplementedError

    def is_close(self, own: Features, known: Features, *, within: float) -> NDArray[np.bool_]:
        """Return which known anomalies have the same value or, for numbers, one that differs by at most a share."""
        close: NDArray[np.bool_] = np.all(np.abs(known - own) <= SAME, axis=1)
        return close

    def is_new(self, own: Features) -> bool:
        """Return whether a value did not occur in training."""
        return False

    def histogram(self, parts: Sequence[Features]) -> Histogram:
        """Return the distribution in groups of rows, given their features; the first are background rows."""
        raise NotImplementedError

    def picture(self, background: Features, own: Features, *, missing: bool) -> dict[str, Any]:
        """Return the distribution of background rows and the place of a row in it, as JSON values."""
        raise NotImplementedError

    def bins(self, quantiles: NDArray[np.float64]) -> Bins:
        """Return the edges of bins to count rows in, given quantiles of the features of background rows."""
        return [np.unique(own) for own in quantiles.T]

    def counts(self, rows: Features, bins: Bins) -> list[list[int]]:
        """Return the number of rows in each bin, for each feature or for all of them together."""
        return [
            np.bincount(np.searchsorted(own, rows[:, i], "left"), minlength=len(own) + 1).tolist()
            for i, own in enumerate(bins)
        ]

    def distance(self, shares: NDArray[np.float64]) -> float:
        """Return how much two distributions differ, given the differences of shares by bin (Kolmogorov–Smirnov)."""
        return float(np.abs(np.cumsum(shares)).max())

    def spread(self, series: pl.Series) -> str:
        """Summarise the values of a column of this type in words, for people who look at a table."""
        return format_range(series)

    def summary(self) -> str:
        """Summarise what was learned, for people who look at a model."""
        return self.kind

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a cell."""
        return {"type": ["string", "null"]}

    def onnx(self, graph: Graph, cell_of: Callable[[str], str]) -> str:
        """Add the features to an ONNX graph, given the cells of columns by name; needed without a scaling."""
        raise TypeError(f"columns of the type {self.type!r} cannot be exported to ONNX ({self.name!r})")

    # Storing

    def to_json(self) -> dict[str, Any]:
        """Return what was learned as values that can be stored as JSON; `from_json` takes them."""
        own = {name: getattr(self, name) for name in self._stored()}
        stored = {name: own.pop(name, default) for name, default in LEARNED.items()}
        reading = {
            name: own.pop(self._settings.get(name, name), default) for name, default in READING.items()
        }
        meaning = {"kind": self.type, **reading} if self.decided else None
        return {"name": own.pop("name"), "kind": self.kind, **stored, "meaning": meaning, **own}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Self:
        """Rebuild a column from `to_json` and JSON; raise a ValueError for anything else.

        Examples
        --------
        >>> from dplan.columns.texts import Category
        >>> column = Category(name="state", fill=(0.5, 0.5), levels=("CON", "FIN"))
        >>> Category.from_json(column.to_json()) == column
        True
        """
        meaning, own, values = entry["meaning"], cls._stored(), {"name": entry["name"]}
        if not isinstance(entry["name"], str):
            raise ValueError(f"not a column: its name is {entry['name']!r}")
        if meaning is not None and set(meaning) != {"kind", *READING}:
            raise ValueError(f"not the meaning of a column: {str(meaning)[:200]}")
        forms: Any = (
            (entry, LEARNED, {}, "a column"),
            (meaning, READING, cls._settings, "the meaning of a column"),
        )
        for stored, form, renamed, what in forms:
            for name, default in {} if stored is None else form.items():
                value = tuple(stored[name]) if isinstance(default, tuple) else stored[name]
                attribute = renamed.get(name, name)
                if not is_like(value, PART.get(name, default)) if attribute in own else value != default:
                    raise ValueError(f"not {what}: {name} is {str(value)[:200]}")
                values |= {attribute: value} if attribute in own else {}
        values |= {name: entry[name] for name in own - set(values) - set(READING) if name in entry}
        column = cls(**values, decided=meaning is not None)
        n_extra = len(set(values) - {"name", *LEARNED, *READING, *cls._settings.values()})
        if len(entry) != len(LEARNED) + 3 + n_extra or not column.is_valid():
            raise ValueError(f"not a column: {str(entry)[:200]}")
        return column

    @classmethod
    def stores(cls, meaning: Mapping[str, Any] | None) -> bool:
        """Return whether a stored column of this kind is of this type: its meaning is, or it had none."""
        return not cls.is_decided_only if meaning is None else meaning["kind"] == cls().type

    def is_valid(self) -> bool:
        """Return whether stored values fit together."""
        return self.width > 0 and all(0 <= number <= 1 for number in self.fill)

    def check_others(self, columns: Sequence[Column]) -> None:
        """Raise a ValueError if stored columns lack one that this needs."""

    @classmethod
    def _stored(cls) -> set[str]:
        """Return the attributes that are stored: not what only matters until the columns of a table are decided."""
        return {field.name for field in fields(cls) if field.compare} - {"decided"}
