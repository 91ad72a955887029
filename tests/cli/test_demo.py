"""The main job, run as people run it."""

import subprocess
import sys

from dplan import DPLAN
from dplan.cli import _demo as demo
from dplan.datasets import scenario


def test_the_demo_prints_its_tables_and_draws_its_plot(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "dplan", "demo", "-o", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for expected in (
        "AUC-PR",
        "known: cottonwood",
        "unknown: douglas-fir",
        "ten most anomalous",
        "60 labelled",
        "DPLANEnsemble",
    ):
        assert expected in run.stdout
    assert (tmp_path / "out" / "dplan-demo.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_install_command_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    task = scenario(demo.TASK)
    detector = DPLAN(n_steps=200, warmup_steps=100).fit(task.X[:500], task.y[:500])
    said = demo._draw(tmp_path / "plot.png", task, detector, detector.anomaly_score(task.X_test))
    assert "pip install matplotlib" in said
    assert not (tmp_path / "plot.png").exists()
