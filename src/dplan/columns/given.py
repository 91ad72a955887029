"""What people say about a column, on the command line or in a TOML file, in place of what its values suggest."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dplan.columns import type_named, words
from dplan.text import shown

__all__ = ["as_given", "parse_column", "read_columns"]


def as_given(columns: Mapping[str, str | Mapping[str, Any]] | None) -> dict[str, Mapping[str, Any]]:
    """Return what is said about columns as it is stored; a text is written as on the command line.

    Examples
    --------
    >>> as_given({"amount": "number,decimal=comma", "note": {"kind": "drop"}})
    {'amount': {'kind': 'number', 'decimal': ','}, 'note': {'kind': 'drop'}}
    """
    return {
        name: _parsed(f"column {shown(name)}", said) if isinstance(said, str) else said
        for name, said in (columns or {}).items()
    }


def parse_column(text: str) -> tuple[str, dict[str, Any]]:
    """Return the column and the meaning in ``NAME=kind[,option…]``.

    Examples
    --------
    >>> parse_column("amount=number,decimal=comma,unit=€")
    ('amount', {'kind': 'number', 'decimal': ',', 'unit': '€'})
    >>> parse_column("booked=date,month-first,calendar")
    ('booked', {'kind': 'date', 'order': 'mdy', 'calendar': True})
    """
    name, equals, rest = text.rpartition("=") if text.count("=") == 1 else _split(text)
    if not equals or not name:
        raise ValueError(
            f"--column {text}: expected NAME=kind[,option…], such as amount=number,decimal=comma"
        )
    return name, _parsed(f"--column {text}", rest)


def _parsed(where: str, text: str) -> dict[str, Any]:
    """Return the meaning in ``kind[,option…]``."""
    kind, *options = text.split(",")
    settings: dict[str, Any] = {"kind": kind}
    for option in options:
        key, _, value = option.partition("=")
        settings[key] = value or True
    return _meaning(where, settings)


def _split(text: str) -> tuple[str, str, str]:
    """Split at the first ``=`` that a kind follows, because names and options may have one too."""
    for at, sign in enumerate(text):
        if sign == "=" and text[at + 1 :].split(",")[0] in words():
            return text[:at], "=", text[at + 1 :]
    return text.partition("=")


def read_columns(path: Path) -> dict[str, dict[str, Any]]:
    """Read a TOML file with one table per column, such as ``[amount]`` and ``kind = "number"``."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is not a TOML file: {error}") from error
    meanings = {}
    for name, settings in found.items():
        if not isinstance(settings, dict) or "kind" not in settings:
            raise ValueError(f'{path.name}: [{name}] needs a kind, such as kind = "number"')
        order = {settings.pop("order"): True} if "order" in settings else {}
        meanings[name] = _meaning(f"{path.name}, [{name}]", {**settings, **order})
    return meanings


def _meaning(where: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check settings as people write them, and return them as they are stored."""
    word = settings["kind"]
    options = {key: value for key, value in settings.items() if key != "kind"}
    try:
        return type_named(word).settings(word, options)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
