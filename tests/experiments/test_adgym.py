"""The suite ``adgym`` on small tables: cells, the comparison with published results, and the page."""

import re

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import rankdata

from experiments.__main__ import main
from experiments.journal import read_journal
from experiments.pages import write_report
from experiments.runner import run
from experiments.suites import Plan, cells_of
from tests.experiments.adbench import write_table

METHODS = ("LogisticBaseline", "GaussianNB", "IForest")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adgym")
    for number in (2, 3, 10):
        write_table(folder, f"{number}_table", n_anomalies=40 if number == 10 else 25, seed=number)
    return folder


@pytest.fixture(scope="module")
def output(home, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    summary = run(Plan(("adgym",), methods=METHODS), folder, home=home)
    assert summary.failed == 0
    return folder


def done(output):
    return [record for record in read_journal(output) if record["kind"] == "cell"]


def test_the_cells_are_tables_seeds_and_labels(home, output):
    cells = done(output)
    # Of 25 anomalies, 18 are for training: too few for 20 labels.
    tables = {(cell["dataset"], cell["x"]) for cell in cells}
    assert tables == {(f"{n}_table", k) for n in (2, 3, 10) for k in (5, 10, 20)} - {
        ("2_table", 20),
        ("3_table", 20),
    }
    assert {cell["seed"] for cell in cells} == {1, 2, 3}
    assert len(cells) == 7 * 3 * 3
    assert run(Plan(("adgym",), methods=METHODS), output, home=home).skipped == len(cells)
    chosen = cells_of(Plan(("adgym",), datasets=("3_table",), labels=(7,), runs=1, first_seed=9), home)
    assert {(cell.dataset, cell.x, cell.labels, cell.seed) for cell in chosen} == {("3_table", 7, 7, 9)}
    with pytest.raises(ValueError, match="unknown table 'x'; choose from 2_table, 3_table, 10_table"):
        cells_of(Plan(("adgym",), datasets=("x",)), home)


def test_other_data_in_the_folder_is_noticed(home, output, tmp_path):
    for name in ("2_table", "3_table"):
        (tmp_path / f"{name}.npz").write_bytes((home / f"{name}.npz").read_bytes())
    write_table(tmp_path, "10_table", n_anomalies=40, seed=99)
    with pytest.raises(ValueError, match="adgym/10_table was"):
        run(Plan(("adgym",), methods=METHODS), output, home=tmp_path)


def publish(home, output, shift=0.0):
    """Write results of two methods as if they had been published; NB is ours."""
    lines = ["table,seed,labels,method,auc_pr,auc_roc"]
    for cell in done(output):
        place = f"{cell['dataset']},{cell['seed']},{cell['x']}"
        if cell["method"] == "GaussianNB":
            lines.append(f"{place},NB,{cell['auc_pr'] + shift:.6f},{cell['auc_roc']:.6f}")
        if cell["method"] == "IForest" and cell["dataset"] != "3_table":
            lines.append(f"{place},Forest,{cell['auc_pr'] - 0.05:.6f},{cell['auc_roc'] - 0.05:.6f}")
    (home / "published.csv").write_text("\n".join(lines) + "\n")


def rows_below(markdown, heading):
    """The first table after a heading, by its first column."""
    table = markdown.split(f"### {heading}\n")[1].split("\n\n")[0].strip()
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {line[0].replace("*", ""): [text.replace("*", "") for text in line[1:]] for line in lines}


def test_our_results_are_ranked_among_the_published(home, output, tmp_path):
    publish(home, output)
    _, page = write_report(output, tmp_path, data_home=home)
    text = page.read_text(encoding="utf-8")
    assert "GaussianNB repeats the published NB to six decimals, in both metrics, in 21 of 21 cells" in text
    found = rows_below(text, "5 labels")
    assert set(found) == {*METHODS, "NB (published)", "Forest (published)"}

    areas = {}
    for cell in done(output):
        if cell["x"] == 5:
            areas.setdefault((cell["dataset"], cell["method"]), []).append(cell["auc_pr"])
    names = [f"{n}_table" for n in (2, 3, 10)]
    column = {m: np.array([np.mean(areas[name, m]) for name in names]) for m in METHODS}
    forest = np.where([name == "3_table" for name in names], -1, column["IForest"] - 0.05)
    field = np.stack([column["LogisticBaseline"], column["GaussianNB"], forest], axis=1)
    rank = rankdata(-field, axis=1).mean(axis=0)[0]
    assert found["LogisticBaseline"][:2] == [f"{column['LogisticBaseline'].mean():.3f}", f"{rank:.2f}"]
    assert "Forest (published) lacks 1" in text
    assert re.search(
        r"5 labels, GaussianNB: AUC-PR 0\.\d+, mean rank", text
    )  # no ensemble: the first is compared


def test_a_difference_from_the_published_results_is_shown(home, output, tmp_path):
    publish(home, output, shift=0.01)
    text = write_report(output, tmp_path, data_home=home)[1].read_text(encoding="utf-8")
    assert "in 0 of 21 cells; the largest difference is 0.01." in text


def test_other_seeds_are_not_compared_with_the_published(home, output, tmp_path):
    publish(home, output)
    plan = Plan(("adgym",), methods=("GaussianNB",), labels=(5,), runs=1, first_seed=50)
    run(plan, tmp_path, home=home)
    text = write_report(tmp_path, data_home=home)[1].read_text(encoding="utf-8")
    assert "(published)" not in text
    assert "only ours are shown" in text


def test_the_command_says_what_is_missing(tmp_path, monkeypatch):
    result = CliRunner().invoke(main, ["run", "adgym", "--data-home", str(tmp_path)])
    assert result.exit_code == 1
    assert "no ADBench tables with at least 1,000 rows" in result.output
    write_table(tmp_path, "1_table")
    monkeypatch.setitem(__import__("sys").modules, "catboost", None)
    arguments = ["run", "adgym", "--data-home", str(tmp_path), "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "pip install 'dplan-ad[experiments]'" in result.output
    assert not (tmp_path / "out").exists()


def test_catboost_is_scored_by_its_probability():
    pytest.importorskip("catboost")
    from experiments.methods import create

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[:20] += 4
    y = (np.arange(200) < 10).astype(int)
    scores = create("CatBoost", random_state=0, iterations=20).fit(X, y).anomaly_score(X)
    assert scores[:20].min() > np.median(scores[20:])


def test_the_explorers_learn_nothing_from_labels():
    from experiments.methods import create

    X = np.random.default_rng(0).normal(size=(600, 4))
    X[0] = 9
    ordinary = np.argsort(np.abs(X).sum(axis=1))[:20]  # in the middle of all rows
    y = np.zeros(600, dtype=int)
    y[ordinary] = 1
    # New rows: a row of the training table that is not labelled may be its own neighbour.
    new = np.random.default_rng(1).normal(size=(600, 4))
    new[0] = 9
    scores = create("Explorers", random_state=0).fit(X, y).anomaly_score(new)
    assert scores.argmax() == 0
    ranks = rankdata(scores)[np.argsort(np.abs(new).sum(axis=1))[:20]]
    assert ranks.mean() < 300
    assert ranks.max() < 500
