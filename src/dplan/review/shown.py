"""Text from a table, made safe to show."""

from __future__ import annotations

__all__ = ["visible"]

_LONGEST = 500  # characters of a value that are shown


def visible(text: str, most: int = _LONGEST) -> str:
    r"""Return text that is safe to show: control and direction characters are escaped, and long text is cut.

    Examples
    --------
    >>> visible("a\u202eb\x00"), visible("word " * 1000, most=10)
    ('a\\u202eb\\x00', 'word word … (5,000 characters)')
    """
    cut = text[:most]
    shown = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in cut)
    return shown if len(text) <= most else f"{shown.rstrip()} … ({len(text):,} characters)"
