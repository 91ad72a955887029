"""Numbers: one feature, scaled to [0, 1] on the training rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.column import Column
from dplan.columns.formatting import format_number
from dplan.columns.frames import SMALL_INTEGERS, as_numbers, check_values
from dplan.columns.moments import are_compact
from dplan.columns.numerals import (
    ANY_UNIT,
    OTHER,
    SIGNS,
    Convention,
    body_of,
    code_with_leading_zero,
    convention_of,
    conventions,
    is_plain,
    read_numbers,
    units,
    without_accidents,
)
from dplan.columns.records import (
    SAME,
    Condition,
    Features,
    Hints,
    Histogram,
    Scaling,
    Training,
    Typical,
    range_picture,
)
from dplan.columns.unused import Unused, counter_of
from dplan.text import shown

__all__ = ["Measured", "Number"]

_DIGITS = re.compile(r"-?\d[\d.,]*")

_RARE = 0.02  # share of background rows with the same number that is worth a condition
_NEAR = 0.1  # fraction of the background rows that is the neighbourhood of a number


@dataclass(frozen=True, kw_only=True)
class Measured(Column):
    """A column whose cells are numbers, whatever they mean: all that does not depend on how they are written.

    Attributes
    ----------
    minimum, maximum : float
        The range over the training rows.
    """

    cells = "numbers"

    minimum: float = 0.0
    maximum: float = 0.0

    def accepts(self, dtype: pl.DataType) -> bool:
        return dtype.is_numeric() or dtype in (pl.Duration, pl.Boolean) or super().accepts(dtype)

    @property
    def is_constant(self) -> bool:
        return self.minimum == self.maximum

    def learn(self, series: pl.Series, training: Training) -> Column:
        """Learn the range and the mean.

        Examples
        --------
        >>> age = pl.Series("age", [20, 40, None, 60])
        >>> Number().learn(age, Training(age.to_frame(), [], 255)).fill
        (0.5,)
        """
        check_values(series)
        numbers = as_numbers(series)
        if numbers.dtype.is_float() and numbers.is_nan().any():
            numbers = numbers.fill_nan(None)
        if numbers.null_count() == len(numbers):
            return Unused.without_values(series.name)
        low, high = float(numbers.min()), float(numbers.max())  # type: ignore[arg-type]
        factor, shift, span = Scaling.between(low, high)
        if numbers.dtype in SMALL_INTEGERS:  # adding integers is exact, and faster
            mean = int(numbers.sum()) / (len(numbers) - numbers.null_count())
        else:
            mean = float(numbers.mean())  # type: ignore[arg-type]
        if np.isfinite(mean):
            fill = (mean * factor - shift) / span
        else:  # the sum overflowed; scale first
            fill = float(np.mean((numbers.drop_nulls().to_numpy() * factor - shift) / span))
        return replace(self, name=series.name, minimum=low, maximum=high, fill=(min(max(fill, 0.0), 1.0),))

    def scaling(self) -> Scaling:
        return Scaling.between(self.minimum, self.maximum)

    def values(self, series: pl.Series) -> NDArray[Any]:
        if series.dtype.is_temporal():
            check_values(series)
        return as_numbers(series).to_numpy()  # integers with missing values become floats with NaN

    def restored(self, own: Features) -> str:
        return self._end(float(own[0]))[1]

    def typical(self, background: Features) -> Typical:
        """Return the middle 90 %.

        Examples
        --------
        >>> column = Number(name="bytes", maximum=10_000.0, fill=(0.5,))
        >>> column.typical(np.linspace(0, 1, 101, dtype=np.float32)[:, None]).text
        '500–9500'
        """
        # Values of the table, not numbers between them.
        observed = self._observed(background)[:, 0].astype(np.float64)
        ends = np.quantile(observed, [0.05, 0.95], method="nearest")
        (low, first), (high, last) = (self._end(float(end)) for end in ends)
        factor, shift, span = self.scaling()
        text = "–".join(dict.fromkeys([first, last]))
        return Typical(text, (low * factor - shift) / span, (high * factor - shift) / span)

    def conditions(self, found: Any, own: Features, background: Features, known: Features) -> list[Condition]:
        text = self.format(found)
        x, rest, known = own[0], background[:, 0], known[:, 0]
        same = Condition("=", text, np.abs(rest - x) <= SAME, np.abs(known - x) <= SAME)
        met = [same] if same.rest.mean() > _RARE else []
        met.append(Condition("≥", text, rest >= x - SAME, known >= x - SAME))
        met.append(Condition("≤", text, rest <= x + SAME, known <= x + SAME))
        distances = np.abs(rest - x)
        n_near = int(_NEAR * (len(rest) - 1))
        near = rest[distances <= np.partition(distances, n_near)[n_near]]
        low, high = min(near.min(), x), max(near.max(), x)
        ends = " and ".join(self._end(float(end))[1] for end in (low, high))
        inside = [(part >= low - SAME) & (part <= high + SAME) for part in (rest, known)]
        return [*met, Condition("between", ends, *inside)]

    def is_close(self, own: Features, known: Features, *, within: float) -> NDArray[np.bool_]:
        value, others = self.scaling().invert(own), self.scaling().invert(known[:, 0])
        with np.errstate(over="ignore"):
            near: NDArray[np.bool_] = np.abs(others - value) <= within * np.abs(value)
        return super().is_close(own, known, within=within) | near

    def histogram(self, parts: Sequence[Features]) -> Histogram:
        columns = [part[:, 0].astype(np.float64) for part in parts]
        low, high = np.quantile(np.concatenate([columns[0], columns[-1]]), [0.005, 0.995])
        edges = np.linspace(low, high if high > low else low + 1, 19)
        shares = [np.histogram(np.clip(part, low, high), edges)[0] / len(part) for part in columns]
        values = np.nan_to_num(self.scaling().invert(edges))  # the largest float if a value overflows
        return Histogram([], values, shares)

    def picture(self, background: Features, own: Features, *, missing: bool) -> dict[str, Any]:
        found = range_picture(self._observed(background)[:, 0], float(own[0]), lambda x: self._end(x)[1])
        return {**found, "at": None} if missing else found

    def summary(self) -> str:
        return f"{self.kind}, {format_number(self.minimum)} to {format_number(self.maximum)}"

    def schema(self) -> dict[str, Any]:
        return {"type": ["number", "null"]}

    def is_valid(self) -> bool:
        return super().is_valid() and self.width == 1 and self.minimum <= self.maximum

    def _observed(self, background: Features) -> Features:
        """Return the background rows without the mean that stands for missing values, unless it may be a value."""
        is_mean = background[:, 0] == np.float32(self.fill[0])
        if not is_mean.any() or is_mean.all():
            return background
        mean = self.scaling().inverse(self.fill[0])
        values = self.scaling().invert(background[~is_mean, 0])
        whole = np.allclose(values, values.round(), atol=1e-6 * max(1.0, self.maximum - self.minimum))
        may_be_value = mean == round(mean) if whole else mean == float(f"{mean:.6g}")
        return background if may_be_value else background[~is_mean]

    def _end(self, prepared: float) -> tuple[float, str]:
        """Return the end of a range of prepared numbers in the units of the column, rounded, and as text."""
        value = float(self.scaling().invert(np.array(prepared)))
        exact = 2**-23 * max(-self.minimum, self.maximum) if self.minimum < 0 else 0.0  # of float32
        digits = format_number(value if abs(value) > exact else 0.0).replace(",", "")
        return float(digits), digits


@dataclass(frozen=True, kw_only=True)
class Number(Measured):
    """A number.

    Attributes
    ----------
    decimal, thousands, unit : str
        How it is written as text; `ANY_UNIT` ignores units.
    evidence : {"", "decimal", "whole", "thousands", "ungrouped", "ambiguous"}
        What decided the decimal sign; not stored.

    Examples
    --------
    >>> Number(decimal=",", thousands=".", unit="€").parse(pl.Series(["1.234,50 €", None])).to_list()
    [1234.5, None]
    """

    kind = "number"
    words = ("number",)
    is_decided_only = False
    is_as_shown = True
    options = ("decimal=…", "thousands=…", "unit=…")
    datatype = "FP64"

    decimal: str = "."
    thousands: str = ","
    unit: str = ""
    evidence: str = field(default="", compare=False)

    @classmethod
    def propose(cls, values: Sequence[str], hints: Hints) -> Column | None:
        """Return how numbers are written; the other columns decide where they leave doubt.

        Examples
        --------
        >>> Number.propose(["12,50 €", "1.200,00 €"], Hints()).described()
        'a number with decimal comma, in €'
        >>> Number.propose(["3.582", "12.100"], Hints(decimal=",")).decimal
        ','
        """
        if (hints.quoted and all(map(is_plain, values))) or are_compact(values):
            return None
        found = cls._written(values, hints)
        found = found or (None if hints.quoted else cls._written(without_accidents(values), hints))
        is_code = found is not None and found.evidence == "whole" and code_with_leading_zero(values)
        return None if is_code else found

    @classmethod
    def _written(cls, values: Sequence[str], hints: Hints, *, any_unit: bool = False) -> Number | None:
        if all(map(_DIGITS.fullmatch, values)):  # most columns, and quicker
            own, counts = [value.lstrip("-") for value in values], {"": len(values)}
        else:
            own = [body for body in map(body_of, values) if body is not None]
            counts = units(values)
        if not own or len(own) < len(values):
            return None
        bare = counts.pop("", 0)
        unit = ANY_UNIT if len(counts) > 1 else next(iter(counts), "")
        if (unit == ANY_UNIT and not any_unit) or (unit.isalpha() and bare > counts[unit]):
            return None  # such as 12 kg and 5 g, or 12 and 12a
        found = convention_of(own, hints.decimal, unit)
        if found is None:
            return None
        convention, evidence, why = found
        if unit not in ("", ANY_UNIT):
            why += f"; in {unit}"
        return cls(
            decimal=convention.decimal,
            thousands=convention.thousands,
            unit=unit,
            why=why,
            sure=evidence != "ambiguous",
            evidence=evidence,
        )

    @classmethod
    def recognises(cls, text: str) -> bool:
        return body_of(text) is not None

    @classmethod
    def holds(cls, dtype: pl.DataType) -> bool:
        return dtype.is_numeric() or dtype == pl.Duration

    @classmethod
    def settings(cls, word: str, options: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in options.items():
            if key in ("decimal", "thousands"):
                allowed = [sign for sign in SIGNS if key == "thousands" or SIGNS[sign] in OTHER]
                if value not in allowed:
                    raise ValueError(f"{key} is one of {', '.join(allowed)}, not {shown(value)}")
                found[key] = SIGNS[value]
            elif key == "unit" and isinstance(value, str):
                found[key] = value
            else:
                super().settings(word, {key: value})
        if found.get("decimal") is not None and found.get("decimal") == found.get("thousands"):
            raise ValueError("decimal and thousands cannot be the same")
        return {"kind": cls.words[0], **found}

    @classmethod
    def as_given(cls, given: Mapping[str, Any], values: Sequence[str], hints: Hints) -> Column:
        numbers = [value for value in values if cls.recognises(value)]
        found = cls._written(numbers, hints, any_unit=True) or cls(unit=ANY_UNIT)
        decimal = given.get("decimal", OTHER.get(given.get("thousands", ""), found.decimal))
        thousands = given.get("thousands", OTHER[decimal] if found.thousands in OTHER else found.thousands)
        return replace(found, decimal=decimal, thousands=thousands).with_settings(given)

    def votes(self) -> Mapping[str, str]:
        about = {"decimal": "decimal", "ungrouped": "probable decimal"}.get(self.evidence)
        return {about: self.decimal} if about else {}

    def depends_on(self, hints: Hints) -> bool:
        weak = (self.evidence == "whole" and hints.decimal == ",") or self.evidence == "ungrouped"
        return weak or not self.sure

    def settled(
        self, values: pl.Series, sample: Sequence[str], *, distinct: bool
    ) -> tuple[Column, pl.Series]:
        why = counter_of(values) if distinct else ""
        return (Unused(what="id", why=why), values) if why else (self, values)

    def described(self) -> str:
        if not self.decided:
            return super().described()
        words = "a number" + " with decimal comma" * (self.decimal == ",")
        return words + (f", in {self.unit}" if self.unit not in ("", ANY_UNIT) else "")

    def described_briefly(self) -> str:
        return "a number"

    @property
    def is_as_stored(self) -> bool:  # type: ignore[override]
        return self.unit == ""

    @property
    def reads_untidied(self) -> bool:
        return self.unit == "" and self.decimal == "."

    def understood(self) -> str:
        # Whole numbers do not show their decimal sign.
        shown_as = replace(self, decimal=".") if self.evidence == "whole" else self
        return shown_as.described().removeprefix("a ")

    def parse(self, texts: pl.Series) -> pl.Series:
        if self.decided:
            return read_numbers(texts, Convention(self.decimal, self.thousands), self.unit)
        # A table with types had no signs to learn from, so only plain numbers are read.
        numbers = texts.cast(pl.Float64, strict=False)
        if numbers.null_count() == texts.null_count():
            return numbers
        return texts.str.strip_chars().cast(pl.Float64, strict=False)

    def is_valid(self) -> bool:
        return super().is_valid() and Convention(self.decimal, self.thousands) in conventions()

    def _end(self, prepared: float) -> tuple[float, str]:
        rounded, digits = super()._end(prepared)
        return rounded, digits.replace(".", self.decimal)
