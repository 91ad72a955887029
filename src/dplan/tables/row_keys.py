"""Keys by which a row is recognised when it comes back with a verdict."""

from __future__ import annotations

import hashlib

import polars as pl

from dplan._kernels.perceptron import Floats

__all__ = ["row_keys"]


def row_keys(ids: pl.DataFrame, prepared: Floats) -> list[str]:
    """Return a key per row: a digest of its ids or, if it has none, of its prepared features.

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
        return [_digest(row.tobytes()) for row in prepared]
    cells = zip(*(_as_written(column) for column in ids.iter_columns()), strict=True)
    return [
        _digest("\x1f".join(own).encode() if any(own) else row.tobytes())
        for own, row in zip(cells, prepared, strict=True)
    ]


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _as_written(ids: pl.Series) -> list[str]:
    cells = ids.cast(pl.String).fill_null("").str.strip_chars()
    return cells.str.replace(r"^0*(\d+)(?:[.,]0+)?$", "$1").to_list()
