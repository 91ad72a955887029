"""The report about a scored table: one HTML page for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dplan.tables.bad_cells import OnError

__all__ = ["report"]


class _Page(str):
    """A page that a notebook shows in place, instead of its source."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<page of {len(self):,} characters>"

    def _repr_html_(self) -> str:
        from html import escape

        style = "width: 100%; height: 640px; border: 0"
        return f'<iframe srcdoc="{escape(self)}" title="Report" sandbox="allow-scripts" style="{style}"></iframe>'


def report(
    model: Any,
    table: Any,
    output: str | Path | None = None,
    *,
    budget: int | None = None,
    threshold: float | None = None,
    top: int | None = None,
    label: str | None = None,
    anomaly: Sequence[str] = (),
    keep: Sequence[str] = (),
    on_error: OnError = "fail",
    skip_labelled: bool = False,
    kinds: str | Path | None = None,
    overwrite: bool = False,
) -> str:
    """Score a table and return a self-contained HTML page about the result, as ``dplan report`` writes it.

    Parameters
    ----------
    model : TableModel, TableDetector or path
        The model.
    table : path, Input or frame
        The table.
    output : path, optional
        The file to write.
    budget, threshold : int or float, optional
        The number of alerts, or the lowest score of an alert; by default the model's threshold.
    top : int, optional
        Rows shown with reasons; by default the budget, otherwise 20.
    label, anomaly : str and sequence of str, optional
        Column that marks anomalies, and its values that do: adds precision and recall.
    keep : sequence of str
        Columns to show, in addition to the ids.
    on_error : {"fail", "skip", "null"}
        What to do about a cell that cannot be used: stop, leave out its row, or treat it as missing.
    skip_labelled : bool, default=False
        Leave out rows that already have a verdict.
    kinds : path, optional
        A file of kinds from `dplan.kinds`: adds the kinds of the alerts.
    overwrite : bool, default=False
        Replace the output if it exists.

    Returns
    -------
    str
        The page, which a notebook shows in place.

    Examples
    --------
    >>> import polars as pl
    >>> import dplan
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> own = dplan.tables.from_table(table, label="fraud")
    >>> model = dplan.tables.fit_table(own, dplan.LogisticBaseline())
    >>> dplan.report(model, table, budget=2)[:15]
    '<!DOCTYPE html>'
    """
    from dplan.persistence.atomic import store
    from dplan.persistence.claim import claimed
    from dplan.report.data import report_data
    from dplan.report.page import page
    from dplan.scoring.files import as_model, chunks_of, name_of
    from dplan.scoring.kinds import KindsOfRows
    from dplan.scoring.scorer import AlertPolicy, Scorer

    loaded = as_model(model)
    scorer = Scorer(
        loaded,
        keep=keep,
        on_error=on_error,
        alerts=AlertPolicy(threshold, budget),
        kinds=KindsOfRows.load(kinds, loaded),
    )
    data = report_data(
        scorer,
        chunks_of(table, loaded),
        label=label,
        anomaly=anomaly,
        n_shown=top,
        skip_labelled=skip_labelled,
    )
    text = page(data, loaded, model_name=name_of(model, "the model"), table_name=name_of(table, "the table"))
    if output is not None:
        inputs = [Path(one) for one in (model, table, kinds) if isinstance(one, str | Path)]
        with claimed(Path(output), inputs, overwrite=overwrite):
            store(output, text)
    return _Page(text)
