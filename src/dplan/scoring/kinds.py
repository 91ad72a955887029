"""The kinds of scored rows, by the rules of a file: for tables of any size, streams and the service."""

from __future__ import annotations

import datetime
import hashlib
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.preparer import Cells
from dplan.rules.file import RuleFile
from dplan.rules.values import rule_values
from dplan.tables.model import TableModel

__all__ = ["KindsOfRows"]


class KindsOfRows:
    """Says which kind a row is of: the first one whose rule it meets, muted kinds first, then the most precise rule.

    Parameters
    ----------
    rules : RuleFile
        The kinds.
    model : TableModel
        Reads the values that rules compare.
    today : date, optional
        The day on which it is decided whether a kind is still muted; by default today.
    """

    def __init__(self, rules: RuleFile, model: TableModel, today: datetime.date | None = None) -> None:
        self.rules, self.model = rules, model
        columns = {column.name: column for column in model.preparation.columns_}
        self._columns = [columns[name] for name in rules.columns if name in columns]
        rule_values(self._columns, _empty(model), rules.columns, model.missing)
        day = today or datetime.date.today()
        muted = [kind.is_muted(day) for kind in rules.kinds]
        self._muted = np.array([*muted, False], dtype=np.bool_)  # the last one is for rows without a kind
        self._names = np.array([*(kind.name for kind in rules.kinds), ""], dtype=object)

    @classmethod
    def load(cls, path: str | Path | None, model: TableModel) -> KindsOfRows | None:
        """Read a file of rules; without one, no kinds are asked for."""
        return None if path is None else cls(RuleFile.load(path), model)

    @property
    def mutes(self) -> bool:
        """Whether any kind is muted."""
        return bool(self._muted.any())

    @cached_property
    def digest(self) -> str:
        """A digest of the rules, and of which are muted."""
        return hashlib.sha256((self.rules.to_text() + repr(self._muted.tolist())).encode()).hexdigest()

    def of_table(self, table: pl.DataFrame) -> NDArray[np.int64]:
        """Return the kinds of rows as the model takes them, counted from 0; -1 for none."""
        if not self.rules.columns:
            return np.full(table.height, -1, dtype=np.int64)
        values = rule_values(self._columns, table, self.rules.columns, self.model.missing)
        return self.rules.first_match(values, np.flatnonzero(self._muted).tolist())

    def of_cells(self, cells: Cells) -> NDArray[np.int64]:
        """Return the kinds of rows that came as cells."""
        preparation = self.model.preparation
        numbers = dict(zip(preparation.number_columns, cells.numbers.T, strict=True))
        texts = dict(zip(preparation.text_columns, cells.texts, strict=True))
        found = [
            pl.Series(name, numbers[name], nan_to_null=True)
            if name in numbers
            else pl.Series(name, texts[name], dtype=pl.String)
            for name in self.rules.columns
        ]
        return self.of_table(pl.DataFrame(found)) if found else np.full(len(cells.numbers), -1)

    def is_muted(self, kind: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows are of a muted kind."""
        found: NDArray[np.bool_] = self._muted[kind]
        return found

    def ranked(self, scores: NDArray[np.float64], kind: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return scores to choose alerts by: those of muted kinds are below all others."""
        return np.where(self._muted[kind], -np.inf, scores)

    def names(self, kind: NDArray[np.int64], n_alerts: int) -> list[str]:
        """Return the names of the kinds of rows, the alerts first; "" for other rows and for no kind."""
        found: list[str] = self._names[kind].tolist()
        return [name if place < n_alerts else "" for place, name in enumerate(found)]

    def columns(self, alert: pl.Expr, unmuted: pl.Expr) -> dict[str, pl.Expr]:
        """Return our columns of the output: the kind of each alert and, if any kind is muted, which rows are.

        Parameters
        ----------
        alert, unmuted : polars.Expr
            Which rows are alerts, and which would be if nothing were muted; the column ``kind`` has their kinds.
        """
        kind = pl.col("kind")
        muted = kind.is_in(np.flatnonzero(self._muted).tolist()) & unmuted
        names = kind.replace_strict(
            range(-1, len(self._names) - 1), np.roll(self._names, 1).tolist(), return_dtype=pl.String
        )
        found = {"kind": pl.when(alert | muted).then(names).otherwise(pl.lit(""))}
        return {**found, "muted": muted} if self.mutes else found


def _empty(model: TableModel) -> pl.DataFrame:
    """Return no rows of a table, to see whether the model has the columns of rules."""
    return pl.DataFrame(schema=dict.fromkeys(model.columns, pl.Null))
