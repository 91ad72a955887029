"""The page about DPLANEnsemble, and tables in the docs that are made of what was measured."""

from pathlib import Path

import pytest


def test_the_page_compares_detectors_and_agents():
    from experiments.ensemble.page import page
    from experiments.results import Results

    def cell(suite, method, scenario, seed, value):
        figures = {f"auc_{curve}{part}": value for curve in ("pr", "roc") for part in ("", "_unknown")}
        dataset = scenario.split("/")[1]
        place = {"suite": suite, "method": method, "scenario": scenario, "dataset": dataset, "seed": seed}
        rest = {"kind": "cell", "key": f"{suite}{method}{scenario}{seed}", "status": "done", "x": None}
        return {**place, **rest, "protocol": "resampled", **figures, "fit_seconds": 10 * value}

    scenarios = ("unsw_nb15/dos", "har/upstairs", "annthyroid/subnormal", "covertype/cottonwood")
    level = {"DPLANEnsemble": 0.9, "DPLAN": 0.6, "IForest": 0.4}
    cells = [
        cell(suite, method, scenario, seed, value + seed * (0.01 if method == "DPLANEnsemble" else 0.1))
        for suite in ("table2", "speed")
        for method, value in level.items()
        for scenario in scenarios
        for seed in (0, 1)
    ]
    records = [
        {"group": "agent", "arm": arm, "scenario": scenario, "seed": 100}
        | {f"auc_{curve}{part}": value for curve in ("pr", "roc") for part in ("", "_unknown")}
        for arm, value in (("better", 0.8), ("worse", 0.3))
        for scenario in scenarios
    ]
    records += [
        {"group": "5 labels", "arm": arm, "scenario": scenario, "seed": 100}
        | {f"auc_{curve}{part}": value for curve in ("pr", "roc") for part in ("", "_unknown")}
        for arm, value in (("DPLANEnsemble", 0.5), ("IForest", 0.55), ("DPLAN", 0.2))
        for scenario in scenarios
    ]
    lines = page(Results(cells), records).splitlines()
    # Four data sets are too few for a test to tell anything.
    assert any(line.startswith("| DPLAN | .650 / .650 |") and "0.1250 / 0.1250" in line for line in lines)
    assert "| IForest | .550 / .550 |" in "\n".join(lines)
    assert "for UNSW *better*, which gives .800 / .800 there" in "\n".join(lines)


@pytest.mark.parametrize("page", ["README.md", "docs/which-detector.md"])
def test_tables_of_detectors_are_what_was_measured(page):
    from experiments.ensemble.page import FAMILIES, Runs, pair
    from experiments.results import Results

    root = Path(__file__).parents[2]
    runs = Runs(Results.read(root / "experiments/results/paper"))
    lines = (root / page).read_text(encoding="utf-8").splitlines()
    for method in runs.methods:
        cells = [
            [runs.of_family(method, area, family) for area in ("auc_pr", "auc_roc")] for family in FAMILIES
        ]
        for suffix in ("", "_unknown"):
            cells.append([runs.means(method, f"{area}{suffix}").mean() for area in ("auc_pr", "auc_roc")])
        told = {"DPLANEnsemble": "**DPLANEnsemble**", "DPLAN": "DPLAN, as published"}.get(method, method)
        assert f"| {told} | {' | '.join(pair(*cell) for cell in cells)} |" in lines


def test_wrong_labels_are_what_they_say():
    from dplan.datasets import scenario
    from experiments.ensemble.agents import wrong_labels

    task = scenario("covertype-mini/cottonwood-v1")
    n_labelled, n_unlabelled = (task.y > 0).sum(), (task.y == 0).sum()
    X, y = wrong_labels(task, 0, 0.3)
    n_wrong = round(0.3 * n_labelled)
    assert ((y > 0).sum(), (y == 0).sum()) == (n_labelled, n_unlabelled - n_wrong)
    known = {row.tobytes() for row in task.X[task.y > 0]}
    assert sum(row.tobytes() in known for row in X[y > 0]) == n_labelled - n_wrong


def test_the_page_is_what_the_journals_give():
    from experiments.ensemble import agents, members
    from experiments.ensemble.measuring import RESULTS, measured
    from experiments.ensemble.page import few_labels, page
    from experiments.results import Results

    results = Results.read(RESULTS / "paper")
    labels = few_labels(results, Results.read(RESULTS / "unknown"))
    written = page(results, [*measured(agents.RECORDS), *labels], list(members.lines()))
    assert written == (Path(__file__).parents[2] / "docs" / "ensemble-results.md").read_text(encoding="utf-8")


def test_a_study_goes_on_where_it_stopped(tmp_path):
    from experiments.ensemble.measuring import measure, measured

    asked = []

    def function(place):
        asked.append(place["seed"])
        return {"one": {"auc_pr": 0.5}, "other": {"auc_pr": 0.25}}

    measure(tmp_path, [{"seed": 1}, {"seed": 2}], function, jobs=1)
    measure(tmp_path, [{"seed": 1}, {"seed": 2}, {"seed": 3}], function, jobs=1)
    assert asked == [1, 2, 3]
    assert measured(tmp_path)[:2] == [
        {"seed": 1, "arm": "one", "auc_pr": 0.5},
        {"seed": 1, "arm": "other", "auc_pr": 0.25},
    ]


def test_what_a_sample_costs_is_what_was_measured():
    from experiments.ensemble import sampling

    page = (Path(__file__).parents[2] / "docs" / "score-files.md").read_text(encoding="utf-8")
    assert "\n".join(sampling.lines()) in page
    assert sampling.SAMPLE_ROWS in sampling.SIZES


def test_simulated_reviews_are_what_was_measured():
    from experiments.results import Results

    root = Path(__file__).parents[2]
    cells = [
        cell
        for cell in Results.read(root / "experiments/results/discovery").select("discovery")
        if cell["x"] == 10
    ]

    def found(method, place, n):
        """Return the mean over tables of the mean over seeds."""
        own = [
            (cell["dataset"], sum(find <= n for find in cell["finds"]))
            for cell in cells
            if cell["method"] == method
            and (cell["scenario"].split("/")[0] == "discovery") == (place == "tables")
        ]
        tables = {name for name, _ in own}
        return sum(
            sum(counts) / len(counts)
            for counts in ([count for name, count in own if name == table] for table in tables)
        ) / len(tables)

    lines = (root / "docs" / "verdicts.md").read_text(encoding="utf-8").splitlines()
    for method, told in {
        "DPLANEnsemble": "`DPLANEnsemble`",
        "AADForest": "AADForest of coniferest",
        "PineForest": "PineForest of coniferest",
        "IForest": "isolation forest, no feedback",
    }.items():
        for place in ("tables", "data sets"):
            numbers = " | ".join(f"{found(method, place, n):.1f}" for n in (20, 50, 100, 300))
            assert f"| {told} | {numbers} |" in lines, (method, place, numbers)
    more = found("DPLANEnsemble", "tables", 100) / found("AADForest", "tables", 100) - 1
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert (
        f"{found('DPLANEnsemble', 'tables', 100):.1f} anomalies on average, {100 * more:.0f} % more" in readme
    )
