"""The journal of a benchmark: one JSON line per finished cell, which survives kills and full disks.

A line is written in one go and forced to disk before the next cell counts as finished. Whatever kills the
runner can therefore only tear the last line, and only a torn last line is forgiven: the runner cuts it off, the
report looks past it. One runner at a time holds the lock on a folder; the operating system frees it when the
runner ends, however it ends.
"""

import contextlib
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dplan.exceptions import FolderInUseError, JournalError

__all__ = ["FolderInUseError", "Journal", "JournalError", "read_journal"]

NAME = "journal.jsonl"
_PACKED_NAME = f"{NAME}.gz"
_LOCK_NAME = "journal.lock"

Record = dict[str, Any]


class Journal:
    """The open journal of a folder, locked against other runners until it is closed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(folder) as journal:
    ...         journal.append({"kind": "cell", "auc_pr": 0.5})
    ...     read_journal(folder)
    [{'kind': 'cell', 'auc_pr': 0.5}]
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / NAME
        self.records: list[Record] = []
        with contextlib.ExitStack() as undo:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = os.open(self.folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
                undo.callback(os.close, lock)
                _lock(lock, self.folder)
                if not self.path.exists() and (self.folder / _PACKED_NAME).exists():
                    raise JournalError(
                        f"the journal in {self.folder} is compressed: unpack it first, with gunzip {_PACKED_NAME} there"
                    )
                self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
                undo.callback(os.close, self._file)
                text = self.path.read_bytes()
                whole = text[: text.rfind(b"\n") + 1]
                if len(whole) < len(text):
                    os.ftruncate(self._file, len(whole))
            except JournalError:
                raise
            except OSError as error:
                raise JournalError(f"cannot use {self.folder}: {error.strerror}") from error
            self.records = list(_parse(whole, self.path))
            self._closing = undo.pop_all()

    def append(self, record: Record) -> None:
        """Add a record; once this returns, it is on disk."""
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        size = os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)  # works on a full disk, too
            raise JournalError(
                f"cannot write to {self.path}: {error.strerror}. "
                "Every cell recorded so far is kept; make room and give the same command again."
            ) from error
        self.records.append(record)

    def close(self) -> None:
        """Close the files and free the lock."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(place: str | Path) -> list[Record]:
    """Read a journal, even while a runner writes it: a folder, or the file itself, which may be compressed."""
    path = Path(place)
    if path.is_dir():
        candidates = [path / NAME, path / _PACKED_NAME]
        path = next((file for file in candidates if file.exists()), candidates[0])
    try:
        text = path.read_bytes()
    except OSError as error:
        raise JournalError(f"there is no journal to read at {path}: {error.strerror}") from error
    if path.suffix == ".gz":
        try:
            text = gzip.decompress(text)
        except (OSError, EOFError) as error:
            raise JournalError(f"{path} is damaged: {error}") from error
    return list(_parse(text[: text.rfind(b"\n") + 1], path))


def _parse(text: bytes, path: Path) -> Iterator[Record]:
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise JournalError(
                f"{path}, line {number} is damaged: it is no JSON. A kill cannot cause this; restore the file from a "
                "copy, or remove the line to run its cell again."
            ) from error
        if not isinstance(record, dict) or "kind" not in record:
            raise JournalError(f"{path}, line {number} is no record of a benchmark")
        yield record


def _lock(handle: int, folder: Path) -> None:
    busy = FolderInUseError(
        f"another benchmark writes into {folder}: wait until it ends, or choose another output folder"
    )
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            raise busy from None
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise busy from None
