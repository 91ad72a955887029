"""What people say about a column, on the command line or in a TOML file, in place of what its values suggest."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dplan.columns.moments import ORDERS
from dplan.columns.texts import PARTS
from dplan.text import shown

__all__ = ["parse_column", "read_columns"]

_SIGNS = {"comma": ",", "point": ".", "space": " ", "apostrophe": "'"}
_KINDS = {
    **{kind: kind for kind in ("number", "date", "time", "duration", "flag", "category")},
    **dict.fromkeys(("text", *PARTS), "category"),
    "filled": "filled",
    "id": "id",
    "drop": "dropped",
}
_ORDERS = {name: order for order, name in ORDERS.items()}
_OPTIONS = {  # kind → its options with a value, and those without
    "number": (("decimal", "thousands", "unit"), ()),
    "date": (("since",), (*_ORDERS, "calendar")),
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
    kind, *options = rest.split(",")
    settings: dict[str, Any] = {"kind": kind}
    for option in options:
        key, _, value = option.partition("=")
        settings[key] = value or True
    return name, _meaning(f"--column {text}", settings)


def _split(text: str) -> tuple[str, str, str]:
    """Split at the first ``=`` that a kind follows, because names and options may have one too."""
    for at, sign in enumerate(text):
        if sign == "=" and text[at + 1 :].split(",")[0] in _KINDS:
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
    """Check settings as people write them, and return them as the fields of a meaning."""
    word = settings["kind"]
    if word not in _KINDS:
        raise ValueError(f"{where}: unknown kind {shown(word)}; choose from {_listed(_KINDS)}")
    meaning: dict[str, Any] = {"kind": _KINDS[word], **({"part": word} if word in PARTS else {})}
    valued, plain = _OPTIONS.get(meaning["kind"], ((), ()))
    for key, value in settings.items():
        if key in plain and value is True:
            meaning |= {"order": _ORDERS[key]} if key in _ORDERS else {"calendar": True}
        elif key in ("decimal", "thousands") and key in valued:
            allowed = list(_SIGNS)[:2] if key == "decimal" else list(_SIGNS)
            if value not in allowed:
                raise ValueError(f"{where}: {key} is one of {_listed(allowed)}, not {shown(value)}")
            meaning[key] = _SIGNS[value]
        elif key in valued and isinstance(value, str):
            meaning[key] = value
        elif key != "kind":
            options = _listed([*(f"{name}=…" for name in valued), *plain])
            raise ValueError(
                f"{where}: {word} has no option {shown(key)}"
                + (f"; choose from {options}" if options else "")
            )
    if meaning.get("decimal") is not None and meaning.get("decimal") == meaning.get("thousands"):
        raise ValueError(f"{where}: decimal and thousands cannot be the same")
    return meaning


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
