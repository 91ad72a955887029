"""Text that is not a number or a date: yes and no, parts of structured text, ids, free text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

__all__ = ["PARTS", "is_flag", "looks_free", "looks_like_ids", "part_of", "read_flags", "read_part"]

_YES_WORDS = """
true t yes y ja j oui o vrai si sí vero verdadero sim s verdadeiro tak да ano áno igen kyllä evet wahr on prawda так ναι
"""
_NO_WORDS = """
false f no n nein non faux falso não nao nie нет ne nem ei hayır falsch off fałsz ні όχι nee nej
"""
_YES, _NO = frozenset(_YES_WORDS.split()), frozenset(_NO_WORDS.split())

# Structured text and the part of it that many rows share: what it looks like, and how the part is found.
PARTS = {
    "country": (re.compile(r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}"), "IBANs"),
    "domain": (re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"), "e-mail addresses"),
    "host": (re.compile(r"https?://[^\s/]+(?:/\S*)?", re.IGNORECASE), "web addresses"),
}
_ID_SHAPES = (
    re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"),  # UUID
    re.compile(r"(?=.*\d)[0-9a-fA-F]{16,}"),  # digest
    re.compile(r"[A-Za-z]{0,6}[-_/#:. ]?\d{3,}(?:[-_/]\d+)*"),  # TX-000123
    re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_-]{10,}"),  # a key
)


def is_flag(text: str) -> bool:
    """Return whether a text means yes or no.

    Examples
    --------
    >>> is_flag("Ja"), is_flag("maybe")
    (True, False)
    """
    return text.lower() in _YES or text.lower() in _NO


def read_flags(texts: pl.Series) -> pl.Series:
    """Convert words for yes and no to booleans; anything else becomes null.

    Examples
    --------
    >>> read_flags(pl.Series(["Ja", "NEIN", "1", None, "maybe"])).to_list()
    [True, False, True, None, None]
    """
    distinct = texts.unique().drop_nulls()  # few, so that the rows need only one comparison
    words = [text.strip().lower() for text in distinct.to_list()]
    yes = distinct.filter(
        pl.Series([word in _YES or word in ("1", "1.0") for word in words], dtype=pl.Boolean)
    )
    no = distinct.filter(pl.Series([word in _NO or word in ("0", "0.0") for word in words], dtype=pl.Boolean))
    found = texts.is_in(yes.implode())
    if len(yes) + len(no) == len(distinct):
        return found
    return pl.select(pl.when(found | texts.is_in(no.implode())).then(found)).to_series().alias(texts.name)


def part_of(texts: Sequence[str]) -> str:
    """Return the part to use of structured text: ``"country"``, ``"domain"`` or ``"host"``; empty if it has none.

    Examples
    --------
    >>> part_of(["DE89 3704 0044 0532 0130 00"]), part_of(["a@b.org", "c@d.org"]), part_of(["Berlin"])
    ('country', 'domain', '')
    """
    return next((part for part, (form, _) in PARTS.items() if all(map(form.fullmatch, texts))), "")


def read_part(texts: pl.Series, part: str) -> pl.Series:
    """Reduce structured text to a part of it; a part alone stays.

    Examples
    --------
    >>> read_part(pl.Series(["ann@Example.org", "example.org"]), "domain").to_list()
    ['example.org', 'example.org']
    """
    texts = texts.str.strip_chars()
    if part == "country":
        return texts.str.slice(0, 2).str.to_uppercase()
    pattern = r"^.*@" if part == "domain" else r"(?i)^https?://(?:www\.)?|[/:?#].*$"
    return texts.str.replace_all(pattern, "").str.to_lowercase()


def looks_like_ids(texts: Sequence[str]) -> bool:
    """Return whether distinct texts have the form of ids: one shape, with digits, without words.

    Examples
    --------
    >>> looks_like_ids(["TX-0001", "TX-0002"]), looks_like_ids(["invoice of May", "rent"])
    (True, False)
    """
    return any(all(map(shape.fullmatch, texts)) for shape in _ID_SHAPES)


def looks_free(texts: Sequence[str]) -> bool:
    """Return whether texts are written by people in words: several words on average, of different number."""
    words = [len(text.split()) for text in texts]
    return sum(words) >= 2 * len(words) and len(set(words)) > 1
