"""A few rows, prepared all numbers at once, against the preparation of a table, column by column."""

import numpy as np
import polars as pl
import pytest

from dplan.columns.few_rows import FewRows
from dplan.columns.meaning import Meaning
from dplan.columns.preparer import TablePreparer
from dplan.exceptions import CellError


def table(n, seed):
    rng = np.random.default_rng(seed)
    days = pl.Series(rng.integers(19_000, 20_000, n)).cast(pl.Int32).cast(pl.Date)
    frame = pl.DataFrame(
        {
            "amount": rng.lognormal(3, 2, n),
            "country": rng.choice(["DE", "FR", "PL", "??"], n),
            "items": rng.integers(1, 9, n),
            "huge": rng.choice([-1.7e308, 1.7e308, 0.0], n),
            "day": days,
            "new": rng.random(n) < 0.5,
            "paid": days + pl.Series(rng.integers(0, 99, n)).cast(pl.Duration("ms")) * 86_400_000,
            "note": rng.random(n) < 0.3,
            "empty": pl.Series([None] * n, dtype=pl.Float64),
        }
    )
    gaps = [
        pl.when(pl.Series(rng.random(n) < 0.9)).then(pl.col(name)).alias(name) for name in frame.columns[:-2]
    ]
    return frame.with_columns(gaps)


@pytest.fixture(scope="module")
def preparation():
    return TablePreparer(meanings={"note": Meaning("filled")}).fit(table(500, 0))


def as_sent(frame):
    """The rows as a request has them: dates are text, and so is what only has to be there."""
    note = pl.when("note").then(pl.lit("called")).otherwise(None).alias("note")
    return frame.with_columns(pl.col("day", "paid").cast(pl.String), note)


def parts(prepare, sent):
    numbers = sent.select(pl.col(prepare.numbers).cast(pl.Float64).fill_null(np.nan)).to_numpy()
    return numbers, {name: sent[name].to_list() for name in prepare.texts}


@pytest.mark.parametrize("n", [1, 2, 50, 1000])
def test_it_is_the_preparation_of_a_table_to_the_last_bit(n, preparation):
    prepare, sent = FewRows(preparation), as_sent(table(n, 1))
    assert prepare.numbers == ["amount", "items", "huge", "new"]
    assert prepare.texts == ["country", "day", "paid", "note"]
    expected = preparation.transform(sent)
    assert (prepare(*parts(prepare, sent)) == expected).all()
    assert (preparation.transform(sent.with_columns(pl.col("items").cast(pl.Int16))) == expected).all()


def test_what_cannot_be_read_is_named(preparation):
    prepare, sent = FewRows(preparation), as_sent(table(3, 2))
    numbers, texts = parts(prepare, sent)
    with pytest.raises(CellError, match="soon") as caught:
        prepare(numbers, {**texts, "day": [None, "soon", None]})
    assert (caught.value.column, caught.value.row) == ("day", 1)
    numbers[2, 1] = -np.inf
    with pytest.raises(CellError, match="not finite") as caught:
        prepare(numbers, texts)
    assert (caught.value.column, caught.value.row) == ("items", 2)
