"""A mixed-type table as people have them, and a model of it."""

import datetime

import numpy as np
import polars as pl

from dplan import DPLAN
from dplan.tables import fit_table, from_table

QUICK = {"n_steps": 4000, "warmup_steps": 1000, "n_trees": 20, "random_state": 0}


def payments(n_rows=3000, seed=0):
    """Payments: every fiftieth is large and foreign; half of these are known to be fraud."""
    rng = np.random.default_rng(seed)
    fraud = np.arange(n_rows) % 50 == 0
    amount = rng.lognormal(3, 1, n_rows) * np.where(fraud, 30, 1)
    first = datetime.date(2024, 1, 1)
    return pl.DataFrame(
        {
            "payment": [f"p{i:05}" for i in range(n_rows)],
            "amount": pl.Series(
                np.where(rng.random(n_rows) < 0.02, np.nan, amount).round(2), nan_to_null=True
            ),
            "items": rng.integers(1, 6, n_rows),
            "day": [first + datetime.timedelta(days=int(d)) for d in rng.integers(0, 300, n_rows)],
            "new_customer": rng.random(n_rows) < 0.3,
            "country": np.where(fraud, "XX", rng.choice(["DE", "FR", "PL"], n_rows)),
            "verdict": np.where(fraud & (np.arange(n_rows) % 100 == 0), "fraud", ""),
        }
    )


def payments_model(**parameters):
    own = from_table(payments(), label="verdict", anomaly=["fraud"], id="payment")
    return fit_table(own, DPLAN(**{**QUICK, **parameters}))
