"""The rows of a request, for one model: read from records, columns or CSV, and put together with other requests' rows.

Rows whose values have the types that the model expects can be scored in one table with those of other requests. All
others are read exactly as ``dplan score`` reads JSON lines or CSV, and scored alone, so that no request can change how
the values of another are understood.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import orjson
import polars as pl
from numpy.typing import NDArray

from dplan.columns.preparer import Cells
from dplan.exceptions import CellError
from dplan.rules.file import RuleFile
from dplan.scoring.kinds import KindsOfRows
from dplan.scoring.scorer import Scorer
from dplan.tables.chunks import Chunk
from dplan.tables.input import Input
from dplan.tables.layout import PLAIN
from dplan.tables.model import TableModel
from dplan.text import shown

__all__ = ["JsonTable", "RequestReader", "RequestRows", "TooManyRowsError"]

# Objects and arrays that a request may have for each row it may have: the row itself, and others in columns that the
# model does not read. Each takes 30 times its bytes in memory.
_NESTED = 20

# The rows of a request as JSON values: records, or columns by name.
JsonTable = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True)
class RequestRows:
    """The rows of one request.

    Attributes
    ----------
    height : int
        Number of rows.
    numbers : ndarray of float64
        Values of the number and flag columns, NaN if missing.
    texts : list of list
        Values of each text and date column.
    alone : Chunk or None
        The rows, if they cannot be put together with others; `numbers` and `texts` are then empty.
    """

    height: int
    numbers: NDArray[np.float64]
    texts: list[list[str | None]]
    alone: Chunk | None = None


class RequestReader:
    """Reads the rows of requests for one model.

    Parameters
    ----------
    model : TableModel
        The model.
    max_rows : int
        Rows that a request may have.
    novelty : bool
        Whether answers tell how novel rows are.

    Attributes
    ----------
    scorer : Scorer
        Scores what was read.
    decoder : msgspec.json.Decoder or None
        Parses records straight to the types that the model expects, in half of the time; it refuses all other JSON.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> reader = RequestReader(fit_table(from_table(table, label="fraud"), LogisticBaseline()), max_rows=10)
    >>> one, two = reader.read([{"amount": 10}]), reader.read({"amount": [920, None]})
    >>> reader.together([one, two]).numbers.tolist()
    [[10.0], [920.0], [nan]]
    >>> reader.read(reader.decoder.decode(b'[{"amount": 10}]')).numbers.tolist()
    [[10.0]]
    """

    def __init__(
        self, model: TableModel, max_rows: int, novelty: bool = False, kinds: RuleFile | None = None
    ) -> None:
        rules = None if kinds is None else KindsOfRows(kinds, model)
        self.model, self.scorer = model, Scorer(model, novelty=novelty, kinds=rules)
        self.max_rows = max_rows
        self._numbers, self._texts = model.preparation.number_columns, model.preparation.text_columns
        dropped = [column.name for column in model.preparation.columns_ if not column.is_used]
        self._cells_of = _getter([*self._numbers, *self._texts, *dropped])
        self.decoder = _decoder(self._numbers, self._texts, dropped, model.not_read)

    def check_size(self, body: bytes) -> None:
        """Raise TooManyRowsError for JSON that cannot have as few rows as allowed, before it is parsed."""
        most = _NESTED * self.max_rows
        if body.count(b"{") + body.count(b"[") > most and _containers(body) > most:
            raise TooManyRowsError(
                f"the request has more than {most:,} objects and arrays, too many for {self.max_rows:,} rows; "
                "split it, or raise --max-rows"
            )

    def read(self, table: JsonTable, *, exactly: bool = False) -> RequestRows:
        """Read rows given as JSON values.

        Parameters
        ----------
        table : list of dict, or dict of list
            Records or columns.
        exactly : bool
            Keep the values as they are written, for reasons that show them.

        Returns
        -------
        RequestRows
            The rows.
        """
        if isinstance(table, Mapping):
            height = _height(table)
            self._check_height(height)
            found = None if exactly else self._plain_columns(table, height)
            if found is not None:
                return found
            table = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
        self._check_height(len(table))
        found = None if exactly else self._plain_records(table)
        return self._as_json_lines(table) if found is None else found

    def read_csv(self, body: bytes) -> RequestRows:
        """Read the rows of a CSV with a header, as ``dplan score`` does."""
        # In pieces, because a body of a few megabytes can have millions of rows.
        pieces = list(Input(io.BytesIO(body), layout=PLAIN).like(self.model).chunks(self.max_rows))
        if len(pieces) > 1:
            self._check_height(self.max_rows + 1)
        table = pieces[0]() if pieces else pl.DataFrame()
        self._check_height(table.height)
        self.model.check_columns(table.columns)
        return _alone(Chunk(lambda: table, pieces[0].place), table.height)

    def together(self, parts: Sequence[RequestRows]) -> Cells:
        """Put together the rows of several requests."""
        numbers = parts[0].numbers if len(parts) == 1 else np.concatenate([rows.numbers for rows in parts])
        texts = [list(chain.from_iterable(rows.texts[j] for rows in parts)) for j in range(len(self._texts))]
        return Cells(numbers, texts)

    def _check_height(self, height: int) -> None:
        if height == 0:
            raise ValueError("the request has no rows")
        if height > self.max_rows:
            raise TooManyRowsError(
                f"the request has more than {self.max_rows:,} rows; split it, or raise --max-rows"
            )

    def _plain_records(self, records: Sequence[Any]) -> RequestRows | None:
        """Read records that have all columns, with values of the expected types; None for others."""
        cells_of = msgspec.structs.astuple if isinstance(records[0], msgspec.Struct) else self._cells_of
        height, n, end = len(records), len(self._numbers), len(self._numbers) + len(self._texts)
        try:  # the cells of one record at a time: a list of all would be searched for garbage again and again
            numbers = _floats((cells_of(record)[:n] for record in records), (height, n))
            texts = zip(*(cells_of(record)[n:end] for record in records), strict=True) if end > n else ()
            return _plain(height, numbers, [list(values) for values in texts])
        except (KeyError, TypeError):
            return None

    def _plain_columns(self, columns: Mapping[str, Any], height: int) -> RequestRows | None:
        self.model.check_columns(list(columns))
        numbers = _floats((columns[name] for name in self._numbers), (len(self._numbers), height))
        return _plain(height, None if numbers is None else numbers.T, [columns[name] for name in self._texts])

    def _as_json_lines(self, records: Sequence[Any]) -> RequestRows:
        for row, record in enumerate(records):
            if not isinstance(record, dict):
                raise ValueError(f"row {row + 1} is {_kind(record)}, expected an object with the columns")
        self.model.check_columns(list(dict.fromkeys(chain.from_iterable(records))))
        for row, record in enumerate(records):
            for name in self.model.columns:
                if isinstance(record.get(name), list | dict):
                    raise CellError(name, row, f"expected one value, got {_kind(record[name])}")
        lines = (orjson.dumps({name: record.get(name) for name in self.model.columns}) for record in records)
        (chunk,) = Input(io.BytesIO(b"\n".join(lines)), "jsonl").chunks(None)
        return _alone(Chunk(chunk.read), len(records))


class TooManyRowsError(ValueError):
    """A request has more rows than allowed."""


def _alone(chunk: Chunk, height: int) -> RequestRows:
    return RequestRows(height, np.empty((0, 0)), [], chunk)


def _decoder(
    numbers: list[str], texts: list[str], dropped: list[str], not_read: list[str]
) -> msgspec.json.Decoder[Any] | None:
    """Return a decoder of records, alone or by name. It skips nothing, so that every value is checked to be JSON."""
    kinds: dict[str, Any] = dict.fromkeys(numbers, float | bool | None) | dict.fromkeys(texts, str | None)
    kinds |= dict.fromkeys([*dropped, *not_read], Any)
    defaults: dict[str, Any] = dict.fromkeys(not_read)
    fields = [
        (f"field_{place}", kind, msgspec.field(name=name, default=defaults.get(name, msgspec.NODEFAULT)))
        for place, (name, kind) in enumerate(kinds.items())
    ]
    try:
        row = msgspec.defstruct("Row", fields, gc=False, forbid_unknown_fields=True)
    except ValueError:  # a name with a character that msgspec does not look for, such as a quote
        return None
    return msgspec.json.Decoder(list[row] | dict[str, list[row]])  # type: ignore[valid-type]


def _plain(
    height: int, numbers: NDArray[np.float64] | None, texts: list[list[str | None]]
) -> RequestRows | None:
    """Return rows whose numbers are numbers and whose texts are texts; None for others."""
    are_texts = {str, type(None)}.issuperset(map(type, chain.from_iterable(texts)))
    return None if numbers is None or not are_texts else RequestRows(height, numbers, texts)


def _floats(lists: Iterable[Sequence[Any]], shape: tuple[int, int]) -> NDArray[np.float64] | None:
    """Return lists of JSON's numbers and booleans as an array, NaN for null; None if there are other values.

    Examples
    --------
    >>> _floats([[1, 2.5], [True, None]], (2, 2)), _floats([["1"]], (1, 1))
    (array([[1. , 2.5],
           [1. , nan]]), None)
    """
    pack = struct.Struct(f"{shape[1]}d").pack  # twice as fast as NumPy, and refuses text

    def packed(values: Sequence[Any]) -> bytes:
        try:
            return pack(*values)
        except struct.error:
            return pack(*[math.nan if value is None else value for value in values])

    try:
        return np.frombuffer(b"".join(map(packed, lists))).reshape(shape)
    except struct.error:
        return None


def _containers(body: bytes) -> int:
    r"""Count the objects and arrays of JSON, without parsing it.

    Examples
    --------
    >>> _containers(b'[{"a": "[[["}, {"say \\"{\\"": []}]')
    4
    """
    text = np.frombuffer(body.replace(rb"\\", b"").replace(rb"\"", b""), dtype=np.uint8)
    in_string = np.logical_xor.accumulate(text == ord('"'))
    opening = (text == ord("{")) | (text == ord("["))
    return int(np.count_nonzero(opening & ~in_string))


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda record: tuple(record[name] for name in names)


def _height(columns: Mapping[str, Any]) -> int:
    heights: dict[int, str] = {}
    for name, values in columns.items():
        if not isinstance(values, list):
            raise ValueError(f"column {shown(name)} is {_kind(values)}, expected an array of values")
        heights.setdefault(len(values), name)
    if len(heights) > 1:
        (one, first), (two, second) = list(heights.items())[:2]
        raise ValueError(
            f"columns have different lengths: {one:,} values in {shown(first)}, {two:,} in {shown(second)}"
        )
    return next(iter(heights), 0)


def _kind(value: object) -> str:
    """Name a JSON value by its type.

    Examples
    --------
    >>> _kind({}), _kind(None), _kind(1.5)
    ('an object', 'null', 'a number')
    """
    if value is None:
        return "null"
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(value), "a number")
