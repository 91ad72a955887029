"""The files of a review, and how it continues the next morning: with its model and verdicts, at the same address."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import polars as pl

from dplan.exceptions import ModelFileError
from dplan.persistence.atomic import atomic_write
from dplan.persistence.claim import check_files
from dplan.persistence.model_file import read_bytes
from dplan.persistence.previous import previous
from dplan.persistence.schema import is_count, is_text, is_texts, problem
from dplan.review.export import VERDICT_COLUMN
from dplan.tables.input import Input
from dplan.tables.writing import format_of_output

__all__ = ["Kept", "ReviewFiles", "columns_of", "kept_in", "newest_table", "start_of"]

_REVIEWED, _SIMULATED, _KEPT = "-reviewed", "-simulated", ".review.json"


@dataclass(frozen=True)
class ReviewFiles:
    """What a review writes.

    Attributes
    ----------
    log : pathlib.Path
        The verdicts.
    model : pathlib.Path
        The updated model.
    labels : pathlib.Path or None
        The table with a column of verdicts, if asked for.
    """

    log: Path
    model: Path
    labels: Path | None = None

    @classmethod
    def of(
        cls,
        table: Path,
        model: Path | None,
        *,
        log: Path | None = None,
        model_out: Path | None = None,
        labels_out: Path | None = None,
        simulated: bool = False,
    ) -> ReviewFiles:
        """Return the files as given, others beside the model or, without one, beside the table.

        A model that a review has written is continued under the same name. A simulation has files of its own: its
        verdicts are nobody's. Raises ValueError if a file that is written
        is the table, the model that was given or another one that is written, or exists and no review has written it.

        Examples
        --------
        >>> files = ReviewFiles.of(Path("data/june.csv"), Path("models/fraud.dplan"))
        >>> files.log.as_posix(), files.model.as_posix()
        ('models/fraud.verdicts.jsonl', 'models/fraud-reviewed.dplan')
        >>> ReviewFiles.of(Path("data/july.csv"), files.model) == files
        True
        >>> ReviewFiles.of(Path("data/june.csv"), Path("fraud.dplan"), simulated=True).log.name
        'fraud-simulated.verdicts.jsonl'
        """
        begin = model or table
        name = begin.stem.removesuffix(_REVIEWED) + (_SIMULATED if simulated else "")
        own = begin.with_name(f"{name}{'' if simulated else _REVIEWED}.dplan")
        found = cls(log or begin.with_name(f"{name}.verdicts.jsonl"), model_out or own, labels_out)
        inputs = [table] if model is None or (model_out is None and model == own) else [table, model]
        check_files(inputs, filter(None, (found.log, found.kept, found.model, found.labels)))
        if found.model.exists():
            try:
                read_bytes(found.model)
            except ModelFileError as error:
                raise ValueError(f"{error}; choose another name for the updated model") from None
        if found.labels is not None:  # after a day's work would be too late
            format_of_output(found.labels)
            if not found.labels.absolute().parent.is_dir() or found.labels.is_dir():
                raise ValueError(f"cannot write labels to {found.labels}: check the folder")
            if found.labels.exists() and not _ends_with_verdicts(found.labels):
                raise ValueError(
                    f"{found.labels} exists and does not end with a column of verdicts, so no review has written it; "
                    "choose another name for the labels"
                )
        return found

    @property
    def kept(self) -> Path:
        """The file of `Kept`."""
        return self.log.with_name(self.log.name.removesuffix(".jsonl").removesuffix(".verdicts") + _KEPT)


@dataclass(frozen=True)
class Kept:
    """What a review keeps beside its log. The tokens are secret, so only its owner may read the file.

    Attributes
    ----------
    first : str
        The model that was given when the review first began, or nothing.
    start : str
        The model that the review of `table` began with, or nothing.
    table : str
        The table that was reviewed last.
    columns, ids, drop : list of str
        Its columns, those that identify a row, and those that are ignored if there is no model.
    log, model : str
        The log, and the updated model.
    kinds : str
        The file of kinds, or nothing.
    port : int
        Where the page was served.
    token, reading : str
        What the link has, and what the link has that allows reading only.
    target : int
        Rows to decide per day; 0 for no target.
    """

    first: str = ""
    start: str = ""
    table: str = ""
    columns: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    log: str = ""
    model: str = ""
    kinds: str = ""
    port: int = 0
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    reading: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    target: int = 0

    @classmethod
    def read(cls, path: Path) -> Kept | None:
        """Read what was kept; None if there is nothing."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            found = json.loads(text or "{}")
        except (ValueError, RecursionError):
            found = None
        known = {one.name: _FORMS[type(getattr(cls(), one.name))] for one in fields(cls)}
        if problem(found, known, optional=known) or found.get("port", 0) > 65_535:
            raise ValueError(
                f"{path} is damaged; delete it, and name model and table once more. Verdicts are in the log."
            )
        return cls(**(found | {name: _absolute(found[name], path) for name in _PATHS if found.get(name)}))

    def write(self, path: Path) -> None:
        """Write it, for the owner's eyes only."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        path.chmod(0o600)
        relative = {name: _relative(getattr(self, name), path) for name in _PATHS if getattr(self, name)}
        with atomic_write(path) as temporary:  # which keeps the mode
            temporary.write_text(json.dumps({**asdict(self), **relative}, indent=1) + "\n", encoding="utf-8")


_FORMS: dict[type, tuple[Any, str]] = {str: (is_text, ""), int: (is_count, ""), list: (is_texts, "")}
_PATHS = ("first", "start", "table", "log", "model", "kinds")


def _absolute(name: str, beside: Path) -> str:
    return str(Path(os.path.normpath(beside.parent / name)))


def _relative(name: str, beside: Path) -> str:
    """Return a path as seen from a file, so that a folder can be moved."""
    return os.path.relpath(Path(name).absolute(), beside.absolute().parent)


def kept_in(folder: Path) -> Kept:
    """Return the review that was begun in a folder; raise ValueError if there is none, or more than one."""
    found = sorted(folder.glob(f"*{_KEPT}"))
    kept = Kept.read(found[0]) if len(found) == 1 else None
    if kept is not None and kept.table:
        return kept
    if len(found) > 1:
        names = ", ".join(path.name.removesuffix(_KEPT) for path in found)
        raise ValueError(f"several reviews were begun in this folder ({names}); name the model and the table")
    raise ValueError(
        "there is no review to continue in this folder; begin one with  dplan review [MODEL] TABLE"
    )


def newest_table(kept: Kept) -> Path:
    """Return the newest table like the one that was reviewed last: beside it, of the same type and columns."""
    last = Path(kept.table)
    others = [path for path in _like(last) if path != last]
    for path in others:
        if (not last.exists() or path.stat().st_mtime > last.stat().st_mtime) and _columns(
            path
        ) == kept.columns:
            return path
    if not last.exists():
        raise FileNotFoundError(f"{last} is gone, and no other table in its folder has the same columns")
    return last


def _like(last: Path) -> list[Path]:
    """Return the files of the same type in a table's folder, the newest first."""
    found = [path for path in last.parent.glob(f"*{last.suffix}") if path.is_file() and path.name[0] != "."]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def _columns(path: Path) -> list[str]:
    try:
        return columns_of(Input(path))
    except (
        OSError,
        ValueError,
        pl.exceptions.PolarsError,
    ):  # not a table, or not one that can be read without options
        return []


def _ends_with_verdicts(path: Path) -> bool:
    return "".join(_columns(path)[-1:]).removeprefix("dplan_") == VERDICT_COLUMN


def columns_of(table: Input) -> list[str]:
    """Return the columns of a table."""
    return next(iter(table.chunks(100)))().columns


def start_of(files: ReviewFiles, model: Path | None, table: Path, kept: Kept | None) -> Path | None:
    """Return the model that the review of a table begins with.

    A review of the same table begins where it began before, and learns again what it had learned. A review of another
    table begins with what was learned, of which a copy is kept while the model is updated.
    """
    same = kept is not None and kept.table and Path(kept.table).resolve() == table.resolve()
    if kept is not None and same and kept.start and Path(kept.start).exists():
        return Path(kept.start)
    learned = kept is not None and kept.table and not same
    if not files.model.exists() or not (learned or (model is not None and model == files.model)):
        return model
    with atomic_write(previous(files.model)) as temporary:
        temporary.write_bytes(files.model.read_bytes())
    return previous(files.model)
