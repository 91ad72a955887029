"""The log of verdicts: one JSON line per verdict, appended and synced to disk before it is acknowledged.

Nothing in a log is ever changed. A verdict is withdrawn by a later line that undoes it, and the latest verdict that is
not undone counts, so replaying the lines always gives the same labels. The kinds of lines are:

- ``session``: the page was opened; which table, model and id columns,
- ``verdict``: what a person decided about a row, and what they saw,
- ``undo``: verdicts that no longer count,
- ``refit``: the detector learned from the verdicts so far.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, get_args

from dplan.exceptions import VerdictLogError
from dplan.persistence.appending import AppendedFile
from dplan.tables.row_keys import Key

__all__ = ["Decision", "Record", "Standing", "VerdictLog", "label_of", "read_log"]

Record = dict[str, Any]
Decision = Literal["anomaly", "normal", "unsure"]

_NUMBER, _TEXTS = (int, float), "a list of strings"
_FIELDS: dict[str, dict[str, Any]] = {
    "session": {"version": int, "table": str, "model": str, "ids": _TEXTS, "columns": _TEXTS},
    "verdict": {"row": _TEXTS, "digest": str, "number": int, "model": str, "round": int, "score": _NUMBER,
                "rank": int, "reasons": _TEXTS, "verdict": str, "class": str, "who": str, "window": str,
                "seconds": _NUMBER, "together": int},
    "undo": {"of": list, "who": str, "window": str},
    "refit": {"round": int, "model": str, "seconds": _NUMBER, "upto": int},
}  # fmt: skip


class Standing:
    """The verdicts that count after some lines of a log.

    Attributes
    ----------
    current : dict of Key to dict
        The verdict that counts for each row, the oldest first.

    Examples
    --------
    >>> verdicts = Standing()
    >>> row = {"kind": "verdict", "row": ["p7"], "digest": "d", "class": "", "window": "w"}
    >>> verdicts.add({**row, "n": 1, "verdict": "normal"})
    >>> verdicts.add({**row, "n": 2, "verdict": "anomaly"})
    >>> verdicts.current[Key(("p7",), "d")]["verdict"]
    'anomaly'
    >>> verdicts.add({"kind": "undo", "n": 3, "of": [2]})
    >>> verdicts.current[Key(("p7",), "d")]["verdict"]
    'normal'
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.current: dict[Key, Record] = {}
        self._given: dict[Key, list[Record]] = {}
        self._by_number: dict[int, Record] = {}
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Take one more line into account."""
        if record["kind"] == "verdict":
            self._by_number[record["n"]] = record
            key = key_of(record)
            self._given.setdefault(key, []).append(record)
            self.current.pop(key, None)  # so that the latest verdict is the last
            self.current[key] = record
        elif record["kind"] == "undo":
            undone = [self._by_number.pop(n) for n in record["of"] if n in self._by_number]
            for one in undone:
                self._given[key_of(one)].remove(one)
            if undone:
                last = {key: given[-1] for key, given in self._given.items() if given}
                self.current = dict(sorted(last.items(), key=lambda found: found[1]["n"]))

    def standing(self) -> Iterator[Record]:
        """Yield the verdicts that are not undone, the latest first, including those that a later one replaced."""
        return iter(reversed(self._by_number.values()))


class VerdictLog:
    """A log open for writing; other writers are refused until it is closed.

    Parameters
    ----------
    path : path or None
        The file, which is continued if it exists; None to keep the lines in memory only, for simulations.

    Attributes
    ----------
    records : list of dict
        All lines.
    verdicts : Standing
        What they add up to.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with VerdictLog(Path(folder) / "verdicts.jsonl") as log:
    ...         undo = log.append({"kind": "undo", "of": [], "who": "me", "window": "w"})
    ...     [record["n"] for record in read_log(Path(folder) / "verdicts.jsonl")]
    [1]
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = Path("memory" if path is None else path)
        self._lock = threading.Lock()
        self._file: AppendedFile | None = None
        self.records: list[Record] = []
        self.verdicts = Standing()
        if path is not None:
            self._open()

    def _open(self) -> None:
        def whole(text: bytes) -> bytes:
            self.records = _parse(text, self.path)
            return b"".join(line + b"\n" for line in text.split(b"\n")[: len(self.records)])

        try:
            self._file = AppendedFile(self.path, whole)
        except BlockingIOError as error:
            raise VerdictLogError(
                f"another review is writing to {self.path}; use its page, or choose another log"
            ) from error
        except VerdictLogError:
            raise
        except OSError as error:
            raise VerdictLogError(f"cannot write to {self.path}: {error.strerror or error}") from error
        self.verdicts = Standing(self.records)

    def append(self, *records: Record) -> list[Record]:
        """Add lines, with number and time; when this returns, they are on disk.

        Raises ValueError, and saves nothing, if a line could not be read back.
        """
        with self._lock:
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            numbered = [
                {"n": len(self.records) + i, "time": time, **record}
                for i, record in enumerate(records, start=1)
            ]
            for record in numbered:
                if problem := _problem(record, record["n"]):
                    raise ValueError(f"not saved: {problem}")
            try:
                if self._file is not None:
                    self._file.append(_as_lines(numbered))
            except OSError as error:
                raise VerdictLogError(
                    f"not saved: cannot write to {self.path}: {error.strerror}; all earlier verdicts are kept"
                ) from error
            self.records += numbered
            for record in numbered:
                self.verdicts.add(record)
            return numbered

    def close(self) -> None:
        """Close the file and release it for other writers."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_log(path: str | Path) -> list[Record]:
    """Read a log, even while a page writes it; a truncated last line is ignored."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise VerdictLogError(f"cannot read {path}: {error.strerror or error}") from error
    return _parse(text, Path(path))


