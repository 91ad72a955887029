"""The same rows through every way of scoring: scores, percentiles, alerts and reasons have the same bytes.

A module that scores rows has to join `WAYS`.
"""

import ast
import io
import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dplan
from dplan import DPLAN, TableDetector
from dplan.kinds.table import ScoredTable
from dplan.report.data import report_data
from dplan.review.details import row_details
from dplan.review.engine import Engine
from dplan.review.log import VerdictLog
from dplan.review.session import Session
from dplan.review.table import as_file
from dplan.review.view import queue_view
from dplan.scoring import score_table
from dplan.scoring.queue import review_rows
from dplan.scoring.scorer import Batch, Scorer
from dplan.scoring.stream import follow
from dplan.serving.rows import RequestReader
from dplan.serving.scoring import explain, score
from dplan.spark import _scored as spark_scored
from dplan.tables import Input
from dplan.tables.reasons import joined
from dplan.tables.writing import DIGITS, Output
from tests.detectors.quick import QUICK
from tests.tables.payments import payments

N_ROWS = 120


class Case:
    """A model, rows it has not seen, and what it says about each of them alone."""

    def __init__(self, folder, detector=DPLAN(n_steps=300, warmup_steps=100, n_trees=10, random_state=0)):  # noqa: B008
        known = payments(1000).drop("payment")
        self.detector = TableDetector(detector)
        self.detector.fit(known.drop("verdict"), known["verdict"] == "fraud")
        self.model = self.detector.to_model()
        # The position of a row travels as a column that the model does not know.
        self.table = payments(N_ROWS, seed=1).drop("payment", "verdict").with_row_index("place")
        self.folder = folder
        self.model.save(folder / "m.dplan")
        self.table.write_csv(folder / "t.csv")
        self.table.write_parquet(folder / "t.parquet")

    def input(self, ending="csv"):
        return Input(self.folder / f"t.{ending}").like(self.model)

    @property
    def records(self):
        return [json.loads(line) for line in self.table.write_ndjson().splitlines()]

    @cached_property
    def expected(self):
        rows = []
        for place in range(N_ROWS):
            row = self.table[place : place + 1]
            (found,) = self.model.detector.anomaly_score(self.model.prepare(row))
            (percentile,) = self.model.percentile(np.array([found]))
            alert = bool(found >= self.model.threshold)
            rows.append((place, found, percentile, alert, *self.model.reasons(row)))
        return pl.DataFrame(rows, schema=SCHEMA, orient="row")


SCHEMA = {
    "row": pl.Int64, "score": pl.Float64, "percentile": pl.Float64, "alert": pl.Boolean, "reasons": pl.String,
}  # fmt: skip


class Way(NamedTuple):
    """A way of scoring.

    Attributes
    ----------
    modules : tuple of str
        The modules that take part.
    run : callable
        Returns what it says about rows: their places, and some of the columns of `SCHEMA`.
    written : polars.Expr
        The score as this way writes it.
    explains_all : bool
        Whether it gives reasons for every row, or for alerts alone.
    """

    modules: tuple[str, ...]
    run: Callable[[Case], pl.DataFrame]
    written: pl.Expr = pl.col("score")
    explains_all: bool = True


def table_of(**columns):
    return pl.DataFrame({"row": np.arange(N_ROWS), **columns})


def file_way(ending):
    def run(case):
        out = case.folder / f"scored.{ending}"
        scorer = Scorer(case.model, keep=["place"])
        score_table(scorer, case.input(ending), Output(out, ending), explain=True, chunk_rows=50)
        found = pl.read_csv(out) if ending == "csv" else pl.read_parquet(out)
        return found.select(
            row="place", score="score", percentile="percentile", alert="alert", reasons="reasons"
        )

    return run


def stream(case):
    out = io.BytesIO()
    source = Input(io.BytesIO((case.folder / "t.csv").read_bytes()), "csv").like(case.model)
    follow(Scorer(case.model, keep=["place"]), source, out, explain=True)
    found = pl.read_csv(out.getvalue())
    return found.select(row="place", score="score", percentile="percentile", alert="alert", reasons="reasons")


def notebook(case):
    found = case.model.alerts(case.folder / "t.csv", keep=["place"], top=N_ROWS).frame
    return found.select(row="place", score="score", percentile="percentile", alert="alert", reasons="reasons")


def kinds(case):
    found = ScoredTable.of(Scorer(case.model), lambda: case.input().chunks(50))
    assert found.take(np.arange(N_ROWS)).score.tobytes() == found.scores.tobytes()
    return pl.DataFrame({"row": found.rows, "score": found.scores, "alert": found.alert})


def queue(case):
    found = review_rows(Scorer(case.model), case.input().chunks(50), N_ROWS, diverse=False).rows
    texts = pl.col("reasons").list.join(" | ")
    return found.select(row="place", score="score", percentile="percentile", reasons=texts)


