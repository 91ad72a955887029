"""Parse dates and times."""

import polars as pl

__all__ = ["parse_dates"]

_OTHER_DATES = (  # day.month.year, also with two digits of the year; year/month/day; a time of day
    (r"^(\d{1,2})[./-](\d{1,2})[./-](\d{4})(T|$)", "${3}-${2}-${1}${4}"),
    (r"^(\d{1,2})[./](\d{1,2})[./]([0-6]\d)(T|$)", "20${3}-${2}-${1}${4}"),
    (r"^(\d{1,2})[./](\d{1,2})[./]([7-9]\d)(T|$)", "19${3}-${2}-${1}${4}"),
    (r"^(\d{4})[./](\d{1,2})[./](\d{1,2})(T|$)", "${1}-${2}-${3}${4}"),
    (r"^(\d{1,2}:)", "1970-01-01T${1}"),
)


def parse_dates(texts: pl.Series) -> pl.Series:
    """Parse dates and times, in UTC if they have a time zone; anything else becomes null.

    The formats are year-month-day and day-month-year, separated by ``-``, ``/`` or ``.``, with an optional time of day,
    seconds, fractions and time zone; and a time of day alone. A value is parsed the same way regardless of the other
    values.

    Examples
    --------
    >>> parse_dates(pl.Series(["2024-01-31", "2024-01-31T12:00:00Z", "31.1.2024 7:30", "soon"])).dt.hour().to_list()
    [0, 12, 7, None]
    """
    found = _filled(None, texts, "%Y-%m-%d")
    texts = texts.str.replace(" ", "T", literal=True).str.replace(r"\s*(?:Z|UTC)$", "")
    found = _filled(
        found, texts, "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S%.f%z", "%Y%m%dT%H%M%S%.f"
    )
    if found.null_count() > texts.null_count():
        for written, iso in _OTHER_DATES:
            texts = texts.str.replace(written, iso)
        found = _filled(found, texts, "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M")
    return found


def _filled(found: pl.Series | None, texts: pl.Series, *patterns: str) -> pl.Series:
    """Parse the strings that are not parsed yet."""
    for pattern in patterns:
        if found is None or found.null_count() > texts.null_count():
            dates = texts.str.to_datetime(pattern, strict=False, time_unit="us").dt.replace_time_zone(None)
            found = dates if found is None else found.zip_with(found.is_not_null(), dates)
    assert found is not None
    return found
