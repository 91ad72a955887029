"""Simulated readers: while the detector learns and somebody else decides rows, no verdict is about another row."""

import sys

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from dplan import LogisticBaseline
from dplan.review.engine import Engine
from dplan.review.table import as_file
from tests.browser import needs_browser
from tests.review.browsing import DESKTOP, ready
from tests.review.serving import Client, served

pytestmark = needs_browser

READER = """async ([n, pause]) => {
  const pressed = [];
  const id = () => document.querySelector('.row-id').innerText;
  while (pressed.length < n) {
    await new Promise((done) => setTimeout(done, pause * (0.5 + Math.random())));
    // Who reads that somebody else has decided the row goes on to another one.
    const row = id(), key = document.querySelector('.row-note') ? 'j' : Math.random() < 0.5 ? 'n' : 'u';
    pressed.push(row);
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key, code: `Key${key.toUpperCase()}`, bubbles: true }));
    document.getElementById('conflict').close();
  }
  return pressed;
}"""


def payments(folder, tmp_path):
    return folder / "june.csv", folder / "fraud.dplan", ("payment",)


def cells(folder, tmp_path):
    """The breast cancer cells of scikit-learn, without a model."""
    load_breast_cancer(as_frame=True).data.to_csv(tmp_path / "cells.csv", index_label="cell")
    return tmp_path / "cells.csv", None, ("cell",)


def wines(folder, tmp_path):
    """The wines of scikit-learn, several times, so that rows have near duplicates; without a model."""
    frame = load_wine(as_frame=True).data
    noise = np.random.default_rng(0).normal(1, 0.02, (5, *frame.shape))
    rows = np.concatenate([frame.to_numpy() * one for one in noise])
    pl.DataFrame(rows, schema=[*frame.columns]).with_row_index("wine").write_csv(tmp_path / "wines.csv")
    return tmp_path / "wines.csv", None, ("wine",)


@pytest.mark.parametrize(
    ("table", "verdicts", "pause"),
    [
        (payments, 25, 350),
        *(pytest.param(table, 340, 450, marks=pytest.mark.soak) for table in (payments, cells, wines)),
    ],
)
def test_no_verdict_is_about_a_row_that_was_not_on_the_screen(
    browser, folder, tmp_path, table, verdicts, pause
):
    path, model, ids = table(folder, tmp_path)
    maker = Engine(as_file(path, ids, None, tmp_path), model, learner=LogisticBaseline())
    with served(folder, tmp_path, table=path, refit_every=0, maker=maker) as review:
        context = browser.new_context(viewport=DESKTOP)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.goto(review.url)
        ready(page)
        pressed, refits = [], 0

        def given():
            records = review.session.log.records
            mine = [one for one in records if one["kind"] == "verdict" and one["who"] != "Ben"]
            return [", ".join(record["row"]) for record in mine]

        while len(given()) < verdicts:
            pressed += page.evaluate(READER, [10, pause])
            other = Client(review, "other")
            for entry in other.get("/api/queue")["rows"][:2]:  # somebody takes the rows at the top
                other.judge(entry, "anomaly", who="Ben")
            other.close()
            refits += review.session.refit()
        page.wait_for_selector("#row[aria-busy=false]")
        while review.session.refitting:
            page.wait_for_timeout(100)
        found = given()
        context.close()
    wrong = sum(row not in pressed for row in found)
    sys.stdout.write(
        f"{path.name}: {len(found)} verdicts of {len(pressed)} presses, {refits} refits, {wrong} wrong\n"
    )
    assert refits
    assert set(found) <= set(pressed)
    # In their order, too: each verdict follows the press that it came from.
    rest = iter(pressed)
    assert all(row in rest for row in found)
