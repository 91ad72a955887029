"""What verdicts teach: which rows are judged, what is learned, and what the page says."""

import json
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

from dplan._html.blocks import Grid, Items
from experiments.__main__ import main
from experiments.after_review import verdicts
from experiments.after_review.page import after_review_chapter, differences
from experiments.after_review.verdicts import KINDS, arms, learn
from experiments.checking import check
from experiments.data.arrays import ArrayTask, thinned
from experiments.data.sources import load_task
from experiments.journal import read_journal
from experiments.methods import Rival, create
from experiments.pages import write_report
from experiments.results import Results
from experiments.runner import run
from experiments.suites import Plan, cells_of

N_ARMS = sum(map(len, KINDS.values()))


def made_task(n_known=4, seed=0):
    """Rows of which a twelfth are anomalies of two classes, and some of the first class are known."""
    rng = np.random.default_rng(seed)
    classes = np.where(rng.random(900) < 0.06, 1, np.where(rng.random(900) < 0.03, 2, 0))
    X = rng.normal(size=(900, 4))
    X[classes == 1, 0] += 2.5
    X[classes == 2, 1] += 2.5
    training, test = np.arange(600), np.arange(600, 900)
    y = np.zeros(600, dtype=np.int64)
    y[np.flatnonzero(classes[training] == 1)[:n_known]] = 1
    names = ("normal", "first", "second")
    return ArrayTask(X[training], y, X[test], classes[test], (1,), names, true_classes=classes[training])


def test_the_highest_rows_of_a_kind_are_judged():
    task = made_task()
    scores = task.X[:, 0]
    order = [row for row in np.argsort(-scores) if task.y[row] == 0]
    kinds = {
        "false alarms": [row for row in order if task.true_classes[row] == 0],
        "finds": [row for row in order if task.true_classes[row] > 0],
        "both": order,
    }
    found = list(arms(task, scores, seed=1))
    assert {(kind, n) for kind, n, _ in found} == {(kind, n) for kind, some in KINDS.items() for n in some}
    for kind, n, y in found:
        assert (y[task.y > 0] == task.y[task.y > 0]).all()  # known anomalies stay
        if kind in kinds:
            judged = kinds[kind][:n]
            wanted = [task.true_classes[row] or -1 for row in judged]
            assert y[judged].tolist() == wanted
            assert np.count_nonzero(y != task.y) == len(judged)


def test_one_verdict_in_ten_is_wrong_and_more_verdicts_add_to_fewer():
    task = made_task()
    found = {(kind, n): y for kind, n, y in arms(task, task.X[:, 0], seed=1)}
    for n in KINDS["both, 10 % wrong"]:
        right, wrong = found["both", n], found["both, 10 % wrong", n]
        mistaken = np.flatnonzero(right != wrong)
        assert len(mistaken) == n // 10
        # A find becomes a false alarm, and a normal row an anomaly of the known class.
        assert (wrong[mistaken] == np.where(right[mistaken] > 0, -1, 1)).all()
    few, many = (set(np.flatnonzero(found["both", n] != found["both, 10 % wrong", n])) for n in (10, 100))
    assert few < many


class Recorder(Rival):
    """Ranks rows by their first column, and remembers what it was fitted with."""

    fits: ClassVar = []

    def __init__(self, random_state=0, callback=None):
        pass

    def fit(self, X, y):
        self.fits.append(y.tobytes())
        return self

    def anomaly_score(self, X):
        return X[:, 0]


def test_equal_verdicts_are_learned_once(monkeypatch):
    monkeypatch.setattr(verdicts, "create", lambda *_, **__: Recorder())
    task = made_task()
    before, found = learn("Recorder", task, seed=0)
    assert (before == task.X_test[:, 0]).all()
    *fits, another_seed = Recorder.fits
    assert len(set(fits)) == len(fits) == found["refits"] < 1 + N_ARMS
    assert another_seed == task.y.tobytes()
    assert len(found["arms"]) == N_ARMS
    finds = next(arm for arm in found["arms"] if (arm["kind"], arm["n"]) == ("finds", 100))
    assert finds["judged"] == finds["finds"] == found["hidden"] < 100  # all that there are


def test_a_method_that_does_not_use_checked_rows_is_not_fitted_again_for_them(monkeypatch):
    class Ignoring(Recorder):
        fits: ClassVar = []
        uses_checked = False

    monkeypatch.setattr(verdicts, "create", lambda *_, **__: Ignoring())
    task = made_task()
    _, found = learn("Ignoring", task, seed=0)
    seen = {tuple(np.maximum(np.frombuffer(y, dtype=np.int64), 0)) for y in Ignoring.fits}
    assert len(seen) == found["refits"] < found["refits"] + 1 == len(Ignoring.fits)
    areas = {arm["auc_pr"] for arm in found["arms"] if arm["kind"] == "false alarms"}
    assert len(areas) == 1


@pytest.mark.parametrize("method", ["LogisticBaseline", "DPLANEnsemble"])
def test_true_verdicts_help(method):
    task = made_task(n_known=2)
    _, found = learn(method, task, seed=0)
    after = {(arm["kind"], arm["n"]): arm["auc_pr"] for arm in found["arms"]}
    assert after["both", 100] > after["both", 1] + 0.02


