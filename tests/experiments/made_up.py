"""A journal with every suite in it, made up, so that the report can be tested without training anything."""

import json
from dataclasses import replace

import numpy as np

from dplan.datasets.registry import CATALOG
from experiments.cells import Cell
from experiments.suites import PAPER_SUITES, Plan, cells_of

ATTACK = "</pre><script>console.error('escaped?')</script><b>&amp;"


def outcome(cell: Cell, rng):
    base = 0.4 + 0.05 * (len(cell.method) % 5) + 0.01 * (cell.x or 0) ** 0.5
    value = lambda: float(np.clip(base + rng.normal(scale=0.03), 0, 1))  # noqa: E731
    classes = CATALOG[cell.scenario.split("/")[0]].anomalies
    figures = {
        name + suffix: value() for name in ("auc_pr", "auc_roc") for suffix in ("", "_known", "_unknown")
    }
    return {
        "status": "done",
        **figures,
        "classes": {name: [value(), value()] for name in classes},
        "known": [cell.dataset],
        "precision_at": {"50": value(), "100": value(), "500": value()},
        "fit_seconds": 1.0 + rng.random(),
        "score_seconds": rng.random(),
        "seconds": 2.0,
        "notes": ["12 synthetic anomalies"] if cell.suite == "pollution" else [],
        **(
            {
                "curve": [
                    {"steps": n, "auc_pr": value(), "auc_roc": value(), "reward": 900.0 + n / 1000}
                    for n in range(10_000, 100_001, 10_000)
                ]
            }
            if cell.suite == "steps"
            else {}
        ),
    }


def write_journal(folder, suites=PAPER_SUITES, runs=2):
    """Write the journal and return its cells."""
    rng = np.random.default_rng(0)
    cells = cells_of(Plan(suites, runs=runs, protocols=("fixed", "resampled")))
    if "table2" in suites:  # a method that only one protocol has
        cells += cells_of(Plan(("table2",), methods=("LogisticBaseline",), runs=runs))
    records = [
        {
            "kind": "run",
            "command": f"python -m experiments run all {ATTACK}",
            "time": "2024-01-01T00:00:00+00:00",
            "versions": {"dplan": "0", "numpy": ATTACK},
            "data": {},
            "partial": {"har": ["265 of 561 features"], "annthyroid": []},
            "machine": {"processor": ATTACK},
            "workers": 2,
        },
        *({"kind": "cell", **cell.record(), **outcome(cell, rng)} for cell in cells),
    ]
    failure = {"status": "failed", "error": ATTACK, "traceback": ATTACK, "seconds": 0.0}
    records.append({"kind": "cell", **replace(cells[0], seed=99).record(), **failure})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "journal.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return [record for record in records if record["kind"] == "cell"]
