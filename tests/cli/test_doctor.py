"""``dplan doctor``."""

import os
import subprocess
import sys

from click.testing import CliRunner

from dplan.cli import doctor
from dplan.cli.main import main


def test_a_sound_installation_is_in_order():
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0, result.output
    for part in (
        "Python ",
        "numba ",
        "polars ",
        "Processor cores: ",
        "BLAS: ",
        "Kernel cache: ",
        "No problems found",
    ):
        assert part in result.output


def test_a_problem_is_named_with_what_to_do_and_the_exit_code_tells(monkeypatch):
    monkeypatch.setattr(
        "importlib.metadata.requires", lambda _: ["numpy>=99", "no-such-package>=1", "scipy>=1"]
    )
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert "numpy>=99 is needed" in result.output
    assert "no-such-package is not installed. Run  pip install 'no-such-package>=1'" in result.output
    assert "scipy" not in result.output.split("Problem", 1)[1]
    assert "No problems found" not in result.output


def test_a_warm_up_leaves_nothing_of_a_detector_to_compile(tmp_path):
    """Warm up the quickest detector in one process; another one then compiles nothing."""
    program = (
        "import numba.core.event as event\n"
        "from dplan.cli.doctor import _use\n"
        "from dplan.detectors._registry import list_detectors\n"
        "with event.install_recorder('numba:compile') as record:\n"
        "    _use(next(entry for entry in list_detectors() if entry.name == 'LogisticBaseline'))\n"
        "print(len(record.buffer))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    counts = [
        int(
            subprocess.run(
                [sys.executable, "-c", program], env=environment, check=True, capture_output=True
            ).stdout
        )
        for _ in range(2)
    ]
    assert counts[0] > 0
    assert counts[1] == 0


def test_every_detector_is_warmed_up(monkeypatch):
    used = []
    monkeypatch.setattr(doctor, "_use", lambda entry: used.append(entry.name))
    result = CliRunner().invoke(main, ["doctor", "--warm-up"])
    assert result.exit_code == 0
    assert "DPLANEnsemble" in used
    assert all(f"Warmed up {name} in" in result.output for name in used)
