"""The main job, run as people run it."""

import subprocess
import sys


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
    ):
        assert expected in run.stdout
    assert (tmp_path / "out" / "dplan-demo.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_install_command_is_named(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None; "
        "from pathlib import Path; from dplan.demo import run; run(Path('out'))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert "pip install 'dplan-ad[plot]'" in run.stdout
    assert not (tmp_path / "out").exists()
