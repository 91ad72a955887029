"""The log of verdicts: one JSON line per verdict, appended and synced to disk before it is acknowledged.

Nothing in a log is ever changed. A verdict is withdrawn by a later line that undoes it, and the latest verdict that is
not undone counts, so replaying the lines always gives the same labels. The kinds of lines are:

- ``session``: the page was opened; which table, model and id columns,
- ``verdict``: what a person decided about a row, and what they saw,
- ``undo``: verdicts that no longer count,
- ``refit``: the detector learned from the verdicts so far,
- ``threshold``: how many alerts the reviewer wants,
- ``rename``: a class has another name from now on, also in the verdicts so far,
- ``mute``, ``unmute``: rows of a kind are not asked about, or are again; the file of kinds says so too.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dplan.exceptions import VerdictLogError
from dplan.persistence.appending import AppendedFile
from dplan.persistence.schema import Fields, is_count, is_number, is_text, is_texts, list_of, problem
from dplan.tables.row_keys import Key

__all__ = [
    "Decision",
    "Record",
    "Refused",
    "Standing",
    "VerdictLog",
    "chosen_threshold",
    "label_of",
    "read_log",
]

Record = dict[str, Any]
Decision = Literal["anomaly", "normal", "unsure"]

_COUNT, _NUMBER, _TEXT = (
    (is_count, "a whole number from 0"),
    (is_number, "a finite number"),
    (is_text, "text"),
)
_TEXTS = (is_texts, "a list of texts")
_ROWS = (lambda value: is_count(value) and value > 0, "a number of rows")
_BY = {"who": _TEXT, "window": _TEXT}
_FIELDS: dict[str, Fields] = {
    "session": {"version": _COUNT, "table": _TEXT, "model": _TEXT, "ids": _TEXTS, "who": _TEXT,
                "columns": (lambda value: is_texts(value) and bool(value), "a list of columns")},
    "verdict": {
        "row": _TEXTS, "digest": _TEXT, "number": _COUNT, "model": _TEXT, "round": _COUNT, "score": _NUMBER,
        "rank": _COUNT, "reasons": _TEXTS,
        "verdict": (lambda value: value in get_args(Decision), "anomaly, normal or unsure"),
        "class": _TEXT, **_BY, "seconds": _NUMBER, "comment": _TEXT,
        "together": _ROWS,
    },
    "undo": {"of": (list_of(is_count), "a list of line numbers"), **_BY},
    "refit": {"round": _COUNT, "model": _TEXT, "seconds": _NUMBER, "upto": _COUNT},
    "threshold": {"round": _COUNT, "score": _NUMBER, "alerts": _COUNT, "rows": _ROWS, **_BY},
    "rename": {"from": _TEXT, "to": _TEXT, **_BY},
    "mute": {"rule": _TEXT, "name": _TEXT, "reason": _TEXT, "until": _TEXT, "conditions": _TEXT, **_BY},
    "unmute": {"rule": _TEXT, "name": _TEXT, **_BY},
}  # fmt: skip
_EVERY: Fields = {"n": _COUNT, "time": _TEXT, "kind": _TEXT}  # what each line has
_OPTIONAL = ("comment", "conditions")


_SAME_IN_GROUP = ("kind", "time", "window", "verdict", "class", "together")


class Refused(Exception):
    """A request that conflicts with what is known now; nothing was saved.

    Attributes
    ----------
    current : dict or None
        The verdict that counts for the row, if that is the conflict.
    """

    def __init__(self, message: str, current: Record | None = None) -> None:
        super().__init__(message)
        self.current = current


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
        elif record["kind"] == "rename":
            self._rename(record["from"], record["to"])
        elif record["kind"] == "undo":
            undone = [self._by_number.pop(n) for n in record["of"] if n in self._by_number]
            for one in undone:
                self._given[key_of(one)].remove(one)
            if undone:
                last = {key: given[-1] for key, given in self._given.items() if given}
                self.current = dict(sorted(last.items(), key=lambda found: found[1]["n"]))

    def _rename(self, before: str, after: str) -> None:
        for n, record in self._by_number.items():
            if record["class"] == before:
                self._by_number[n] = {**record, "class": after}
        for key, given in self._given.items():
            self._given[key] = [self._by_number[record["n"]] for record in given]
        self.current = {key: self._by_number[record["n"]] for key, record in self.current.items()}

    def given(self) -> Mapping[Key, Sequence[Record]]:
        """Return all verdicts about each row that are not undone, the oldest first."""
        return {key: given for key, given in self._given.items() if given}

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

    def check_ids(self, ids: Sequence[str]) -> None:
        """Raise VerdictLogError if other columns identified the rows before."""
        sessions = [record for record in self.records if record["kind"] == "session"]
        if sessions and sessions[-1]["ids"] != list(ids):
            used = " ".join(f"--id {name}" for name in sessions[-1]["ids"]) or "row numbers"
            raise VerdictLogError(
                f"{self.path} identifies rows by {used}; use the same ids, or another log (--log)"
            )

    def append(self, *records: Record) -> list[Record]:
        """Add lines, with number and time; when this returns, they are on disk.

        Raises ValueError, and saves nothing, if a line could not be read back.
        """
        with self._lock:
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            numbered = []
            for number, record in enumerate(records, start=len(self.records) + 1):
                numbered.append({"n": number, "time": time, **record})
                if wrong := _problem(numbered[-1], number):
                    raise ValueError(f"not saved: {wrong}")
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


def chosen_threshold(records: Sequence[Record], ascending: NDArray[np.float64]) -> float | None:
    """Return the threshold that gives as many alerts as the reviewer chose last; None if they did not.

    Parameters
    ----------
    records : sequence of dict
        The log.
    ascending : ndarray of float64
        The scores of all rows, sorted; if there are more or fewer than then, the share of alerts is the same.

    Examples
    --------
    >>> chosen_threshold([{"kind": "threshold", "alerts": 10, "rows": 100}], np.arange(10.0))
    9.0
    """
    chosen = next((record for record in reversed(records) if record["kind"] == "threshold"), None)
    if chosen is None:
        return None
    n = len(ascending)
    return float(ascending[n - min(max(round(chosen["alerts"] / chosen["rows"] * n), 1), n)])


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
                "from a backup, or begin a new log (--log)."
            ) from None
        if wrong := _problem(record, number):
            raise VerdictLogError(f"{path}, line {number} is not a line of a verdict log: {wrong}")
        records.append(record)
    begins = f'{{"n": {len(lines) + 1}, "time": "'.encode()
    torn = rest.rstrip(b"\0")[: len(begins)]  # after a power failure, some file systems leave zeros
    if not begins.startswith(torn):
        raise VerdictLogError(f"{path}, line {len(lines) + 1} is not a line of a verdict log")
    return _without_torn_group(records)


def _without_torn_group(records: list[Record]) -> list[Record]:
    """Leave out the last lines if they are only a part of a verdict about several rows, which was saved at once."""
    last = records[-1] if records and records[-1]["kind"] == "verdict" else {"together": 1}
    same = takewhile(
        lambda record: all(record.get(name) == last[name] for name in _SAME_IN_GROUP), reversed(records)
    )
    n_torn = sum(1 for _ in same) % last["together"] if last["together"] > 1 else 0
    return records[: len(records) - n_torn]


def _problem(record: Any, number: int) -> str:
    """Return what is wrong with a line, or an empty string."""
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        return f"unknown kind {kind!r:.40}"
    optional = ("who", *_OPTIONAL) if kind == "session" else _OPTIONAL
    if wrong := problem(record, {**_EVERY, **_FIELDS[kind]}, optional):
        return wrong
    if record["n"] != number:
        return f"it has the number {record['n']}; a line is missing, or twice there"
    return ""
