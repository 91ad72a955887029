"""A table with fraud to find, a quick model of it, and sessions on them."""

import polars as pl
import pytest

from dplan import LogisticBaseline
from dplan.review.engine import Engine
from dplan.review.log import VerdictLog
from dplan.review.session import Session
from dplan.review.table import as_file
from dplan.tables import fit_table, from_table
from tests.tables.payments import payments


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A table of 3,000 payments, of which every fiftieth is fraud, and a model that knows half of these."""
    folder = tmp_path_factory.mktemp("review")
    table = payments()
    known = from_table(table, label="verdict", anomaly=["fraud"], id="payment")
    fit_table(known, LogisticBaseline(), estimate=False).save(folder / "fraud.dplan")
    new = payments(seed=1).with_columns(
        payment=pl.col("payment").str.replace("p", "j"),
        truth=pl.when(pl.int_range(pl.len()) % 50 == 0).then(pl.lit("fraud")).otherwise(pl.lit("normal")),
    )
    new.drop("verdict").write_csv(folder / "june.csv")
    return folder


@pytest.fixture
def open_session(folder, tmp_path):
    """Open a session on the payments, in this process; logs are closed at the end."""
    logs = []

    def opened(table=None, model="fraud.dplan", log="verdicts.jsonl", **options):
        log = VerdictLog(tmp_path / log)
        logs.append(log)
        path = None if model is None else folder / model
        engine = Engine(
            as_file(table or folder / "june.csv", ("payment",), None, tmp_path), path,
            drop=["truth"] if model is None else (),
        )  # fmt: skip
        session = Session(engine, log, **{"refit_every": 0, "who": "me", **options})
        session.open()
        return session

    yield opened
    for log in logs:
        log.close()


@pytest.fixture(scope="session")
def fraud(folder):
    """Whether each payment is fraud, by its number."""
    return [name == "fraud" for name in pl.read_csv(folder / "june.csv")["truth"]]
