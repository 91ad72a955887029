"""Payments with three kinds of fraud, of which one is known, and a model of them."""

import functools

import numpy as np
import polars as pl

from dplan import LogisticBaseline
from dplan.tables import fit_table, from_table


def alarms(n_rows=3000, seed=0):
    """Payments: of every hundred, three are fraud: abroad and large, at night without a phone, and many items."""
    rng = np.random.default_rng(seed)
    number = np.arange(n_rows) % 100
    abroad, night, many = number == 0, number == 1, number == 2
    phone = np.where(rng.random(n_rows) < 0.01, None, rng.choice(["a", "b", "c"], n_rows))
    return pl.DataFrame(
        {
            "payment": [f"p{i:05}" for i in range(n_rows)],
            "amount": np.where(abroad, 2000 + 500 * rng.random(n_rows), 10 + 90 * rng.random(n_rows)).round(
                2
            ),
            "items": np.where(many, rng.integers(60, 90, n_rows), rng.integers(1, 6, n_rows)),
            "hour": np.where(night, rng.integers(2, 5, n_rows), rng.integers(8, 20, n_rows)),
            "phone": np.where(night, None, phone),
            "country": np.where(abroad, "XX", rng.choice(["DE", "FR", "PL"], n_rows)),
            "day": pl.Series(rng.integers(19_700, 20_000, n_rows)).cast(pl.Date),
            "truth": np.select([abroad, night, many], ["abroad", "night", "many"], "normal"),
            "verdict": np.select([abroad & (rng.random(n_rows) < 0.5)], ["abroad"], ""),
        }
    )


@functools.cache
def alarms_model():
    """Return a model that scores all three kinds highly, because its labels have some of each."""
    table = alarms(seed=1)
    table = table.with_columns(
        verdict=pl.when(pl.col("truth") != "normal").then(pl.col("truth")).otherwise(pl.lit(""))
    )
    own = from_table(table.drop("truth"), label="verdict", anomaly=["abroad", "night", "many"], id="payment")
    return fit_table(own, LogisticBaseline(), estimate=False)
