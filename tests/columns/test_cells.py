"""Rows without a frame, as requests have them, against the same rows as a table."""

import numpy as np
import polars as pl
import pytest

from dplan.columns.flags import Filled
from dplan.columns.preparer import Cells, TablePreparer
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
    return TablePreparer(meanings={"note": Filled()}).fit(table(500, 0))


def as_sent(frame):
    """The rows as a request has them: dates are text, and so is what only has to be there."""
    note = pl.when("note").then(pl.lit("called")).otherwise(None).alias("note")
    return frame.with_columns(pl.col("day", "paid").cast(pl.String), note)


def cells(preparation, sent):
    names = preparation.number_columns
    numbers = sent.select(pl.col(names).cast(pl.Float64).fill_null(np.nan)).to_numpy()
    return Cells(numbers, [sent[name].to_list() for name in preparation.text_columns])


@pytest.mark.parametrize("n", [1, 2, 50, 1000])
def test_cells_give_the_features_of_a_table_to_the_last_bit(n, preparation):
    sent = as_sent(table(n, 1))
    assert preparation.number_columns == ["amount", "items", "huge", "new"]
    assert preparation.text_columns == ["country", "day", "paid", "note"]
    expected = preparation.transform(sent)
    assert (preparation.transform_cells(cells(preparation, sent)) == expected).all()
    assert (preparation.transform(sent.with_columns(pl.col("items").cast(pl.Int16))) == expected).all()


def test_what_cannot_be_read_is_named(preparation):
    found = cells(preparation, as_sent(table(3, 2)))
    texts = [found.texts[0], [None, "soon", None], *found.texts[2:]]
    with pytest.raises(CellError, match="soon") as caught:
        preparation.transform_cells(found._replace(texts=texts))
    assert (caught.value.column, caught.value.row) == ("day", 1)
    found.numbers[2, 1] = -np.inf
    with pytest.raises(CellError, match="not finite") as caught:
        preparation.transform_cells(found)
    assert (caught.value.column, caught.value.row) == ("items", 2)


def test_the_kernel_scales_as_the_written_steps_do(preparation):
    sent = as_sent(table(1000, 4))
    features, numbers = preparation.transform(sent), cells(preparation, sent).numbers
    names = preparation.get_feature_names_out().tolist()
    columns = {column.name: column for column in preparation.columns_}
    for name, values in zip(preparation.number_columns, numbers.T, strict=True):
        scaled = columns[name].scaling().apply(values)
        expected = np.where(np.isnan(values), columns[name].fill[0], scaled).astype(np.float32)
        assert (features[:, names.index(name)] == expected).all()
