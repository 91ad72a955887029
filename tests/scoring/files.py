"""`score_table` with a model file and the options of the command."""

from dataclasses import dataclass

import dplan.scoring
from dplan.scoring import AlertPolicy, Scorer
from dplan.tables import TableModel
from dplan.tables.writing import Output


@dataclass(frozen=True)
class Options:
    keep: tuple[str, ...] = ()
    top: int | None = None
    budget: int | None = None
    threshold: float | None = None
    explain: bool = False
    on_error: str = "fail"
    skip_labelled: bool = False


def scorer_of(model, options=Options()):  # noqa: B008  # immutable
    return Scorer(
        TableModel.load(model),
        keep=options.keep,
        on_error=options.on_error,
        skip_labelled=options.skip_labelled,
        alerts=AlertPolicy(options.threshold, options.budget, options.top),
    )


def score_table(model, table, output, options, output_format, **settings):
    return dplan.scoring.score_table(
        scorer_of(model, options),
        table,
        Output(output, output_format),
        explain=options.explain,
        inputs=[model],
        **settings,
    )
