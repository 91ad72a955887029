"""The chapter about the sampler: averages and correlations over the paper's data sets."""

import numpy as np
import pytest

from experiments.pages import as_markdown
from experiments.paper import published
from experiments.paper.reproduction import reproduction
from experiments.results import Results
from experiments.statistics import correlations


def cell(suite, method, dataset, value, x=None, **more):
    areas = {"auc_pr": value, "auc_roc": value}
    place = {
        "suite": suite,
        "method": method,
        "dataset": dataset,
        "x": x,
        "scenario": f"made/{dataset}-v1",
        "seed": 0,
    }
    return {"kind": "cell", "status": "done", "protocol": "resampled", **place, **areas, **more}


def row(text, first):
    return next(
        [entry.strip() for entry in line.strip("|").split("|")]
        for line in text.replace("\\|", "¦").splitlines()
        if line.startswith(f"| {first} |")
    )


def test_arms_are_compared_with_the_paper_data_set_by_data_set():
    cells = []
    rng = np.random.default_rng(0)
    for name in published.data_sets():
        theirs = {m: published.result("table3", "auc_pr", name, m).mean for m in ("DPLAN", "ERew")}
        cells.append(cell("ablation", "Uniform", name, theirs["DPLAN"] + 0.01))
        cells.append(cell("ablation", "UniformERew", name, 1.2 - theirs["ERew"]))
        cells.append(cell("ablation", "DPLAN", name, float(rng.random())))
        curve = [{"steps": 20_000, "auc_pr": 0.1, "auc_roc": 0.1, "reward": 1.0}]
        curve.append({"steps": 100_000, "auc_pr": theirs["DPLAN"], "auc_roc": 0.3, "reward": 1.0})
        cells.append(cell("steps", "Uniform", name, 0.3, curve=curve))
        if name != "dos":
            cells.append(cell("subsample", "DPLAN", name, theirs["DPLAN"] ** 2, x=10))
    text = as_markdown("Report", reproduction(Results(cells)))
    paper = [published.result("table3", "auc_pr", name, "DPLAN").mean for name in published.data_sets()]
    mean = f"{np.mean(paper):.3f}"
    assert row(text, "Uniform")[1:] == [
        f"{np.mean(paper) + 0.01:.3f}", f"{mean} (DPLAN)", "+0.010", "0.010", "1.00", "1.00", "13",
    ]  # fmt: skip
    assert row(text, "UniformERew")[5:7] == ["−1.00", "−1.00"]
    assert row(text, "DPLAN, ¦S¦ = 10")[6:] == ["1.00", "12"]
    assert row(text, "Uniform, 20,000 steps")[5:7] == ["–", "–"]  # no spread
    assert row(text, "Uniform, 100,000 steps")[3:6] == ["+0.000", "0.000", "1.00"]
    assert "ERew, paper" in text


def test_the_chapter_needs_its_arms():
    assert not list(reproduction(Results([cell("table2", "DPLAN", "dos", 0.5)])))


def test_correlations():
    rng = np.random.default_rng(0)
    first, second = rng.random(13), rng.random(13)
    pearson, spearman = correlations(first, second)
    assert pearson == pytest.approx(np.corrcoef(first, second)[0, 1])
    from scipy.stats import spearmanr

    assert spearman == pytest.approx(spearmanr(first, second).statistic)
