"""Where the results of a review are."""

from __future__ import annotations

from pathlib import Path

from dplan.persistence.atomic import atomic_write
from dplan.review.session import Session
from dplan.review.story import story

__all__ = ["default_log", "default_model", "write_story"]


def default_log(table: Path, model: Path | None) -> Path:
    """Return the log of a review: next to the model, or next to the table without a model.

    Examples
    --------
    >>> default_log(Path("data/june.csv"), Path("models/fraud.dplan")).as_posix()
    'models/fraud.june.verdicts.jsonl'
    """
    if model is None:
        return table.with_name(f"{table.stem}.verdicts.jsonl")
    return model.with_name(f"{model.stem}.{table.stem}.verdicts.jsonl")


def default_model(table: Path, model: Path | None) -> Path:
    """Return where the updated model is written.

    Examples
    --------
    >>> default_model(Path("june.csv"), None).as_posix()
    'june-reviewed.dplan'
    """
    begin = model or table
    return begin.with_name(f"{begin.stem}-reviewed.dplan")


def write_story(session: Session, log: Path) -> Path:
    """Write the story of a session beside its log, and return the file."""
    target = log.with_name(log.name.removesuffix(".jsonl") + ".html")
    with atomic_write(target) as temporary:
        temporary.write_text(story(session), encoding="utf-8")
    return target
