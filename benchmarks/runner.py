"""How much of the workers' time the experiments' runner takes for itself: drawing, preparing, measuring, recording."""

import tempfile

from benchmarks.bars import Bar, show
from experiments.runner import run as run_plan
from experiments.suites import Plan

JOBS = 2


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    plan = Plan(("table2",), runs=3, datasets=("covertype-mini",))
    with tempfile.TemporaryDirectory() as folder:
        # Both workers import and load their kernels; they stay for the next plan.
        run_plan(plan, f"{folder}/warm-up", jobs=JOBS)
        summary = run_plan(plan, f"{folder}/measured", jobs=JOBS)
    detail = f"{summary.done} cells in {summary.seconds:.0f} s, {JOBS} workers"
    return show(
        "Runner", [Bar("overhead of the runner", 100 * summary.overhead, detail, at_most=10, unit=" %")]
    )
