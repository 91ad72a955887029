"""Dates, times of day and durations as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import polars as pl

__all__ = [
    "DAY",
    "ORDERS",
    "are_compact",
    "has_points",
    "is_duration",
    "is_time",
    "orders",
    "read_any_dates",
    "read_dates",
    "read_durations",
    "read_times",
]

DAY = 86_400 * 10**6  # microseconds
ORDERS = {"ymd": "year-first", "dmy": "day-first", "mdy": "month-first"}

_MONTHS = {  # by their first letters in several languages
    1: "jan jän gen ene", 2: "feb fév fev", 3: "mar mär mrz mrt maa", 4: "apr avr abr", 5: "may mai mei maj mag",
    6: "jun juin giu", 7: "jul juil lug", 8: "aug aoû ago", 9: "sep set", 10: "oct okt ott out", 11: "nov",
    12: "dec dez déc dic",
}  # fmt: skip
_NUMBER_OF_MONTH = {name: number for number, names in _MONTHS.items() for name in names.split()}
_TIME = (
    r"(?:(?P<gap>T| +)(?P<hour>\d{1,2}):\d{2}(?P<second>:\d{2}(?:\.\d+)?)?"
    r"(?P<half> ?[AaPp]\.?[Mm]\.?)?(?P<zone> ?(?:[+-]\d{2}:?\d{2}|Z|UTC))?)?"
)
_YEAR_FIRST = re.compile(
    rf"(?P<year>\d{{4}})(?P<sign>[-/.])(?P<month>\d{{1,2}})(?P=sign)(?P<day>\d{{1,2}}){_TIME}"
)
_YEAR_LAST = re.compile(
    rf"(?P<first>\d{{1,2}})(?P<sign>[-/.])(?P<second_>\d{{1,2}})(?P=sign)(?P<year>\d{{4}}|\d{{2}}){_TIME}"
)
_MIN_COMPACT = 20
_COMPACT = re.compile(r"(?P<year>(?:19|20)\d{2})(?P<month>\d{2})(?P<day>\d{2})(?P<time>T\d{6}(?:\.\d+)?)?")
_WORD = r"[a-zà-ÿ]{1,20}"  # so long that no text takes long
_NAMED = re.compile(  # 14. Januar 2024, 14-Jan-24, Sun, 14 Jan 2024, January 14th, 2024
    rf"(?i)(?:{_WORD},\s{{0,9}})?(?:(\d{{1,2}})(?:\.|st|nd|rd|th)?[ -]{{1,9}}({_WORD})\.?"
    rf"|({_WORD})\.? {{1,9}}(\d{{1,2}})(?:st|nd|rd|th)?,?)[ -]{{1,9}}(\d{{2,4}})"
)
_CLOCK = re.compile(r"(?P<hour>\d{1,4}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d+)?)?")
_CLOCK_WITH_POINTS = re.compile(r"(?P<hour>\d{1,2})\.(?P<minute>\d{2})\.(?P<second>[0-5]\d)")

_UNITS = {  # seconds; a month or a year has no fixed length
    "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "hr": 3600.0, "std": 3600.0, "d": 86400.0,
    "day": 86400.0, "days": 86400.0, "w": 604800.0,
}  # fmt: skip
_ISO_DURATION = r"^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$"
_LENGTH = re.compile(r"-?(?:\d+(?:\.\d+)?\s*[a-zA-Z]+\s*)+")
_LENGTH_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)")


def orders(texts: Iterable[str]) -> list[str]:
    """Return the orders, of ``"ymd"``, ``"dmy"`` and ``"mdy"``, by which all texts are dates.

    Examples
    --------
    >>> orders(["14.01.2024", "3.2.2024 07:30"]), orders(["09/09/2024"]), orders(["2024-01-31", "soon"])
    (['dmy'], ['dmy', 'mdy'], [])
    """
    left = set(ORDERS)
    for text in texts:
        left &= _orders_of(text.strip())
        if not left:
            break
    return [order for order in ORDERS if order in left]


def _orders_of(text: str) -> set[str]:
    text = _numbered(text)  # the name of a month leaves no doubt
    found = _YEAR_FIRST.fullmatch(text) or _COMPACT.fullmatch(text)
    if found is not None:
        return {"ymd"} if _possible(int(found["month"]), int(found["day"])) else set()
    found = _YEAR_LAST.fullmatch(text)
    if found is None:
        return set()
    first, second = int(found["first"]), int(found["second_"])
    return {
        order
        for order, month, day in (("dmy", second, first), ("mdy", first, second))
        if _possible(month, day)
    }


def has_points(text: str) -> bool:
    """Return whether the numbers of a date are separated by points; a time such as 3.30 p.m. says nothing.

    Examples
    --------
    >>> has_points("14.01.2024"), has_points("14/01/2024 3:05 p.m.")
    (True, False)
    """
    found = _YEAR_LAST.fullmatch(text)
    return found is not None and found["sign"] == "."


def _possible(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= 31


def _numbered(text: str) -> str:
    """Rewrite a date with the name of its month as year-month-day; other text stays as it is.

    Examples
    --------
    >>> _numbered("Sun, 14 Jan 2024 7:30"), _numbered("soon")
    ('2024-01-14 7:30', 'soon')
    """
    found = _NAMED.match(text)
    if found is None:
        return text
    name, day, year = (found[2] or found[3]).lower(), found[1] or found[4], found[5]
    month = _NUMBER_OF_MONTH.get(name[:4]) or _NUMBER_OF_MONTH.get(name[:3])
    if month is None or len(year) == 3:
        return text
    year = year if len(year) == 4 else ("20" if int(year) < 69 else "19") + year
    return f"{year}-{month:02}-{int(day):02}{text[found.end() :]}"


def read_dates(texts: pl.Series, order: str) -> pl.Series:
    """Convert text to dates and times, in UTC if they have a time zone; whatever is not a date becomes null.

    Examples
    --------
    >>> read_dates(pl.Series(["9/14/2024", "9/15/2024 3:05 PM"]), "mdy").to_list()
    [datetime.datetime(2024, 9, 14, 0, 0), datetime.datetime(2024, 9, 15, 15, 5)]
    """
    texts = texts.str.strip_chars()
    first = texts.drop_nulls().head(1).to_list()
    form = _format_of(first[0], order) if first else None
    found = (
        _parsed(texts, form) if form else pl.Series(texts.name, [None] * len(texts), dtype=pl.Datetime("us"))
    )
    left = texts.filter(found.is_null() & texts.is_not_null()).unique()
    if left.is_empty():
        return found
    plain = pl.Series([_numbered(text) for text in left.to_list()], dtype=pl.String)
    values = pl.Series([None] * len(left), dtype=pl.Datetime("us"))
    forms = dict.fromkeys(_format_of(text, order) for text in plain.to_list())
    for other in forms:
        if other is not None:
            values = values.zip_with(values.is_not_null(), _parsed(plain, other))
    rest = texts.replace_strict(left, values, default=None, return_dtype=pl.Datetime("us"))
    return found.zip_with(found.is_not_null(), rest)


def read_any_dates(texts: pl.Series) -> pl.Series:
    """Convert dates of which the order is not known, year first or else day first, and times of day.

    Examples
    --------
    >>> read_any_dates(pl.Series(["2024-01-31", "31.1.2024 7:30", "9:15", "soon"])).dt.hour().to_list()
    [0, 7, 9, None]
    """
    found = read_dates(texts, "ymd")
    for before, order in (("", "dmy"), ("1970-01-01T", "ymd")):
        left = (found.is_null() & texts.is_not_null()).arg_true()
        if not left.is_empty():
            found = found.scatter(left, read_dates(before + texts.gather(left).str.strip_chars(), order))
    return found


def _format_of(text: str, order: str) -> str | None:
    """Return the format of a date for polars; None if it is not a date of this order."""
    found = _COMPACT.fullmatch(text)
    if found is not None:
        return ("%Y%m%d" + "T%H%M%S%.f" * bool(found["time"])) if order == "ymd" else None
    found = (_YEAR_FIRST if order == "ymd" else _YEAR_LAST).fullmatch(text)
    if found is None:
        named = _numbered(text)
        if named == text or (found := _YEAR_FIRST.fullmatch(named)) is None:
            return None
        order = "ymd"
    sign, year = found["sign"], "%Y" if len(found["year"]) == 4 else "%y"
    day = {
        "ymd": f"{year}{sign}%m{sign}%d",
        "dmy": f"%d{sign}%m{sign}{year}",
        "mdy": f"%m{sign}%d{sign}{year}",
    }[order]
    if found["hour"] is None:
        return day
    hour = "%I:%M" if found["half"] else "%H:%M"
    second = ":%S%.f" if found["second"] else ""
    half = found["half"] and found["half"][: -len(found["half"].strip())] + "%p"
    zone = found["zone"] and re.sub(r"[+-].*", "%z", found["zone"])
    return f"{day}{found['gap']}{hour}{second}{half or ''}{zone or ''}"


def _parsed(texts: pl.Series, form: str) -> pl.Series:
    if "%p" in form:
        texts = texts.str.replace(r"(?i)([ap])\.m\.", "${1}m")
    return texts.str.to_datetime(form, strict=False, time_unit="us").dt.replace_time_zone(None)


def are_compact(texts: Sequence[str]) -> bool:
    """Return whether digits are a year, month and day, such as 20240131, and too many of them are to be amounts."""
    found = map(_COMPACT.fullmatch, texts)
    return len(texts) >= _MIN_COMPACT and all(
        one is not None and _possible(int(one["month"]), int(one["day"])) for one in found
    )


def is_time(text: str) -> bool:
    """Return whether a text is a time of day, such as 7:30 or, as Italian files have it, 18.00.00."""
    found = _CLOCK.fullmatch(text) or _CLOCK_WITH_POINTS.fullmatch(text)
    return found is not None and int(found["hour"]) < 24 and int(found["minute"]) < 60


def read_times(texts: pl.Series) -> pl.Series:
    """Convert text to times of day; whatever is not one becomes null.

    Examples
    --------
    >>> read_times(pl.Series(["7:30", "18.00.00", "25:00"])).to_list()
    [datetime.time(7, 30), datetime.time(18, 0), None]
    """
    texts = texts.str.strip_chars().str.replace(r"^(\d{1,2}:\d{2})$", "${1}:00")
    texts = texts.str.replace(r"^(\d{1,2})\.(\d{2})\.(\d{2})$", "${1}:${2}:${3}")
    moments = "1970-01-01T" + texts
    return (
        moments.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="us")
        .dt.time()
        .alias(texts.name)
    )


def is_duration(text: str) -> bool:
    """Return whether a text is a duration: ``26:30:00``, ``1h 30min`` or ``PT1H30M``."""
    if _CLOCK.fullmatch(text) or (re.match(_ISO_DURATION, text) and len(text) > 2 and text != "PT"):
        return True
    return bool(_LENGTH.fullmatch(text)) and all(
        unit.lower() in _UNITS for _, unit in _LENGTH_PART.findall(text)
    )


def read_durations(texts: pl.Series) -> pl.Series:
    """Convert durations to seconds; whatever is not a duration becomes null.

    Examples
    --------
    >>> read_durations(pl.Series(["26:30:00", "1h 30min", "PT2H", "500 ms", "soon"])).to_list()
    [95400.0, 5400.0, 7200.0, 0.5, None]
    """
    texts = texts.str.strip_chars()
    distinct = texts.unique().drop_nulls()
    seconds = pl.Series([_seconds(text) for text in distinct.to_list()], dtype=pl.Float64)
    return texts.replace_strict(distinct, seconds, default=None, return_dtype=pl.Float64)


def _seconds(text: str) -> float | None:
    if not is_duration(text):
        return None
    if _CLOCK.fullmatch(text):
        hours, minutes, *rest = text.split(":")
        return 3600.0 * int(hours) + 60.0 * int(minutes) + (float(rest[0]) if rest else 0.0)
    if iso := re.match(_ISO_DURATION, text):
        lengths: Sequence[float] = (604800.0, 86400.0, 3600.0, 60.0, 1.0)
        return sum(float(n) * length for n, length in zip(iso.groups(), lengths, strict=True) if n)
    total = sum(float(n) * _UNITS[unit.lower()] for n, unit in _LENGTH_PART.findall(text))
    return -total if text.startswith("-") else total
