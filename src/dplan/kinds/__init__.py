"""Kinds of alerts: groups that a detector reacts to for the same reasons, with rules for people and databases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dplan.kinds.finding import Kinds
    from dplan.tables.bad_cells import OnError

__all__ = ["kinds"]


def kinds(
    model: Any,
    table: Any,
    output: str | Path | None = None,
    *,
    n_kinds: int | None = None,
    budget: int | None = None,
    threshold: float | None = None,
    dialect: str = "postgresql",
    sql_table: str = "your_table",
    on_error: OnError = "fail",
    skip_labelled: bool = False,
    overwrite: bool = False,
) -> Kinds:
    """Score a table and group its alerts into kinds with rules, as ``dplan kinds`` does.

    Parameters
    ----------
    model : TableModel, TableDetector or path
        The model.
    table : path, Input or frame
        The table.
    output : path, optional
        The file to write: .html, .json (rules as data) or .sql.
    n_kinds : int, optional
        The number of kinds; by default between 3 and 8.
    budget, threshold : int or float, optional
        The number of alerts, or the lowest score of an alert; by default the model's threshold. Other
        alerts have other kinds.
    dialect, sql_table : str
        The database (postgresql, sqlite or duckdb) and the name of the table in queries, for .sql.
    on_error : {"fail", "skip", "null"}
        What to do about a cell that cannot be used: stop, leave out its row, or treat it as missing.
    skip_labelled : bool, default=False
        Leave out rows that already have a verdict.
    overwrite : bool, default=False
        Replace the output if it exists.

    Returns
    -------
    Kinds
        The kinds; as text, one sentence for each, and as data in ``rules``.

    Raises
    ------
    ValueError
        If fewer than 30 rows are alerts.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> import dplan
    >>> rng = np.random.default_rng(0)
    >>> table = pl.DataFrame({"amount": rng.integers(1, 100, 2000), "country": rng.choice(["DE", "FR"], 2000)})
    >>> far = pl.DataFrame({"amount": rng.integers(800, 999, 60), "country": ["XX"] * 60})
    >>> rows = pl.concat([table, far]).with_columns(fraud=pl.int_range(pl.len()) >= 2040)
    >>> model = dplan.TableDetector(dplan.LogisticBaseline()).fit(rows.drop("fraud"), rows["fraud"].cast(int))
    >>> found = dplan.kinds(model, rows, budget=60)
    >>> found.rules.kinds[0].rule is not None
    True
    """
    from dplan.kinds.writing import check_enough, find, format_of, text_of
    from dplan.persistence.atomic import atomic_write
    from dplan.persistence.claim import claimed
    from dplan.scoring.files import as_model, name_of
    from dplan.scoring.scorer import AlertPolicy, Scorer

    if budget is not None and threshold is not None:
        raise ValueError("budget and threshold cannot be combined, because both define the alerts")
    form = None if output is None else format_of(Path(output))
    loaded = as_model(model)
    alerts = AlertPolicy(threshold, budget)
    scorer = Scorer(loaded, on_error=on_error, skip_labelled=skip_labelled, alerts=alerts)
    if form is None or output is None:
        return check_enough(find(scorer, table, n_kinds))
    inputs = [Path(one) for one in (model, table) if isinstance(one, str | Path)]
    with claimed(Path(output), inputs, overwrite=overwrite), atomic_write(Path(output)) as temporary:
        found = check_enough(find(scorer, table, n_kinds))
        names = {"model_name": name_of(model, "the model"), "table_name": name_of(table, "the table")}
        text = text_of(found, form, dialect=dialect, sql_table=sql_table, **names)
        temporary.write_text(text, encoding="utf-8")
    return found
