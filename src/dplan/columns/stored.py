"""How columns are stored in model files: the same fields for all types, with defaults where a type has no value."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["LEARNED", "PART", "READING", "is_like"]

# How a column is stored, with what the types that do not have a value leave there. Review queues carry a digest of it.
LEARNED: dict[str, Any] = {
    "minimum": 0.0,
    "maximum": 0.0,
    "fill": (),
    "levels": (),
    "reason": "",
    "parts": (),
    "since": "",
    "since_range": (0.0, 0.0),
}
PART: dict[str, Any] = {"fill": 0.0, "levels": "", "parts": "", "since_range": 0.0}  # of values with several
READING: dict[str, Any] = {
    "decimal": ".",
    "thousands": ",",
    "unit": "",
    "order": "ymd",
    "part": "",
    "calendar": False,
    "since": "",
    "why": "",
    "sure": True,
}


def is_like(value: Any, default: Any) -> bool:
    """Return whether a stored value, or each part of it, has the form of another: text, a flag or a finite number."""
    if isinstance(value, tuple):
        return all(is_like(part, default) for part in value)
    if isinstance(default, float):
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    return type(value) is type(default)
