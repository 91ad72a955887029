"""Simulated reviews: what is asked, what is learned, and what the page says."""

import numpy as np
import pytest

from experiments.checking import check
from experiments.data.reviews import ReviewTable
from experiments.discovery import review as discovery
from experiments.journal import read_journal
from experiments.methods import Rival
from experiments.pages import write_report
from experiments.runner import run
from experiments.suites import Plan, cells_of

METHODS = ("LogisticBaseline", "IForest")


def made_table(n_anomalies=12, shift=4.0):
    rng = np.random.default_rng(0)
    anomalous = rng.permutation(np.arange(300) < n_anomalies)
    return ReviewTable(rng.normal(size=(300, 3)) + shift * anomalous[:, None], anomalous)


class Recorder(Rival):
    """Ranks rows by their first column, and remembers what it was fitted with."""

    def __init__(self, random_state=0, callback=None):
        self.fits = []

    def fit(self, X, y):
        self.fits.append(y.copy())
        return self

    def anomaly_score(self, X):
        return X[:, 0]


@pytest.mark.parametrize("per_refit", [1, 10])
def test_the_highest_scores_not_judged_yet_are_asked_about(monkeypatch, per_refit):
    recorder = Recorder()
    monkeypatch.setattr(discovery, "create", lambda *_, **__: recorder)
    monkeypatch.setitem(discovery.RIVALS, "Recorder", Recorder)
    monkeypatch.setattr(discovery, "_FROM_FALSE_ALARMS", ("Recorder",))
    table = made_table()
    found = discovery.review("Recorder", table, per_refit, seed=0, n_verdicts=40)
    order = np.argsort(-table.X[:, 0], kind="stable")[:40]
    assert found["finds"] == (1 + np.flatnonzero(table.anomalous[order])).tolist()
    assert found["found"]["20"] == table.anomalous[order[:20]].sum()
    assert set(found["found"]) == {"20"}
    fits = recorder.fits
    assert found["refits"] == len(fits) == -(-found["verdicts"] // per_refit)
    assert not fits[0].any()  # a cold start
    judged = order[:per_refit]
    assert (fits[1][judged] == np.where(table.anomalous[judged], 1, -1)).all()
    assert (np.delete(fits[1], judged) == 0).all()


def test_a_review_ends_when_everything_is_found():
    found = discovery.review("LogisticBaseline", made_table(shift=9.0), 10, seed=0)
    assert found["anomalies"] == len(found["finds"]) == 12
    assert found["verdicts"] == 20  # the last of them stand in the second batch
    assert found["found"] == {"20": 12, "50": 12, "100": 12, "300": 12}


def test_feedback_helps():
    table = made_table(n_anomalies=30, shift=1.5)
    no, yes = (
        discovery.review(name, table, 10, seed=0, n_verdicts=100) for name in ("IForest", "LogisticBaseline")
    )
    assert no["refits"] == 1
    assert yes["found"]["100"] > no["found"]["100"]


def test_the_ensemble_learns_from_false_alarms_alone():
    """Odd but harmless rows come first; the ten verdicts on them suffice to find others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    X[:60, [0, 2]] += rng.uniform(6, 20, size=(60, 2))  # harmless
    X[60:80, 1] += 4  # anomalies
    table = ReviewTable(X, (np.arange(1000) >= 60) & (np.arange(1000) < 80))
    quick = {"n_agents": 1, "n_steps": 200, "warmup_steps": 100}
    learned = discovery.review("DPLANEnsemble", table, 10, seed=2, n_verdicts=50, **quick)
    ignored = discovery.review("IForest", table, 10, seed=2, n_verdicts=50)
    assert learned["finds"][0] > 10
    assert learned["found"]["20"] >= 3 > 1 > ignored["found"]["20"]
    assert learned["found"]["50"] >= 15 > 5 > ignored["found"]["50"]


@pytest.mark.parametrize("name", ["AADForest", "PineForest"])
def test_forests_that_learn_from_verdicts(name):
    pytest.importorskip("coniferest")
    found = discovery.review(name, made_table(), 10, seed=1, n_verdicts=40, n_trees=30)
    again = discovery.review(name, made_table(), 10, seed=1, n_verdicts=40, n_trees=30)
    assert found["finds"] == again["finds"]
    assert found["found"]["20"] >= 10


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("results")
    table = made_table()
    lines = ["label,a,b,c"]
    lines += [
        ",".join(["anomaly" if odd else "nominal", *map(str, row)]) for row, odd in zip(*table, strict=True)
    ]
    (home / "made.csv").write_text("\n".join(lines) + "\n")
    plan = Plan(("discovery",), methods=METHODS, runs=2, datasets=("made",))
    summary = run(plan, folder, home=home)
    assert (summary.done, summary.failed) == (8, 0)  # two methods, two seeds, 10 and 1 verdicts per refit
    assert run(plan, folder, home=home).skipped == 8
    return home, folder


def test_the_page_shows_what_was_found(output, tmp_path):
    home, folder = output
    html, markdown = write_report(folder, tmp_path)
    text = markdown.read_text(encoding="utf-8")
    cells = [record for record in read_journal(folder) if record["kind"] == "cell"]
    ten = [cell["found"]["20"] for cell in cells if (cell["x"], cell["method"]) == (10, "LogisticBaseline")]
    part = text.split("### 10 verdicts per refit")[1].split("###")[0]
    assert f"| LogisticBaseline | {np.mean(ten):.1f} |" in part
    assert "| IForest (no feedback) |" in part
    assert "| best possible | 12.0 | 12.0 | 12.0 | 12.0 |" in part
    assert "### 1 verdict per refit" in text
    assert html.read_text(encoding="utf-8").count('class="band c') >= 4
    assert check(folder, home, rerun=2).problems == []


def test_reviews_of_different_lengths_are_cells_of_the_suite(output, tmp_path):
    home, _ = output
    for count, verdicts in ((10, None), (1, 15)):
        plan = Plan(
            ("discovery",),
            methods=("IForest",),
            runs=1,
            datasets=("made",),
            per_refit=(count,),
            verdicts=verdicts,
        )
        run(plan, tmp_path, home=home)
    checked = check(tmp_path, home)
    assert (checked.n_cells, checked.problems, checked.missing) == (2, [], {})


def test_a_quick_form_runs_everywhere():
    cells = cells_of(Plan(("discovery",), quick=True, runs=1))
    assert {(cell.dataset, cell.x, cell.changed["n_verdicts"]) for cell in cells} == {
        ("cottonwood (mini)", 10, 50)
    }


def test_the_embedded_data_and_the_paper_are_told_apart(data_home):
    cells = cells_of(Plan(("discovery",), runs=1), data_home)
    names = {(cell.scenario, cell.dataset) for cell in cells}
    assert len(names) == len({name for _, name in names})
    assert len(names) >= 13 + 2