def key_of(record: Record) -> Key:
    """Return the key of the row that a verdict is about."""
    return Key(tuple(record["row"]), record["digest"])


def label_of(record: Record, anomaly: str = "anomaly") -> str:
    """Return the label that a verdict means: its class, "normal" or "unsure"; `anomaly` for one without a class."""
    return str(record["class"] or anomaly) if record["verdict"] == "anomaly" else str(record["verdict"])


def _as_lines(records: Iterable[Record]) -> bytes:
    return b"".join(json.dumps(record, allow_nan=False).encode() + b"\n" for record in records)


def _parse(text: bytes, path: Path) -> list[Record]:
    """Return the lines of a log without a truncated last one; raise an error if the text is no log."""
    *lines, rest = text.split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise VerdictLogError(
                f"{path}, line {number} is not valid JSON. An interrupted session cannot cause this; restore the file "
                "from a backup, or delete the line."
            ) from None
        problem = _problem(record, number)
        if problem:
            raise VerdictLogError(f"{path}, line {number} is not a line of a verdict log: {problem}")
        records.append(record)
    begins = f'{{"n": {len(lines) + 1}, "time": "'.encode()
    torn = rest.rstrip(b"\0")[: len(begins)]  # after a power failure, some file systems leave zeros
    if not begins.startswith(torn):
        raise VerdictLogError(f"{path}, line {len(lines) + 1} is not a line of a verdict log")
    return records


def _problem(record: Any, number: int) -> str:
    """Return what is wrong with a line, or an empty string."""
    kind = record.get("kind") if isinstance(record, dict) else None
    if kind not in _FIELDS:
        return f"unknown kind {kind!r:.40}"
    for name, types in {"n": int, "time": str, **_FIELDS[kind]}.items():
        value = record.get(name)
        if types is _TEXTS:
            fits = isinstance(value, list) and all(isinstance(text, str) for text in value)
        else:
            fits = isinstance(value, types) and not isinstance(value, bool)
        if not fits:
            return f"the field {name!r} is {value!r:.40}"
    if record["n"] != number:
        return f"it has the number {record['n']}; a line is missing, or twice there"
    for name, value in record.items():
        if not _is_unicode(value):
            return f"the field {name!r} is not valid Unicode"
    if kind == "undo" and not all(type(n) is int for n in record["of"]):
        return f"the field 'of' is {record['of']!r:.40}"
    if kind == "verdict" and record["verdict"] not in get_args(Decision):
        return f"unknown verdict {record['verdict']!r:.40}"
    return ""


def _is_unicode(value: Any) -> bool:
    """Return whether texts can be written to a file: half of a surrogate pair, as JSON allows it, cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