def test_a_classifier_without_known_anomalies_is_an_isolation_forest():
    task = made_task(n_known=0)
    found = create("GaussianNB", random_state=3).fit(task.X, task.y).anomaly_score(task.X_test)
    forest = create("IForest", random_state=3).fit(task.X)
    assert (found == forest.anomaly_score(task.X_test)).all()


def test_a_thinned_task_keeps_all_that_is_known():
    task = made_task()
    small = thinned(task, 0, 100, 50)
    assert (len(small.X), len(small.X_test)) == (104, 50)
    assert (small.X[:4] == task.X[task.y > 0]).all()
    known_rows = {row.tobytes(): k for row, k in zip(task.X, task.true_classes, strict=True)}
    assert [known_rows[row.tobytes()] for row in small.X] == small.true_classes.tolist()
    whole = thinned(task, 0, 10_000, 10_000)
    assert sorted(map(tuple, whole.X)) == sorted(map(tuple, task.X))


@pytest.mark.parametrize("id", ["covertype-mini/cottonwood-v1"])
def test_no_anomaly_needs_to_be_known(id):
    none, some = (load_task(id, 0, "resampled", count, None) for count in (0, 5))
    assert not none.y.any()
    assert (some.y > 0).sum() == 5
    assert (none.true_classes > 0).sum() > 300


def test_only_this_suite_starts_without_known_anomalies():
    assert {cell.x for cell in cells_of(Plan(("after-review",), datasets=("covertype-mini",)))} == {0, 5, 20}
    with pytest.raises(ValueError, match="labels must be at least 1, not 0"):
        Plan(("unknown",), labels=(0,))


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("after-review")
    plan = Plan(
        ("after-review",),
        methods=("LogisticBaseline",),
        runs=1,
        labels=(5, 20),
        datasets=("covertype-mini",),
    )
    assert run(plan, folder).done == 2 * 2
    assert run(plan, folder).skipped == 4
    return folder


def test_results_have_no_problem_and_tampered_ones_have(output, tmp_path):
    checked = check(output, rerun=1)
    assert (checked.n_cells, checked.problems) == (4, [])
    records = read_journal(output)
    cell = next(record for record in records if record["kind"] == "cell")
    cell["arms"][0]["judged"] = 7
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    result = CliRunner().invoke(main, ["check", str(tmp_path)])
    assert result.exit_code == 1
    assert "7 verdicts and 0 finds of 1 false alarms" in result.output


def test_the_page_shows_changes_by_collection(output, tmp_path):
    table = differences(Results.read(output))
    assert table.height == 2 * 2 * N_ARMS
    text = write_report(output, tmp_path)[1].read_text(encoding="utf-8")
    own = table.filter(method="LogisticBaseline", known=5, kind="finds", n=10)["change"]
    assert own.mean() > 0
    part = text.split("### LogisticBaseline")[1].split("5 known anomalies")[1]
    row = next(line for line in part.splitlines() if line.startswith("| embedded (2) | finds"))
    assert f"+{own.mean():.3f} ± {own.std() / 2**0.5:.3f}" in row
    assert (
        "LogisticBaseline, 20 known anomalies: mean average precision 0." in text
    )  # without ours, the first
    assert "; change after 1 false alarm " in text


def cell_of(method, dataset, known, before, after, another_seed):
    """A record as the page needs it: every arm has the same area."""
    arms = [
        {"kind": kind, "n": n, "judged": n, "finds": 0, "auc_pr": after}
        for kind, some in KINDS.items()
        for n in some
    ]
    place = {"suite": "after-review", "scenario": f"keel/{dataset}-v1", "dataset": dataset, "x": known}
    areas = {"auc_pr": before, "another_seed": another_seed}
    return {**place, "method": method, "seed": 1, "protocol": "resampled", "arms": arms, **areas}


def test_a_rival_is_compared_on_the_tables_of_both():
    cells = [
        cell_of("DPLANEnsemble", "letter", 20, 0.5, 0.7, 0.45),
        cell_of("DPLANEnsemble", "vowel", 20, 0.7, 0.8, 0.7),
        cell_of("DPLANEnsemble", "shuttle", 20, 0.1, 0.1, 0.1),  # the rival was not run on this one
        cell_of("BoostedBaseline", "letter", 20, 0.4, 0.5, 0.4),
        cell_of("BoostedBaseline", "vowel", 20, 0.6, 0.8, 0.6),
    ]

    class Recorded:
        def select(self, suite):
            return cells

    blocks = list(after_review_chapter(Recorded()))
    grids = [block for block in blocks if isinstance(block, Grid)]
    coverage, beside = ([[entry.text for entry in row] for row in grid.rows] for grid in grids[:2])
    assert coverage == [["DPLANEnsemble", "20", "3", "3"], ["BoostedBaseline", "20", "2", "2"]]
    assert beside[0] == ["20 (2)", "none", "0", "0.600", "0.500", "+0.100 ± 0.000"]
    assert beside[1] == ["20 (2)", "false alarms", "1", "0.750", "0.650", "+0.100 ± 0.100"]
    assert len(beside) == 1 + N_ARMS
    luck = next(block for block in blocks if isinstance(block, Items)).texts[-1]
    assert "DPLANEnsemble, 20 known −0.017 ± 0.017 (33 % lose); BoostedBaseline, 20 known +0.000" in luck
