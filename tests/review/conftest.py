"""A table with fraud to find, a quick model of it, and sessions on them."""

import shutil

import polars as pl
import pytest

from dplan import LogisticBaseline
from dplan.review.engine import Engine
from dplan.review.log import VerdictLog
from dplan.review.session import Session
from dplan.review.table import as_file
from dplan.tables import fit_table, from_table
from tests.browser import chromium
from tests.review.browsing import DESKTOP, ready
from tests.review.serving import served
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


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def odd_table(folder, tmp_path_factory):
    """The payments, one of which is there several times, and one has hostile text."""
    table = pl.read_csv(folder / "june.csv", schema_overrides={"payment": pl.String})
    row = table.filter(pl.col("truth") == "fraud").sort("amount", descending=True)[:1]
    copies = pl.concat([row] * 6).with_columns(
        payment=pl.Series([f"copy-{i}" for i in range(6)]), amount=row["amount"][0] + pl.int_range(6) * 0.01
    )
    bad = row.with_columns(
        payment=pl.lit("<img src=x onerror=\"document.title='owned'\">"), amount=pl.col("amount") * 1.5
    )
    path = tmp_path_factory.mktemp("page") / "june.csv"
    pl.concat([table, copies, bad]).write_csv(path)
    return path


@pytest.fixture
def review(folder, odd_table, tmp_path):
    own = tmp_path / "june.csv"
    shutil.copy(odd_table, own)
    maker = Engine(as_file(own, ("payment",), None, tmp_path), folder / "fraud.dplan")
    with served(folder, tmp_path, table=own, refit_every=0, maker=maker) as review:
        yield review


@pytest.fixture
def open_page(browser, review):
    """Open the page in a new window; its errors and requests are collected.

    ``routes`` are set before the page is loaded: the browser may miss the next request for one that is set later.
    """
    contexts = []

    def opened(routes=None, **options):
        context = browser.new_context(**{"viewport": DESKTOP, "reduced_motion": "reduce", **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(45_000)  # on a busy machine
        page.problems, page.asked = [], []
        page.on(
            "console", lambda message: page.problems.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        for pattern, handle in (routes or {}).items():
            page.route(pattern, handle)
        page.goto(review.url)
        ready(page)
        return page

    yield opened
    for context in contexts:
        context.close()
