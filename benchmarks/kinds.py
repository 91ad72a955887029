"""How long kinds of 1,000 alerts take, against scoring and explaining the same rows."""

from functools import partial

import numpy as np
import polars as pl

from benchmarks.bars import Bar, interleaved, show
from dplan import DPLANEnsemble
from dplan.kinds.finding import find_kinds
from dplan.kinds.table import ScoredTable
from dplan.scoring.files import chunks_of
from dplan.scoring.scorer import AlertPolicy, Scorer
from dplan.tables import TableModel, fit_table, from_table

ROUNDS = 2
ROWS, COLUMNS, ALERTS, KNOWN = 20_000, 200, 1_000, 60


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    return show(f"Kinds, {ALERTS:,} alerts, {ROWS:,}×{COLUMNS}", [finding()])


def make_table() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    for kind in range(4):
        X[kind * 250 : (kind + 1) * 250, kind * 3 : kind * 3 + 3] += 4
    return pl.from_numpy(X)


def finding() -> Bar:
    """Find kinds of scored rows, which explains the alerts, groups them, and makes and measures rules."""
    table = make_table()
    label = pl.Series("label", (np.arange(ROWS) % 250 < KNOWN // 4) & (np.arange(ROWS) < ALERTS))
    own = from_table(table[::4].with_columns(label[::4].cast(pl.Int64)), label="label")
    model = fit_table(own, DPLANEnsemble(n_jobs=-1, random_state=0), estimate=False)
    scorer = Scorer(model, alerts=AlertPolicy(budget=ALERTS))
    scored = ScoredTable.of(scorer, lambda: chunks_of(table, model))
    alerts = table.filter(pl.Series(scored.alert))
    explaining, everything = interleaved(
        [partial(_explained, model, alerts), partial(find_kinds, scored)], ROUNDS
    )
    # Explaining takes nearly all of the time, so the difference of the two is mostly noise.
    about = f"{everything:.2f} s and {explaining:.2f} s"
    return Bar("kinds / scoring and explaining the alerts", everything / explaining, about, at_most=1.3)


def _explained(model: TableModel, alerts: pl.DataFrame) -> None:
    model.explain(alerts)
    known = model.known_anomalies
    model.explain(None, known, model.scores_of(known))  # which names are made from
