"""Whatever happens between runs, `score` writes what an undisturbed run would, and scores nothing twice."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from polars.testing import assert_frame_equal

from dplan import IForest, LogisticBaseline
from dplan.tables import TableModel, fit_table, from_table
from dplan.tables.input import Input
from tests.machines import Machine, killed_at, run, steps
from tests.scoring.files import Options, score_table

CHUNK = 5
OPTIONS = st.sampled_from(
    [
        ("keep", ()), ("keep", ("shop",)), ("budget", None), ("budget", 3), ("explain", False), ("explain", True),
        ("on_error", "fail"), ("on_error", "skip"), ("on_error", "null"),
    ]
)  # fmt: skip
MOMENTS = st.sampled_from([5, 10, 15, 20, 30, 40, 1000, 1000])


class Scoring(Machine):
    """A table, a model and options that change between runs; `done` has what a killed run has finished."""

    models = scratch = None  # set by the test

    @initialize()
    def begin(self):
        self.folder = self.scratch / "work"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.written, self.done, self.damaged = None, set(), False
        self.model, self.options = self.models[0], Options()
        self.rows = [(f"p{i}", str(i * 7 % 40), "ab"[i % 2]) for i in range(23)]

    @rule(place=st.integers(0, 22), amount=st.sampled_from(["12.5", "900", "many"]))
    def change_a_row(self, place, amount):
        self.rows[place % len(self.rows)] = (f"p{place}", amount, "a")

    @rule(n=st.integers(15, 23))
    def other_rows(self, n):
        self.rows = [(f"p{i}", str(i * n % 40), "ab"[i % 2]) for i in range(n)]

    @rule(option=OPTIONS)
    def change_an_option(self, option):
        self.options = replace(self.options, **dict([option]))

    @rule(which=st.integers(0, 1))
    def change_the_model(self, which):
        self.model = self.models[which]

    def keys(self):
        """What the score of each chunk depends on."""
        given = self.options
        explained = given.explain and (given.budget or "threshold")
        chunks = [tuple(self.rows[i : i + CHUNK]) for i in range(0, len(self.rows), CHUNK)]
        return [(chunk, self.model.digest, given.keep, given.on_error, explained) for chunk in chunks]

    def expected(self):
        """The output of an undisturbed run; None if a cell cannot be used and the run fails."""
        table = pl.DataFrame(self.rows, ["payment", "amount", "shop"], orient="row").with_row_index("row", 1)
        bad, given = table["amount"] == "many", self.options
        if bad.any() and given.on_error == "fail":
            return None
        table = table.filter(~bad) if given.on_error == "skip" else table
        table = table.with_columns(pl.col("amount").replace("many", None).cast(pl.Float64))
        scores = self.model.score(table) if table.height else np.empty(0)
        order = np.argsort(-scores, kind="stable")
        alert = (
            np.isin(order.argsort(), range(given.budget)) if given.budget else scores >= self.model.threshold
        )
        found = table.select("row", "payment", *given.keep).with_columns(
            score=pl.Series(scores),
            percentile=pl.Series(self.model.percentile(scores)),
            alert=pl.Series(alert),
        )
        if given.explain:
            why = pl.Series(self.model.reasons(table), dtype=pl.String)
            found = found.with_columns(reasons=pl.when("alert").then(why).otherwise(pl.lit("")))
        return found

    @rule(moment=MOMENTS)
    def score(self, moment):
        """Run the command, which is killed after some operations if it takes so many."""
        table = pl.DataFrame(self.rows, ["payment", "amount", "shop"], orient="row")
        table.write_csv(self.folder / "in.csv")
        self.model.save(self.folder / "m.dplan")
        expected, keys, outcome = self.expected(), self.keys(), None
        n_resumed = sum(key in self.done for key in keys)
        with killed_at(moment, self.folder) as renamed:
            try:
                outcome = score_table(
                    self.folder / "m.dplan", Input(self.folder / "in.csv"), self.folder / "out.parquet",
                    self.options, "parquet", order="file", chunk_rows=CHUNK, n_jobs=1,
                )  # fmt: skip
            except ValueError as error:
                if expected is not None:
                    raise AssertionError from error
        finished = outcome is not None or "out.parquet" in renamed
        if finished:
            self.written = expected
        if outcome is not None:
            assert outcome.resumed <= n_resumed if self.damaged else outcome.resumed == n_resumed
            self.done, self.damaged = set(), False
            assert [path.name for path in self.folder.glob(".*")] == []
        else:
            parts = list(self.folder.glob(".out.parquet.parts/note-*.json"))
            new = [key for key in keys if key not in self.done]
            self.done |= set(new[: sum(name.startswith("note-") for name in renamed)])
            self.done = self.done if parts else set()

    @rule(moment=MOMENTS, option=OPTIONS)
    def change_an_option_and_resume(self, moment, option):
        self.score(moment)
        self.change_an_option(option)
        self.score(1000)

    @rule(moment=MOMENTS, place=st.integers(0, 100), cut=st.booleans())
    def damage_and_resume(self, moment, place, cut):
        self.score(moment)
        files = sorted(self.folder.glob(".out.parquet.parts/*-*"))
        if files:
            path: Path = files[place % len(files)]
            content = path.read_bytes()
            path.write_bytes(content[: len(content) // 2] if cut else bytes([*content[:-1], content[-1] ^ 1]))
            self.damaged = True
        self.score(1000)

    @invariant()
    def the_output_is_that_of_the_last_run_that_ended(self):
        path = self.folder / "out.parquet"
        assert path.exists() == (self.written is not None)
        if self.written is not None:
            found = pl.read_parquet(path)
            assert_frame_equal(found, self.written, check_dtypes=False, check_exact=True)


@steps
def test_score_writes_what_an_undisturbed_run_would(steps, tmp_path):
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"amount": [*rng.integers(0, 40, 80), 800, 900], "shop": ["a", "b"] * 41})
    table = table.with_columns(fraud=pl.Series([0] * 80 + [1, 1]), payment=pl.int_range(pl.len()))
    own = from_table(table, label="fraud", id="payment")
    models = []
    for detector in (LogisticBaseline(random_state=0), IForest(n_estimators=5, random_state=0)):
        fit_table(own, detector, estimate=False).save(tmp_path / "m.dplan")
        models.append(TableModel.load(tmp_path / "m.dplan"))
    run(Scoring, steps, models=models, scratch=tmp_path)
