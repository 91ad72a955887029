"""What stored JSON must look like: a check and words for each value, and one sentence about what is something else."""

import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

__all__ = ["Fields", "is_count", "is_number", "is_text", "is_texts", "list_of", "object_of", "problem"]

Fits = Callable[[Any], bool]
Fields = Mapping[str, tuple[Fits, str]]  # of a record: what fits, and what that is called

_MOST = 2**53  # every number in JSON up to this one is exact for every reader


def problem(record: Any, fields: Fields, optional: Collection[str] = ()) -> str:
    """Return what is wrong with a stored record, as the end of a sentence; an empty string if nothing is.

    Examples
    --------
    >>> fields = {"rows": (is_count, "a number of rows"), "who": (is_text, "a name")}
    >>> problem({"rows": 3}, fields, optional=["who"])
    ''
    >>> problem({"rows": -1}, fields, optional=["who"])
    "'rows' must be a number of rows, but it is -1"
    >>> problem({"rows": 3}, fields), problem({"rows": 3, "spin": 1}, fields, optional=["who"])
    ("'who' is missing", "'spin' is unknown")
    """
    if not isinstance(record, dict):
        return f"it must be an object, but it is {record!r:.40}"
    for name, (fits, form) in fields.items():
        if name not in record:
            if name not in optional:
                return f"{name!r} is missing"
        elif not fits(record[name]):
            return f"{name!r} must be {form}, but it is {record[name]!r:.40}"
    unknown = next((name for name in record if name not in fields), None)
    return "" if unknown is None else f"{unknown!r:.40} is unknown"


def is_text(value: Any) -> bool:
    """Return whether this is text that a file can contain: half of a surrogate pair, which JSON allows, cannot be."""
    return isinstance(value, str) and not any("\ud800" <= sign <= "\udfff" for sign in value)


def is_count(value: Any) -> bool:
    """Return whether this is a whole number from 0."""
    return type(value) is int and 0 <= value <= _MOST


def is_number(value: Any) -> bool:
    """Return whether this is a finite number; JSON such as 1e999 is not."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def list_of(fits: Fits) -> Fits:
    """Return a check of lists, by the check of their values."""
    return lambda value: isinstance(value, list) and all(map(fits, value))


def object_of(fits: Fits) -> Fits:
    """Return a check of objects, by the check of their values; their names are texts."""
    return lambda value: (
        isinstance(value, dict) and all(map(is_text, value)) and all(map(fits, value.values()))
    )


is_texts = list_of(is_text)
