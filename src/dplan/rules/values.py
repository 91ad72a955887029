"""The values of a model's table in the form in which rules compare them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from dplan.columns import values_of
from dplan.columns.column import TEXTS, Column
from dplan.rules.rule import TYPES
from dplan.text import shown

__all__ = ["comparable", "rule_type", "rule_values"]


def rule_type(values: pl.Series) -> str | None:
    """Return the type that rules have for the values of a column; None if rules cannot compare them.

    Examples
    --------
    >>> [rule_type(pl.Series(values)) for values in ([1, None], [0.5], ["a"], [True], [b"x"])]
    ['integer', 'float', 'text', 'flag', None]
    """
    dtype = values.dtype
    if dtype.is_integer():
        return "integer"
    if dtype.is_numeric():
        return "float32" if dtype == pl.Float32 else "float"
    if dtype in TEXTS:
        return "text"
    if isinstance(dtype, pl.Datetime):  # with a time zone, a moment has no one form in databases
        return "timestamp" if dtype.time_zone is None else None
    return {pl.Boolean: "flag", pl.Date: "date"}.get(type(dtype))


def comparable(values: pl.Series, kind: str) -> pl.Series:
    """Return values of new rows as values of a rule's type: a chunk may have whole numbers or days alone.

    Examples
    --------
    >>> comparable(pl.Series([0.0, 1.0, None]), "flag").to_list(), comparable(pl.Series([2, 3]), "float").to_list()
    ([False, True, None], [2.0, 3.0])
    """
    dtype = values.dtype
    if dtype.is_float():
        values = values.fill_nan(None)
    if kind == "integer" and dtype.is_numeric():
        return values if dtype.is_integer() or dtype.is_float() else values.cast(pl.Float64)
    if kind == "flag" and dtype.is_numeric():
        return values.cast(pl.Boolean)
    if kind in ("float", "float32") and (dtype.is_numeric() or dtype == pl.Boolean):
        return values.cast(pl.Float64)
    own = rule_type(values)
    if own != kind and {own, kind} != {"date", "timestamp"} and dtype != pl.Null:
        raise ValueError(f"column {shown(values.name)} is of type {dtype}, and the rules use it as {kind}")
    return values.cast(TYPES[kind])


def rule_values(
    columns: Sequence[Column], table: pl.DataFrame, types: Mapping[str, str], missing: tuple[str, ...]
) -> pl.DataFrame:
    """Return the columns that rules use, read as in training.

    Parameters
    ----------
    columns : sequence of Column
        The columns of the model.
    table : polars.DataFrame
        Rows as the model takes them; text may be text.
    types : mapping
        The type of each column that the rules use.
    missing : tuple of str
        Text that means a missing value.
    """
    own = {column.name: column for column in columns}
    if unknown := [name for name in types if name not in own]:
        raise ValueError(
            f"the rules use column {shown(unknown[0])}, which the model does not; find kinds with this model"
        )
    found = [
        comparable(values_of(own[name], table[name], missing), kind).alias(name)
        for name, kind in types.items()
    ]
    return pl.DataFrame(found)
