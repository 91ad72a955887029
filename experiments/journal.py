"""The journal of a benchmark: one JSON line per finished cell, which survives crashes and full disks.

A line is written in one piece and synced to disk before its cell counts as finished, so a crash can only truncate the
last line. The runner removes a truncated last line, the report ignores it. Only one runner can write to a folder.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dplan.exceptions import DplanError
from dplan.persistence.appending import AppendedFile, whole_lines

__all__ = ["FolderInUseError", "Journal", "JournalError", "read_journal"]

NAME = "journal.jsonl"
_PACKED_NAME = f"{NAME}.gz"

Record = dict[str, Any]

# The required fields and their types: by kind of record, and for cells that are done or failed.
_NUMBER, _OPTIONAL_NUMBER = (int, float), (int, float, type(None))
_FIELDS: dict[str, dict[str, Any]] = {
    "run": {"command": str, "time": str, "versions": dict, "data": dict, "partial": dict, "machine": dict,
            "workers": int},
    "cell": {"suite": str, "dataset": str, "x": _OPTIONAL_NUMBER, "scenario": str, "method": str, "seed": int,
             "protocol": str, "status": str},
    "done": {"auc_pr": _NUMBER, "auc_roc": _NUMBER, "classes": dict, "known": list, "precision_at": dict,
             "fit_seconds": _NUMBER, "score_seconds": _NUMBER}
    | {f"auc_{curve}_{group}": _OPTIONAL_NUMBER for curve in ("pr", "roc") for group in ("known", "unknown")},
    "reviewed": {"finds": list, "found": dict, "verdicts": int, "rows": int, "anomalies": int, "refits": int,
                 "fit_seconds": _NUMBER, "score_seconds": _NUMBER},
    "judged": {"arms": list, "rows": int, "hidden": int, "refits": int},
    "estimated": {"estimate": (dict, type(None)), "right": int, "rows": int, "anomalies": int,
                  "fit_seconds": _NUMBER, "score_seconds": _NUMBER},
    "failed": {"error": str, "traceback": str},
}  # fmt: skip

_OWN_FIELDS = {"discovery": "reviewed", "estimates": "estimated"}  # of suites without areas under curves


class JournalError(DplanError, OSError):
    """A journal cannot be read or written."""


class FolderInUseError(JournalError):
    """Another run is writing to the same folder."""


class Journal:
    """The open journal of a folder, locked against other runners until it is closed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(folder) as journal:
    ...         journal.append({"kind": "note", "text": "hello"})
    ...     read_journal(folder)
    [{'kind': 'note', 'text': 'hello'}]
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / NAME
        self.records: list[Record] = []
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self.path.exists() and (self.folder / _PACKED_NAME).exists():
                raise JournalError(
                    f"the journal in {self.folder} is compressed: run `gunzip {_PACKED_NAME}` there first"
                )
            self._file = AppendedFile(self.path)
        except JournalError:
            raise
        except BlockingIOError as error:
            raise FolderInUseError(
                f"another benchmark is writing to {self.folder}; wait until it finishes, or choose another folder"
            ) from error
        except OSError as error:
            raise JournalError(f"cannot use {self.folder}: {error.strerror or error}") from error
        try:
            self.records = list(_parse(self._file.content, self.path))
        except JournalError:
            self._file.close()
            raise

    def append(self, record: Record) -> None:
        """Add a record; when this returns, it is on disk."""
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        try:
            self._file.append(line)
        except OSError as error:
            raise JournalError(
                f"cannot write to {self.path}: {error.strerror}. "
                "All recorded cells are kept; free some space and run the same command again."
            ) from error
        self.records.append(record)

    def close(self) -> None:
        """Close the files and release the lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(place: str | Path) -> list[Record]:
    """Read a journal, even while a runner is writing it: its folder, or the file itself, which may be compressed."""
    path = Path(place)
    if path.is_dir():
        candidates = [path / NAME, path / _PACKED_NAME]
        path = next((file for file in candidates if file.exists()), candidates[0])
    try:
        text = path.read_bytes()
    except OSError as error:
        raise JournalError(f"cannot read the journal {path}: {error.strerror}") from error
    if path.suffix == ".gz":
        try:
            text = gzip.decompress(text)
        except (OSError, EOFError, zlib.error) as error:
            raise JournalError(f"{path} is damaged: {error}") from error
    return list(_parse(whole_lines(text), path))


def _parse(text: bytes, path: Path) -> Iterator[Record]:
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise JournalError(
                f"{path}, line {number} is not valid JSON. An interrupted run cannot cause this; restore the file from "
                "a backup, or delete the line to run its cell again."
            ) from error
        problem = _problem(record)
        if problem:
            raise JournalError(f"{path}, line {number} is not a valid record: {problem}")
        yield record


def _problem(record: Any) -> str:
    """Return what is wrong with a record, or an empty string."""
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        return "it has no kind"
    fields = dict(_FIELDS.get(record["kind"], {}))
    if record["kind"] == "cell":
        suite, done = record.get("suite"), record.get("status") == "done"
        if not done:
            fields |= _FIELDS["failed"]
        elif suite in _OWN_FIELDS:
            fields |= _FIELDS[_OWN_FIELDS[suite]]
        else:
            fields |= _FIELDS["done"] | (_FIELDS["judged"] if suite == "after-review" else {})
        fields |= {"curve": list} if suite == "steps" and done else {}
    for name, types in fields.items():
        if name not in record:
            return f"the field {name!r} is missing"
        if not isinstance(record[name], types):
            return f"the field {name!r} is {record[name]!r:.40}"
    return ""
