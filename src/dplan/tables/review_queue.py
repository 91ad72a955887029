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
from pathlib import Path

import numpy as np
import polars as pl

from dplan._kernels.perceptron import Floats
from dplan.exceptions import CellError
from dplan.tables.labels import Judged, LabelReader
from dplan.tables.model import TableModel
from dplan.tables.row_keys import digest_of
from dplan.tables.words import Words, listed, words_of
from dplan.text import shown

__all__ = ["ROW", "RowCode", "is_queue", "read_queue"]

ROW = "dplan_row"  # the column that carries the features

_PREFIX = "row1-"
_KEY_BYTES, _MODEL_BYTES = 8, 4
_SEPARATORS = (",", ";", "\t", "|")


class RowCode:
    """How the rows of a model are written in a queue: as texts that spreadsheets leave alone."""

    def __init__(self, model: TableModel) -> None:
        # A digest of how the model prepares rows, which updates do not change.
        state = json.dumps(model.preparation.to_state(), sort_keys=True, default=str)
        self._digest = bytes.fromhex(digest_of(state.encode(), _MODEL_BYTES))
        self._size = _KEY_BYTES + _MODEL_BYTES + 4 * int(model.detector.n_features_in_)

    def encode(self, key: str, row: Floats) -> str:
        """Return a row and its key as a text."""
        data = bytes.fromhex(key) + self._digest + np.ascontiguousarray(row, dtype="<f4").tobytes()
        return _PREFIX + base64.urlsafe_b64encode(zlib.compress(data, 9)).decode().rstrip("=")

    def decode(self, text: str) -> tuple[str, Floats]:
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
    """Return whether a file is a review queue, by its header."""
    if path.suffix.lower() == ".xlsx":
        return ROW in pl.read_excel(path, infer_schema_length=0).columns
    if path.suffix.lower() not in (".csv", ".tsv", ".txt"):
        return False
    with path.open("rb") as file:
        start = file.read(1 << 16)
    texts = (start.decode(encoding, "ignore") for encoding in ("utf-8", "utf-16-le", "utf-16-be"))
    return any(re.search(rf"\b{ROW}\b", text) for text in texts)


def read_queue(
    model: TableModel,
    path: Path,
    *,
    label: str | None = None,
    words: Words | None = None,
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

    Returns
    -------
    Judged
        The rows that have been looked at; rows without a verdict are left out.
    """
    header, rows = _cells(path)
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
    try:
        reader.check()
    except CellError as error:
        raise error.at(f"{path.name}, row {error.row + 2}") from None
    id_places = [names.index(name) for name in model.summary.ids if name in names]
    code = RowCode(model)
    found: list[tuple[str, Floats, int, str]] = []
    for number, (row, label_code) in enumerate(zip(cells, labels.tolist(), strict=True), start=2):
        if label_code == 0:
            continue
        try:
            key, decoded = code.decode(row[features])
        except ValueError as error:
            raise ValueError(f"{path.name}, row {number}: {error}") from None
        name = ", ".join(filter(None, (row[place].strip() for place in id_places)))
        found.append((key, decoded, label_code, name or f"{path.name}, row {number}"))
    if not found:
        raise ValueError(f"{path.name} contains no verdict: column {verdict!r} is empty")
    keys, prepared, codes, row_names = zip(*found, strict=True)
    y = np.array(codes, dtype=np.int64)
    return Judged(np.stack(prepared), y, tuple(reader.classes), list(keys), names=row_names)


def _cells(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a queue as texts."""
    if path.suffix.lower() == ".xlsx":
        frame = pl.read_excel(path, infer_schema_length=0)
        return frame.columns, [["" if cell is None else str(cell) for cell in row] for row in frame.rows()]
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
    return rows[0], rows[1:]
