"""Kinds of the alerts of files and frames, and kinds as text: a page, rules as JSON, or SQL."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dplan.kinds.finding import Kinds, find_kinds
from dplan.kinds.grouping import FEWEST_ALERTS
from dplan.kinds.page import kinds_page
from dplan.kinds.table import ScoredTable
from dplan.rules.sql import script
from dplan.scoring.files import chunks_of
from dplan.scoring.scorer import Scorer
from dplan.tables.chunks import Chunk
from dplan.tables.input import Input

__all__ = ["check_enough", "find", "format_of", "text_of"]

_FORMATS = {".html": "html", ".htm": "html", ".json": "json", ".sql": "sql"}


def find(scorer: Scorer, table: Any, n_kinds: int | None = None) -> Kinds:
    """Return the kinds of the alerts of a file, a folder, an `Input` or a frame; it is read three times."""
    source = table.readable_twice() if isinstance(table, Input) else table

    def chunks() -> Iterable[Chunk]:
        if isinstance(source, Input):
            source.rewind()
        return chunks_of(source, scorer.model)

    return find_kinds(ScoredTable.of(scorer, chunks), n_kinds)


def check_enough(found: Kinds) -> Kinds:
    """Raise ValueError if there are too few alerts for kinds."""
    if not found.groups:
        raise ValueError(
            f"{found.n_alerts:,} of {len(found.table.scores):,} rows are alerts, and kinds need at least "
            f"{FEWEST_ALERTS}; set a budget (--budget) or a lower threshold (--threshold)"
        )
    return found


def format_of(path: Path) -> str:
    """Return the format of a file of kinds, from its name.

    Examples
    --------
    >>> format_of(Path("kinds.SQL"))
    'sql'
    """
    found = _FORMATS.get(path.suffix.lower())
    if found is None:
        raise ValueError(f"{path.name}: unsupported file type; name the output .html, .json or .sql")
    return found


def text_of(
    found: Kinds, form: str, *, model_name: str, table_name: str, dialect: str, sql_table: str
) -> str:
    """Return kinds as a page, as JSON or as SQL."""
    if form == "html":
        return kinds_page(found, model_name=model_name, table_name=table_name)
    if form == "json":
        return found.rules.to_text()
    return script(found.rules.rules, dialect, sql_table, found.rules.meanings)