def report(case):
    data = report_data(Scorer(case.model), case.input().chunks(50), n_shown=N_ROWS)
    order = np.argsort(data.shown.rows)
    texts = list(map(joined, data.reasons))
    percentile = data.shown.percentile[order]
    return table_of(
        score=data.scores, percentile=percentile, alert=data.alert, reasons=[texts[i] for i in order]
    )


def details_of(current, row):
    return row_details(current, row, current.pool[[current.places[row]]], ())


def session(case):
    log = VerdictLog(case.folder / "verdicts.jsonl")
    try:
        engine = Engine(as_file(case.folder / "t.csv", (), None, case.folder), case.folder / "m.dplan")
        found = Session(engine, log, refit_every=0)
        found.open()
        page = {entry["row"]: entry["percentile"] for entry in queue_view(found)["rows"]}
        rows = sorted(page)
        reasons = [
            " | ".join(reason["text"] for reason in details_of(found.round, row)["reasons"][:3])
            for row in rows
        ]
        shown = {"score": found.round.scores[rows], "percentile": [page[row] for row in rows]}
        return pl.DataFrame({"row": rows, **shown, "reasons": reasons})
    finally:
        log.close()


def service(case):
    reader = RequestReader(case.model, N_ROWS)
    together = score(reader, [reader.read([record]) for record in case.records])
    arrays = {
        name: np.concatenate([getattr(one, name) for one in together])
        for name in ("score", "percentile", "alert")
    }
    return table_of(**arrays)


def service_that_explains(case):
    reader = RequestReader(case.model, N_ROWS)
    found = explain(reader, reader.read(case.records, exactly=True))
    return table_of(score=found.score, percentile=found.percentile, alert=found.alert, reasons=found.reasons)


def spark(case):
    batches = case.table.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches(max_chunksize=50)
    names = {name: name for name in SCHEMA if name != "row"}
    content = (case.folder / "m.dplan").read_bytes()
    found = [pl.from_arrow(batch) for batch in spark_scored(batches, content, ["place"], names, None)]
    return pl.concat(found).rename({"place": "row"})


def mlflow(case):
    pytest.importorskip("mlflow", reason="the extra [mlflow] is not installed; run  make test-integrations")
    from dplan.mlflow import _load_pyfunc

    rows = pd.DataFrame(case.records)  # with dates as text, as clients send them
    found = _load_pyfunc(case.folder / "m.dplan").predict(rows, {"explain": True})
    return table_of(**pl.from_pandas(found).to_dict())


def python(case):
    found = case.model.score(case.table)
    return table_of(
        score=found,
        percentile=case.model.percentile(found),
        alert=case.model.is_alert(found),
        reasons=case.model.reasons(case.table),
    )


def scikit_learn(case):
    own, table = case.detector, case.table.to_arrow()
    return table_of(
        score=own.anomaly_score(table), percentile=own.percentile(table), reasons=own.reasons(table)
    )


def scorer(case):
    own = Scorer(case.model)
    scored = own.score(Batch(case.table))
    return table_of(**own.columns(scored, explain=True).to_dict())


_TEXT = pl.col("score").round_sig_figs(DIGITS)
_FILES = ("scoring.table", "scoring.parts", "scoring.deciding", "scoring.files")
WAYS = {
    "Scorer": Way((), scorer, explains_all=False),
    "score, CSV": Way(_FILES, file_way("csv"), _TEXT, explains_all=False),
    "score, Parquet": Way(_FILES, file_way("parquet"), explains_all=False),
    "score --follow": Way(("scoring.stream",), stream, _TEXT, explains_all=False),
    "score --review": Way(("scoring.queue",), queue, pl.col("score").round(4)),
    "report": Way(("report.data", "report.__init__"), report),
    "review": Way(("review.engine",), session),
    "serve": Way(("serving.rows", "serving.scoring"), service),
    "serve, with reasons": Way(("serving.rows", "serving.scoring"), service_that_explains),
    "Spark": Way(("spark",), spark, explains_all=False),
    "MLflow": Way(("mlflow",), mlflow),
    "kinds": Way(("kinds.__init__", "kinds.table", "kinds.writing"), kinds),
    "model.alerts": Way(("notebook.alerts",), notebook),
    "TableModel": Way(("tables.model",), python),
    "TableDetector": Way(("tables.detector",), scikit_learn),
}


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return Case(tmp_path_factory.mktemp("ways"))


# Novelty: the same ways, of a detector that has explorers.


def novelty_file(ending):
    def run(case):
        out = case.folder / f"novelty.{ending}"
        scorer = Scorer(case.model, keep=["place"], novelty=True)
        score_table(scorer, case.input(ending), Output(out, ending), chunk_rows=50)
        return pl.read_csv(out) if ending == "csv" else pl.read_parquet(out)

    return run


def novelty_stream(case):
    out = io.BytesIO()
    source = Input(io.BytesIO((case.folder / "t.csv").read_bytes()), "csv").like(case.model)
    follow(Scorer(case.model, keep=["place"], novelty=True), source, out)
    return pl.read_csv(out.getvalue())


