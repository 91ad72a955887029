"""What identifies a row when it comes back: its ids, however they are written, and digests of its values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import polars as pl

from dplan.arrays import Float32s

__all__ = ["Key", "as_written", "digest_of", "feature_keys", "find", "keys_of", "row_ids", "row_keys"]


class Key(NamedTuple):
    """What identifies a row in a verdict log: the text of its ids, and a digest of its cells."""

    ids: tuple[str, ...]
    digest: str


def row_ids(table: pl.DataFrame, ids: Sequence[str], numbers: Iterable[int]) -> list[tuple[str, ...]]:
    """Return the text of each row's ids or, without id columns, its number, counted from 1.

    Examples
    --------
    >>> row_ids(pl.DataFrame({"a": [7, None]}), ["a"], [0, 1])
    [('7',), ('',)]
    >>> row_ids(pl.DataFrame({"a": [7, 8]}), [], [10, 11])
    [('11',), ('12',)]
    """
    if not ids:
        return [(str(number + 1),) for number in numbers]
    return table.select(pl.col(list(ids)).cast(pl.String).fill_null("")).rows()


def find(
    table: pl.DataFrame, ids: Sequence[str], first: int, wanted: Collection[tuple[str, ...]]
) -> list[int]:
    """Return the positions of the rows whose ids are wanted, however they are written.

    Parameters
    ----------
    table : polars.DataFrame
        The rows.
    ids : sequence of str
        The id columns; none if rows are identified by their number.
    first : int
        The number of the first row, counted from 0.
    wanted : collection of tuple of str
        The ids, as from `row_ids`.

    Examples
    --------
    >>> find(pl.DataFrame({"a": ["007", "8"]}), ["a"], 0, {("7",)})
    [0]
    """
    fitting = [row for row in wanted if len(row) == max(1, len(ids))]
    if not fitting:
        return []
    if not ids:
        numbers = (int(row[0]) - 1 - first for row in fitting if row[0].isdecimal())
        return sorted(number for number in numbers if 0 <= number < table.height)
    looked_for = set(as_written(fitting))
    near = _as_written(table[ids[0]]).is_in(list({row[0] for row in looked_for})).arg_true().to_list()
    found = as_written(row_ids(table[near], ids, near))
    return [place for place, row in zip(near, found, strict=True) if row in looked_for]


def keys_of(
    table: pl.DataFrame,
    ids: Sequence[str],
    columns: Sequence[str],
    numbers: Sequence[int],
    known: Collection[Key] = (),
) -> list[Key]:
    """Return the keys of some rows: their ids, and a digest of these columns.

    A row gets the key of an earlier version of it if its ids alone are written in another way now.

    Examples
    --------
    >>> before, now = pl.DataFrame({"a": ["007"], "b": [1]}), pl.DataFrame({"a": ["7"], "b": [1]})
    >>> keys = keys_of(before, ["a"], ["a", "b"], [0])
    >>> keys_of(now, ["a"], ["a", "b"], [0], keys) == keys
    True
    """
    names = sorted(columns)
    rows, values = row_ids(table, ids, numbers), table.select(names).rows()
    keys = [Key(row, _digest(names, cells)) for row, cells in zip(rows, values, strict=True)]
    found, earlier = set(keys), set(known)
    others = [key for key in known if key not in found and len(key.ids) == len(ids)]
    if not others:
        return keys
    written: dict[tuple[str, ...], list[Key]] = {}
    for row, other in zip(as_written([other.ids for other in others]), others, strict=True):
        written.setdefault(row, []).append(other)
    for place, row in enumerate(as_written(rows)):
        for other in () if keys[place] in earlier else written.get(row, ()):
            spelled = dict(zip(ids, other.ids, strict=True))
            cells = [spelled.get(name, cell) for name, cell in zip(names, values[place], strict=True)]
            if _digest(names, cells) == other.digest:
                keys[place] = other
    return keys


def row_keys(ids: pl.DataFrame, prepared: Float32s) -> list[str]:
    """Return what identifies rows in a model: a digest of their ids or, if they have none, of their prepared features.

    Texts are compared without surrounding blanks, and whole numbers without leading zeros and decimals, because
    spreadsheets change them.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.zeros((2, 3), dtype=np.float32)
    >>> row_keys(pl.DataFrame({"id": ["007", "b"]}), rows) == row_keys(pl.DataFrame({"id": ["7.0", " b"]}), rows)
    True
    """
    if ids.width == 0:
        return feature_keys(prepared)
    cells = zip(*(_as_written(column).to_list() for column in ids.iter_columns()), strict=True)
    return [
        digest_of("\x1f".join(own).encode() if any(own) else row.tobytes())
        for own, row in zip(cells, prepared, strict=True)
    ]


def feature_keys(prepared: Float32s) -> list[str]:
    """Return a digest of each row's prepared features, the same for equal rows."""
    return [digest_of(row.tobytes()) for row in prepared]


def digest_of(content: bytes, size: int = 8) -> str:
    """Return a digest of some bytes in hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=size).hexdigest()


def _digest(names: Sequence[str], cells: Sequence[Any]) -> str:
    return digest_of(json.dumps([list(names), list(cells)], default=str).encode(), 12)


def _as_written(ids: pl.Series) -> pl.Series:
    cells = ids.cast(pl.String).fill_null("").str.strip_chars()
    return cells.str.replace(r"^0*(\d+)(?:[.,]0+)?$", "$1")


def as_written(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return ids without what spreadsheets change: surrounding blanks, leading zeros and decimals of whole numbers."""
    columns = (_as_written(pl.Series(cells, dtype=pl.String)).to_list() for cells in zip(*rows, strict=True))
    return list(zip(*columns, strict=True))
