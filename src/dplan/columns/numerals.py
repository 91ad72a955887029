"""Numbers, as people write them: decimal comma, thousands separators, currencies, percent, units, parentheses."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from dplan.columns.records import MANY, MOSTLY
from dplan.text import shown

__all__ = [
    "ANY_UNIT",
    "OTHER",
    "SIGNS",
    "Convention",
    "body_of",
    "code_with_leading_zero",
    "convention_of",
    "conventions",
    "is_plain",
    "matching",
    "read_numbers",
    "units",
    "without_accidents",
]

ANY_UNIT = "*"  # units are ignored, even if they differ
SIGNS = {"comma": ",", "point": ".", "space": " ", "apostrophe": "'"}
OTHER = {".": ",", ",": "."}

_NAMES = {sign: name for name, sign in SIGNS.items()}

_PLAIN = re.compile(r"-?\d+(?:\.\d+)?")
_LEADING_ZERO = re.compile(r"0\d\d")
_SPACES = "[\u00a0\u2007\u2009\u202f]"
_CURRENCIES = """
EUR USD GBP CHF JPY CNY INR AUD CAD NZD SEK NOK DKK ISK PLN CZK HUF RON BGN TRY RUB UAH ILS ZAR BRL MXN ARS CLP COP KRW
SGD HKD THB IDR MYR PHP VND AED SAR EGP NGN KES Rs R$ kr Kč zł Ft lei Fr Fr. US$ A$ C$ NZ$ HK$ S$
"""
_WRITTEN = re.compile(
    r"(?P<open>\()?\s*[-+]?\s*(?P<before>[^\d\s.,'()+-][^\d()+-]{0,4}?)?\s*[-+]?\s*"
    r"(?P<body>(?:\d|[.,]\d)[\d.,' ]*(?:[eE][-+]?\d+)?)(?<! )\s*"
    r"(?P<after>[^\d\s.,'()+-][^\d()+-]{0,11}?)?\s*-?(?P<close>\))?"
)


@dataclass(frozen=True)
class Convention:
    """Which signs separate the decimals and the thousands."""

    decimal: str = "."
    thousands: str = ","

    @property
    def body(self) -> str:
        """Regular expression of the digits of a number, without exponent."""
        decimal, thousands = re.escape(self.decimal), re.escape(self.thousands)
        # Groups of two digits before the last group of three are Indian: 12,34,567.
        return rf"(?:[1-9]\d{{0,2}}(?:{thousands}\d{{2,3}})*{thousands}\d{{3}}|\d+)(?:{decimal}\d*)?|{decimal}\d+"


def conventions() -> list[Convention]:
    """Return the supported conventions, the most common ones first."""
    return [Convention(decimal, sign) for sign in (",", ".", " ", "'") for decimal in ".," if decimal != sign]


def normal(text: str) -> str:
    """Replace typographic spaces, minus signs and apostrophes.

    Examples
    --------
    >>> normal("−1\u202f234 €")
    '-1 234 €'
    """
    return re.sub(_SPACES, " ", text).replace("−", "-").replace("’", "'")


def is_plain(text: str) -> bool:
    """Return whether a text is a number as programs write it, without thousands separators or units."""
    return _PLAIN.fullmatch(text) is not None


def body_of(text: str) -> str | None:
    """Return the digits and separators of a number, or None if the text is not a number with at most a unit."""
    found = _parts(text)
    return None if found is None else found[0]


def units(texts: Iterable[str]) -> dict[str, int]:
    """Count the units of numbers; ``""`` is no unit.

    Examples
    --------
    >>> units(["12,50 €", "€ 3", "7", "A1"])
    {'€': 2, '': 1}
    """
    counts: dict[str, int] = {}
    for text in texts:
        found = _parts(text)
        if found is not None:
            counts[found[1]] = counts.get(found[1], 0) + 1
    return counts


def without_accidents(texts: Sequence[str]) -> list[str]:
    """Return plain numbers without a few that have letters, such as an O for a zero; empty if there are none of these.

    Examples
    --------
    >>> without_accidents([*map(str, range(20)), "1O"])[-1], without_accidents(["12", "12a"])
    ('19', [])
    """
    counts = units(texts)
    are_most = len(texts) >= MANY and MOSTLY * len(texts) <= counts.get("", 0) < len(texts)
    if not are_most or sum(counts.values()) < len(texts):
        return []
    return [text for text in texts if "" in units([text])]


def code_with_leading_zero(texts: Sequence[str]) -> str:
    """Return the first of some digits with a leading zero, such as a postcode; empty if texts are not codes.

    Examples
    --------
    >>> code_with_leading_zero(["12345", "01067"]), code_with_leading_zero(["0", "01 €"])
    ('01067', '')
    """
    if not any(_LEADING_ZERO.search(text) for text in texts):
        return ""
    bodies = [body_of(text) or "" for text in texts]
    if set(units(texts)) != {""} or not all(body.isdigit() for body in bodies):
        return ""
    is_code = any(re.match(_LEADING_ZERO, body) for body in bodies)
    return next(body for body in bodies if body.startswith("0")) if is_code else ""


def _parts(text: str) -> tuple[str, str] | None:
    found = _WRITTEN.fullmatch(normal(text).strip())
    if found is None or bool(found["open"]) != bool(found["close"]):
        return None
    before, after = (found["before"] or "").strip(), (found["after"] or "").strip()
    if (before and after) or (before and not _is_currency(before)):
        return None  # a code such as A1
    return found["body"].strip(), before or after


def _is_currency(text: str) -> bool:
    return text in _CURRENCIES.split() or (len(text) == 1 and unicodedata.category(text) == "Sc")


def matching(bodies: Sequence[str]) -> list[Convention]:
    """Return the conventions by which all bodies are numbers.

    Examples
    --------
    >>> [found.decimal for found in matching(["1.234,5", "12"])], matching(["1.2.3"])
    ([','], [])
    """
    found = []
    for convention in conventions():
        if convention.thousands in " '" and not any(convention.thousands in body for body in bodies):
            continue  # nothing speaks for it
        pattern = re.compile(f"(?:{convention.body})(?:[eE][-+]?\\d+)?")
        if all(pattern.fullmatch(body) for body in bodies):
            found.append(convention)
    return found


def convention_of(bodies: Sequence[str], hint: str, unit: str = "") -> tuple[Convention, str, str] | None:
    """Return the separators of numbers, what decided them, and that in words; None if they are not numbers.

    What decided them is "decimal", "whole", "thousands", "ungrouped" if longer numbers have no separator, or, if only
    the hint of other columns or the unit did, "ambiguous".

    Examples
    --------
    >>> convention_of(["1.234,5"], "")
    (Convention(decimal=',', thousands='.'), 'decimal', "decimal comma, thousands point, as in '1.234,5'")
    >>> convention_of(["1,234", "1100"], "", "$")[0]
    Convention(decimal='.', thousands=',')
    """
    fits = matching(bodies)
    if not fits:
        return None
    signs = [sign for sign in ".,' " if any(sign in body for body in bodies)]
    decimals = {fit.decimal for fit in fits}
    grouped = [fit for fit in fits if fit.thousands in signs]
    if len(decimals) == 1:
        (decimal,) = decimals
        found = grouped[0] if grouped else Convention(decimal, OTHER[decimal])
        example = next((body for body in bodies if decimal in body), bodies[0])
        thousands = f", thousands {_NAMES[found.thousands]}" if grouped else ""
        return found, "decimal", f"decimal {_NAMES[decimal]}{thousands}, as in {shown(example)}"
    if not {".", ","} & set(signs):  # whole numbers
        decimal = hint or "."
        return Convention(decimal, signs[0] if signs else OTHER[decimal]), "whole", "whole numbers"
    (sign,) = {".", ","} & set(signs)
    example = next(body for body in bodies if sign in body)
    plain = [body for body in bodies if sign not in body]
    as_decimal, as_thousands = Convention(sign, OTHER[sign]), Convention(OTHER[sign], sign)
    if any(len(body) > 3 for body in plain):
        longer = next(body for body in plain if len(body) > 3)
        because = f"because {shown(longer)} has no thousands separator"
        contrary = hint == OTHER[sign] or (hint != sign and _is_currency(unit))
        if not contrary:
            return as_decimal, "ungrouped", f"decimal {_NAMES[sign]}, {because}"
        value, but = example.replace(sign, ""), because.replace("because", "but")
        because = (
            f"other columns have a decimal {_NAMES[hint]}" if hint == OTHER[sign] else f"it is in {unit}"
        )
        return (
            as_thousands,
            "ambiguous",
            f"ambiguous: {shown(example)} is read as {value}, because {because}, {but}",
        )
    if plain:
        smaller = f"as in {shown(example)}: smaller numbers have none"
        return as_thousands, "thousands", f"thousands {_NAMES[sign]}, {smaller}"
    decimal = hint or "."
    found = as_decimal if decimal == sign else as_thousands
    value = example.replace(sign, "." if decimal == sign else "")
    because = f"other columns have a decimal {_NAMES[decimal]}" if hint else "nothing in the table decides"
    return found, "ambiguous", f"ambiguous: {shown(example)} is read as {value}, because {because}"


def read_numbers(texts: pl.Series, convention: Convention, unit: str) -> pl.Series:
    """Convert text to numbers; whatever is not a number becomes null.

    Examples
    --------
    >>> german = Convention(",", ".")
    >>> read_numbers(pl.Series(["1.234,56 €", "(3,50 €)", "-7", "1.5", "soon"]), german, "€").to_list()
    [1234.56, -3.5, -7.0, None, None]
    """
    if unit == "":
        whole = texts.head(1_000).cast(pl.Int64, strict=False)
        if whole.null_count() == texts.head(1_000).null_count():
            whole = texts.cast(pl.Int64, strict=False)
            if whole.null_count() == texts.null_count():
                return whole
    plain = texts
    if unit not in ("", ANY_UNIT):
        plain = plain.str.strip_suffix(unit).str.strip_prefix(unit).str.strip_chars()
    if convention.decimal == ",":
        plain = plain.to_frame().select(
            pl.when(~pl.first().str.contains(".", literal=True)).then(
                pl.first().str.replace(",", ".", literal=True)
            )
        ).to_series()  # fmt: skip
    values = plain.cast(pl.Float64, strict=False).alias(texts.name)
    for read in (_read_grouped, _read_carefully):
        left = (values.is_null() & texts.is_not_null()).arg_true()
        if not left.is_empty():
            values = values.scatter(left, read(texts.gather(left), convention, unit))
    return values


def _read_grouped(texts: pl.Series, convention: Convention, unit: str) -> pl.Series:
    """Convert text with thousands separators and a unit after the number."""
    plain = texts.str.strip_suffix(unit).str.strip_chars()
    digits = pl.first().str.replace_all(convention.thousands, "", literal=True)
    value = digits.str.replace(convention.decimal, ".", literal=True).cast(pl.Float64, strict=False)
    is_number = pl.first().str.contains(rf"^-?(?:{convention.body})$")
    return plain.to_frame().select(pl.when(is_number).then(value)).to_series()


def _read_carefully(texts: pl.Series, convention: Convention, unit: str) -> pl.Series:
    """Convert text with thousands separators, units, signs after the number or parentheses."""
    text = pl.first().str.replace_all(_SPACES, " ").str.replace("−", "-", literal=True)
    text = text.str.replace_all("’", "'", literal=True).str.strip_chars()
    of = r"[^\d\s.,'()+-][^\d()+-]{0,11}" if unit == ANY_UNIT else re.escape(unit)
    sign, name = r"[-+]?\s*", rf"(?:{of})?\s*"
    number = rf"{sign}{name}{sign}(?:{convention.body})\s*{name}"
    negative = text.str.contains(r"^\s*\(|-")
    digits = text.str.extract(f"({convention.body})").str.replace_all(convention.thousands, "", literal=True)
    value = digits.str.replace(convention.decimal, ".", literal=True).cast(pl.Float64, strict=False)
    is_number = text.str.contains(rf"^(?:\({number}\)|{number}|{name}(?:{convention.body})\s*{name}-)$")
    read = pl.when(is_number).then(pl.when(negative).then(-value).otherwise(value))
    return texts.to_frame().select(read).to_series()