def novelty_service(case):
    reader = RequestReader(case.model, N_ROWS, novelty=True)
    together = score(reader, [reader.read([record]) for record in case.records])
    return pl.DataFrame({"novelty": np.concatenate([one.novelty for one in together])})


def novelty_service_that_explains(case):
    reader = RequestReader(case.model, N_ROWS, novelty=True)
    found = explain(reader, reader.read(case.records, exactly=True))
    return pl.DataFrame({"novelty": found.novelty})


def novelty_page(case):
    log = VerdictLog(case.folder / "novelty.jsonl")
    try:
        engine = Engine(as_file(case.folder / "t.csv", (), None, case.folder), case.folder / "m.dplan")
        found = Session(engine, log, refit_every=0)
        found.open()
        rows = sorted(found.round.places)
        novelty = [details_of(found.round, row)["novelty"] for row in rows]
        return pl.DataFrame({"place": rows, "novelty": novelty})
    finally:
        log.close()


def novelty_spark(case):
    batches = case.table.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches(max_chunksize=50)
    names = {name: name for name in ("score", "percentile", "novelty", "alert")}
    content = (case.folder / "m.dplan").read_bytes()
    return pl.concat(pl.from_arrow(batch) for batch in spark_scored(batches, content, ["place"], names, None))


def novelty_mlflow(case):
    pytest.importorskip("mlflow", reason="the extra [mlflow] is not installed; run  make test-integrations")
    from dplan.mlflow import _load_pyfunc

    return pl.from_pandas(
        _load_pyfunc(case.folder / "m.dplan").predict(pd.DataFrame(case.records), {"novelty": True})
    )


def novelty_report(case):
    """Return the rows of the picture, which are in another order: their scores tell which they are."""
    found = report_data(Scorer(case.model), case.input().chunks(50)).novelty
    places = {float(own): place for place, own in enumerate(case.model.score(case.table))}
    rows = [places[float(own)] for own in found.score]
    return pl.DataFrame({"place": rows, "novelty": found.novelty})


NOVELTY_WAYS = {
    "score, CSV": novelty_file("csv"),
    "score, Parquet": novelty_file("parquet"),
    "score --follow": novelty_stream,
    "serve": novelty_service,
    "serve, with reasons": novelty_service_that_explains,
    "review": novelty_page,
    "report": novelty_report,
    "Spark": novelty_spark,
    "MLflow": novelty_mlflow,
    "Scorer": lambda case: Scorer(case.model, novelty=True).columns(
        Scorer(case.model, novelty=True).score(Batch(case.table))
    ),
    "TableModel": lambda case: pl.DataFrame({"novelty": case.model.novelty(case.table)}),
    "TableDetector": lambda case: pl.DataFrame({"novelty": case.detector.novelty(case.table.to_arrow())}),
}


@pytest.fixture(scope="module")
def exploring(tmp_path_factory):
    return Case(tmp_path_factory.mktemp("exploring"), QUICK["DPLANEnsemble"])


@pytest.mark.parametrize("name", NOVELTY_WAYS)
def test_every_way_says_the_same_about_novelty(exploring, name):
    found = NOVELTY_WAYS[name](exploring)
    if "place" in found.columns:
        found = found.sort("place")
    one_by_one = [exploring.model.novelty(exploring.table[i : i + 1])[0] for i in range(N_ROWS)]
    assert len(set(one_by_one)) > 80
    assert found["novelty"].to_numpy().tobytes() == np.array(one_by_one).tobytes()


def bytes_of(table):
    return {
        column.name: column.to_list() if column.dtype == pl.String else column.to_numpy().tobytes()
        for column in table
    }


@pytest.mark.parametrize("name", WAYS)
def test_every_way_says_the_same(case, name):
    way = WAYS[name]
    found = way.run(case)
    found = found.cast({column: SCHEMA[column] for column in found.columns}).sort("row")
    if "reasons" in found.columns:
        found = found.with_columns(pl.col("reasons").fill_null(""))  # as text files write it
    assert found.height >= 20
    shown = pl.col("reasons") if way.explains_all else pl.when("alert").then("reasons").otherwise(pl.lit(""))
    expected = case.expected.with_columns(way.written, shown.alias("reasons"))[found["row"]]
    assert bytes_of(found) == bytes_of(expected.select(found.columns))


def test_the_rows_can_tell_ways_apart(case):
    assert 1 < case.expected["alert"].sum() < 30
    assert case.expected["score"].n_unique() > 100
    assert case.expected["reasons"].n_unique() > 20


def test_every_module_that_scores_has_joined():
    package, joined_in = Path(dplan.__file__).parent, {name for way in WAYS.values() for name in way.modules}
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(package).with_suffix("").parts)
        if name == "scoring.scorer" or name.startswith("cli."):  # commands make a scorer and hand it on
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        takes = {
            alias.name
            for node in imports
            if str(node.module).startswith("dplan.scoring")
            for alias in node.names
        }
        if takes & {"Scorer", "Batch", "scorer"}:
            assert name in joined_in, f"{name} scores rows: add how it does to the list"
