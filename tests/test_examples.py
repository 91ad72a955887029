"""The examples, run for real."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_stable_baselines_learns_in_the_environment(monkeypatch):
    pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    import stable_baselines

    rng = np.random.default_rng(0)
    X = rng.random((600, 4)).astype(np.float32)
    X[:80, 0] += 2
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    y = np.repeat([1, 0], [40, 560])
    model = stable_baselines.train(X, y, n_steps=12_000)
    scores = stable_baselines.anomaly_score(model, X)
    assert scores[40:80].mean() > scores[80:].mean()  # anomalies that were not labelled


@pytest.mark.parametrize("name", ["plot_02_messy_bank", "plot_03_why", "plot_11_drift"])
def test_a_page_of_the_gallery_runs(name, tmp_path):
    """Three of them, with different parts of the package; `make docs` runs all."""
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
