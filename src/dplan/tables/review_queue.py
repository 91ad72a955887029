"""Read a review queue back: a file of rows to look at, in which a person has filled in the verdict column.

A spreadsheet may change separators, encoding, dates and the precision of numbers. Therefore every row carries its
features, as the model sees them, and its key in one text that no spreadsheet changes; only that and the verdict are
read back.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from dplan.arrays import Float32s
from dplan.exceptions import CellError
from dplan.tables.labels import Judged, LabelReader
from dplan.tables.model import TableModel
from dplan.tables.row_keys import digest_of
from dplan.tables.words import Words, listed, words_of
from dplan.tables.workbooks import first_cells, is_workbook, sheet_names
from dplan.text import shown

__all__ = ["ROW", "RowCode", "is_queue", "read_queue", "was_queue"]

ROW = "dplan_row"  # the column that carries the features

_PREFIX = "row1-"
_KEY_BYTES, _MODEL_BYTES = 8, 4
_SEPARATORS = (",", ";", "\t", "|")
_TITLE_ROWS = 20  # of a sheet, among which the header is looked for


class RowCode:
    """How the rows of a model are written in a queue: as texts that spreadsheets leave alone."""

    def __init__(self, model: TableModel) -> None:
        # A digest of how the model prepares rows, which updates do not change.
        state = json.dumps(model.preparation.to_state(), sort_keys=True, default=str)
        self._digest = bytes.fromhex(digest_of(state.encode(), _MODEL_BYTES))
        self._size = _KEY_BYTES + _MODEL_BYTES + 4 * int(model.detector.n_features_in_)

    def encode(self, key: str, row: Float32s) -> str:
        """Return a row and its key as a text."""
        data = bytes.fromhex(key) + self._digest + np.ascontiguousarray(row, dtype="<f4").tobytes()
        return _PREFIX + base64.urlsafe_b64encode(zlib.compress(data, 9)).decode().rstrip("=")

    def decode(self, text: str) -> tuple[str, Float32s]:
        """Return the key and the features of a row; raise ValueError if the text was changed or is of another model."""
        packed = text.strip()
        try:
            if not packed.startswith(_PREFIX):
                raise ValueError
            packed = packed.removeprefix(_PREFIX)
            unpacking = zlib.decompressobj()
            data = unpacking.decompress(
                base64.b64decode(packed + "=" * (-len(packed) % 4), b"-_", validate=True), self._size + 1
            )
            if not unpacking.eof and len(data) <= self._size:
                raise ValueError
        except (ValueError, binascii.Error, zlib.error):
            raise ValueError(f"the cell in column {ROW!r} was changed: {shown(text)}") from None
        key, digest, features = np.split(
            np.frombuffer(data, np.uint8), [_KEY_BYTES, _KEY_BYTES + _MODEL_BYTES]
        )
        if len(data) != self._size or digest.tobytes() != self._digest:
            raise ValueError("the rows were scored by another model; score the table again with this one")
        row = features.view("<f4").astype(np.float32)
        if not np.isfinite(row).all():
            raise ValueError(f"the cell in column {ROW!r} contains a value that is not finite")
        return key.tobytes().hex(), row


def is_queue(path: Path) -> bool:
    """Return whether a file is a review queue, by its header; in a workbook, it may be on any sheet."""
    if is_workbook(path):
        return bool(_sheets(path))
    if path.suffix.lower() not in (".csv", ".tsv", ".txt"):
        return False
    with path.open("rb") as file:
        start = file.read(1 << 16)
    texts = (start.decode(encoding, "ignore") for encoding in ("utf-8", "utf-16-le", "utf-16-be"))
    return any(re.search(rf"\b{ROW}\b", text) for text in texts)


def was_queue(columns: Sequence[str]) -> bool:
    """Return whether a table was a review queue and has lost the column that carries the features.

    Its labels are answers of a person who was asked.

    Examples
    --------
    >>> was_queue(["verdict", "score", "percentile", "reason_1", "amount"]), was_queue(["verdict", "amount"])
    (True, False)
    """
    own = {name.strip().removeprefix("dplan_") for name in columns}
    return {"score", "percentile"} <= own and not own.isdisjoint(("reasons", "reason_1"))


def read_queue(
    model: TableModel,
    path: str | Path,
    *,
    label: str | None = None,
    words: Words | None = None,
    sheet: str | None = None,
    on_error: Literal["fail", "skip"] = "fail",
) -> Judged:
    """Read a review queue with verdicts, whatever a spreadsheet did to it.

    Parameters
    ----------
    model : TableModel
        The model that the rows were scored with, or an update of it.
    path : path
        The file: CSV with any separator and encoding, or an Excel workbook (requires ``fastexcel``).
    label : str, optional
        The verdict column; by default the label column of the model.
    words : Words, optional
        What further words mean. Class names of the model, "anomaly", "yes", "normal", "ok", "no", "false alarm" and
        similar words are always understood; empty cells and "unsure" are no verdict.
    sheet : str, optional
        The sheet of a workbook; by default the one that has the queue.
    on_error : {"fail", "skip"}, default="fail"
        What to do about a verdict that nobody knows, and about a row whose ``dplan_row`` was changed: raise an error,
        or leave the row out.

    Returns
    -------
    Judged
        The rows that have been looked at; rows without a verdict are left out, and `bad` has those that were skipped.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> from dplan import LogisticBaseline
    >>> from dplan.scoring import queue_file
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline(), estimate=False)
    >>> queue = queue_file(model, pl.DataFrame({"amount": [10, 920, 11]}), rows=2).rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     answered = queue.with_columns(fraud=pl.Series(["yes", "no"])).drop("reasons")
    ...     answered.write_csv(f"{folder}/queue.csv")
    ...     read_queue(model, f"{folder}/queue.csv").y.tolist()
    [1, -1]
    """
    path = Path(path)
    header, rows, first = _cells(path, sheet)
    names = [name.strip() for name in header]
    verdict = label or model.summary.label or "verdict"
    for name in (verdict, ROW):
        if name not in names:
            raise ValueError(f"{path.name} has no column {name!r}; its columns are {listed(names)}")
    place, features = names.index(verdict), names.index(ROW)
    known = words_of(model, words, answers=True)
    cells = [[*row, *[""] * (len(names) - len(row))] for row in rows]
    reader = LabelReader(verdict, known, "--anomaly or --normal, or leave the cell empty")
    labels = reader.read(pl.Series([row[place] for row in cells], dtype=pl.String))
    classes = list(reader.classes)
    bad: list[tuple[int, str, str]] = []  # place, column and problem
    try:
        reader.check()
    except CellError as error:
        if on_error == "fail":
            raise error.at(f"{path.name}, row {error.row + first}") from None
        unknown = np.isin(labels, list(reader.new.values()))
        bad = [
            (int(row), verdict, f"unknown label {shown(cells[row][place])}")
            for row in np.flatnonzero(unknown)
        ]
        labels, classes = np.where(unknown, 0, labels), classes[: min(reader.new.values())]
    id_places = [names.index(name) for name in model.summary.ids if name in names]
    code = RowCode(model)
    found: list[tuple[str, Float32s, int, str]] = []
    for number, (row, label_code) in enumerate(zip(cells, labels.tolist(), strict=True), start=first):
        if label_code == 0:
            continue
        try:
            key, decoded = code.decode(row[features])
        except ValueError as error:
            if on_error == "fail":
                raise ValueError(f"{path.name}, row {number}: {error}") from None
            bad.append((number - first, ROW, str(error)))
            continue
        name = ", ".join(filter(None, (row[place].strip() for place in id_places)))
        found.append((key, decoded, label_code, name or f"{path.name}, row {number}"))
    if not found:
        why = "all of its verdicts were skipped" if bad else f"column {verdict!r} is empty"
        raise ValueError(f"{path.name} contains no verdict: {why}")
    keys, prepared, codes, row_names = zip(*found, strict=True)
    y = np.array(codes, dtype=np.int64)
    left_out = _described(names, cells, sorted(bad)) if bad else None
    return Judged(np.stack(prepared), y, tuple(classes), list(keys), names=row_names, bad=left_out)


def _described(names: list[str], cells: list[list[str]], bad: list[tuple[int, str, str]]) -> pl.DataFrame:
    """Return rows that were left out, with the reasons, as `dplan.tables.bad_cells` does for other tables."""
    described = {
        "dplan_row_number": [place + 1 for place, _, _ in bad],
        "dplan_column": [column for _, column, _ in bad],
        "dplan_problem": [problem for _, _, problem in bad],
    }
    kept = {name: k for k, name in enumerate(names) if name and not name.startswith("dplan_")}
    return pl.DataFrame(
        described | {name: [cells[place][k] for place, _, _ in bad] for name, k in kept.items()}
    )


def _sheets(path: Path) -> dict[str, int]:
    """Return the sheets of a workbook that have a queue, and the place of its header."""
    found = {}
    for sheet in sheet_names(path):
        for place, row in enumerate(first_cells(path, sheet, _TITLE_ROWS)):
            if ROW in map(str.strip, row):
                found[sheet] = place
                break
    return found


def _cells(path: Path, sheet: str | None) -> tuple[list[str], list[list[str]], int]:
    """Return the header and the rows of a queue as texts, and the number of its first row in the file."""
    if is_workbook(path):
        places = _sheets(path)
        if sheet is None and len(places) > 1:
            raise ValueError(
                f"{path.name} has review rows on several sheets: {listed(places.keys())} (--sheet)"
            )
        sheet = next(iter(places), None) if sheet is None else sheet
        place = places.get(sheet or "", 0)
        header, *cells = first_cells(path, sheet, None)[place:] or [[]]
        return header, [row for row in cells if any(map(str.strip, row))], place + 2
    data = path.read_bytes()
    unicode = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = data.decode("latin-1")  # if nothing else fits; every file can be read as this
    for encoding in (unicode, "cp1252"):
        try:
            text = data.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    if text.lower().startswith("sep="):  # Excel's hint
        text = text.partition("\n")[2]
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    rows = [
        row
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        if any(map(str.strip, row))
    ]
    if not rows:
        raise ValueError(f"{path.name} is empty")
    return rows[0], rows[1:], 2
