"""What comes of a review: labels, counts, and one log out of several."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from dplan.exceptions import VerdictLogError
from dplan.persistence.atomic import atomic_write
from dplan.persistence.claim import claimed
from dplan.review.log import Record, Standing, VerdictLog, label_of
from dplan.review.table import TableFile
from dplan.tables.row_keys import Key, find, keys_of
from dplan.tables.writing import format_of_output, write_rows
from dplan.text import shown

__all__ = [
    "Exported",
    "LogCounts",
    "count_lines",
    "export_labels",
    "merge_logs",
]

VERDICT_COLUMN = "verdict"


@dataclass(frozen=True)
class LogCounts:
    """What a log adds up to.

    Attributes
    ----------
    labels : dict of str to int
        Rows per label: "normal", "unsure", and each class of anomaly.
    given, changed, undone : int
        Verdicts that were given, replaced by a later one for the same row, and undone.
    reviewers : dict of str to int
        Verdicts that count, by reviewer.
    sessions, refits : int
        How often the page was opened, and how often the detector learned.
    muted : dict of str to dict
        The line of each kind that was muted and not unmuted, by its name.
    """

    labels: dict[str, int]
    given: int
    changed: int
    undone: int
    reviewers: dict[str, int]
    sessions: int
    refits: int
    muted: dict[str, Record]


@dataclass(frozen=True)
class Exported:
    """How many rows were written, how many have a label, and how many verdicts are about other rows or values."""

    rows: int
    labelled: int
    unmatched: int


def count_lines(records: Sequence[Record]) -> LogCounts:
    """Replay a log and count."""
    kinds = Counter(record["kind"] for record in records)
    verdicts = Standing(records)
    standing = sum(1 for _ in verdicts.standing())
    current = verdicts.current.values()
    latest = {record["rule"]: record for record in records if record["kind"] in ("mute", "unmute")}
    return LogCounts(
        dict(Counter(map(label_of, current)).most_common()),
        kinds["verdict"],
        standing - len(verdicts.current),
        kinds["verdict"] - standing,
        dict(Counter(record["who"] for record in current).most_common()),
        kinds["session"],
        kinds["refit"],
        {record["name"]: record for record in latest.values() if record["kind"] == "mute"},
    )


def merge_logs(logs: Sequence[Sequence[Record]], output: Path) -> list[tuple[Record, Record]]:
    """Write one log with the lines of several, by time; return pairs of verdicts that contradict each other.

    A later verdict about the same row counts, as in a single log. The lines of each log stay in their order, even if a
    clock was set back.
    """
    ids = {tuple(r["ids"]) for records in logs for r in records if r["kind"] == "session"}
    if len(ids) > 1:
        raise VerdictLogError(
            "the logs identify rows in different ways: "
            + "; ".join(", ".join(names) or "row numbers" for names in ids)
        )
    lines = list(heapq.merge(*map(_timed, range(len(logs)), logs), key=lambda line: line[:2]))
    numbers = {(which, r["n"]): n for n, (_, which, r) in enumerate(lines, start=1)}
    found: dict[Key, tuple[int, Record]] = {}
    contradictions = []
    final = [Standing(records).current for records in logs]
    for which, current in enumerate(final):
        for key, record in current.items():
            if key in found and found[key][0] != which and label_of(found[key][1]) != label_of(record):
                contradictions.append((found[key][1], record))
            found[key] = (which, record)
    if output.exists() and output.stat().st_size:
        raise VerdictLogError(f"{output} already exists; choose another output")
    with TemporaryDirectory(dir=output.absolute().parent, prefix=".merge-") as folder:
        with VerdictLog(Path(folder) / "merged.jsonl") as log:
            log.append(
                *(_renumbered(record, which, n, numbers) for n, (_, which, record) in enumerate(lines, 1))
            )
        (Path(folder) / "merged.jsonl").replace(output)
    return contradictions


def _timed(which: int, records: Sequence[Record]) -> Iterator[tuple[str, int, Record]]:
    """Return the lines of a log, each with the latest time so far and which log it is."""
    times = accumulate((record["time"] for record in records), max)
    return ((time, which, record) for time, record in zip(times, records, strict=True))


def _renumbered(record: Record, which: int, n: int, numbers: dict[tuple[int, int], int]) -> Record:
    changed = {**record, "n": n}
    if record["kind"] == "undo":
        changed["of"] = [numbers[which, other] for other in record["of"] if (which, other) in numbers]
    if record["kind"] == "refit":
        changed["upto"] = numbers.get((which, record["upto"]), 0)
    return changed


def export_labels(
    records: Sequence[Record],
    table: TableFile,
    output: Path,
    *,
    only_reviewed: bool = False,
    inputs: Sequence[Path] = (),
    overwrite: bool = True,
) -> Exported:
    """Write a table with a column of verdicts, which ``dplan fit`` and ``dplan update`` read.

    The column is named ``verdict`` (``dplan_verdict`` if the table has such a column). It is empty for rows without a
    verdict and for rows that the reviewer was unsure about.

    Parameters
    ----------
    records : sequence of dict
        The log.
    table : TableFile
        The table that was reviewed.
    output : path
        A CSV, TSV, JSON lines or Parquet file.
    only_reviewed : bool
        Leave out rows without a verdict.
    inputs : sequence of path
        Other files that must not be replaced, such as that of the log.
    overwrite : bool
        Replace the output if it exists.
    """
    labels = {key: label_of(record) for key, record in Standing(records).current.items()}
    columns: list[str] = next((r["columns"] for r in reversed(records) if r["kind"] == "session"), [])
    kind = format_of_output(output)
    matched: set[Key] = set()
    counts = [0, 0]

    def parts() -> Iterator[pl.DataFrame]:
        for first, _, frame in table.chunks():
            found = _labelled(frame, first, table.ids, columns, labels, matched)
            part = frame.with_columns(pl.Series(_verdict_column(frame.columns), found, dtype=pl.String))
            if only_reviewed:
                part = part.filter(pl.Series([label is not None for label in found], dtype=pl.Boolean))
            counts[0] += part.height
            counts[1] += sum(label is not None for label in found)
            yield part

    with (
        claimed(output, [table.path, *inputs], overwrite=overwrite),
        TemporaryDirectory(dir=output.absolute().parent, prefix=".labels-") as name,
    ):
        scans = []
        for i, part in enumerate(parts()):
            part.write_parquet(Path(name) / f"{i}.parquet", compression="lz4")
            scans.append(pl.scan_parquet(Path(name) / f"{i}.parquet", glob=False))
        with atomic_write(output) as temporary:
            write_rows(pl.concat(scans, how="diagonal_relaxed"), temporary, kind)
    return Exported(counts[0], counts[1], len(labels.keys() - matched))


def _labelled(
    frame: pl.DataFrame,
    first: int,
    ids: Sequence[str],
    columns: Sequence[str],
    labels: dict[Key, str],
    matched: set[Key],
) -> list[str | None]:
    """Return the label of each row of a chunk."""
    found: list[str | None] = [None] * frame.height
    places = find(frame, ids, first, {key.ids for key in labels})
    if not places:
        return found
    absent = next((name for name in columns if name not in frame.columns), None)
    if absent is not None:
        raise VerdictLogError(
            f"the log is about a table with the column {shown(absent)}, which this one does not have"
        )
    rows, numbers = frame[places], [first + place for place in places]
    keys = keys_of(rows, ids, columns, numbers, labels)
    for place, key in zip(places, keys, strict=True):
        if key in labels:
            matched.add(key)
            found[place] = None if labels[key] == "unsure" else labels[key]
    return found


def _verdict_column(columns: Sequence[str]) -> str:
    name = VERDICT_COLUMN
    while name in columns:
        name = f"dplan_{name}"
    return name
