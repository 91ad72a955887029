import json

import polars as pl
import pytest

from dplan.tables.input import Input
from tests.scoring.files import Options, score_table
from tests.serving.process import Running
from tests.tables.payments import payments


@pytest.fixture(scope="package")
def serving(model_path, tmp_path_factory):
    with Running(tmp_path_factory.mktemp("serving"), model_path) as running:
        yield running


@pytest.fixture(scope="package")
def rows():
    """New payments as JSON values: dates are text, missing values null."""
    table = payments(400, seed=1).drop("verdict").with_columns(pl.col("day").cast(pl.String))
    return table.to_dicts()


@pytest.fixture(scope="package")
def expected(model_path, rows, tmp_path_factory):
    """What `dplan score --explain` says about these rows, in JSON lines."""
    folder = tmp_path_factory.mktemp("scored")
    source = folder / "rows.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)))
    score_table(
        model_path, Input(source), folder / "out.parquet", Options(explain=True), output_format="parquet"
    )
    return pl.read_parquet(folder / "out.parquet")
