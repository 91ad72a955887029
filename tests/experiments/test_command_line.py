"""``python -m experiments`` as people type it."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from experiments.__main__ import main
from experiments.journal import read_journal
from experiments.suites import SUITES
from tests.experiments.small_cells import ENVIRONMENT, figures


@pytest.fixture
def experiments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    return lambda *arguments: runner.invoke(main, arguments)


SMALL = ("run", "table2", "--dataset", "covertype-mini", "-m", "LogisticBaseline", "--runs", "1")


def test_run_and_report(experiments, tmp_path):
    ran = experiments(*SMALL, "-o", "out", "--protocol", "fixed", "--protocol", "resampled")
    assert ran.exit_code == 0, ran.output
    assert "4 cells done, 0 failed, 0 already finished" in ran.output
    assert "python -m experiments report out" in ran.output
    assert {cell["protocol"] for cell in figures(tmp_path / "out").values()} == {"fixed", "resampled"}
    again = experiments(*SMALL, "-o", "out")
    assert "0 cells done, 0 failed, 2 already finished" in again.output
    reported = experiments("report", "out")
    assert reported.exit_code == 0, reported.output
    assert "LogisticBaseline" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_review_ends_after_the_verdicts_asked_for(experiments, tmp_path):
    options = ("--dataset", "covertype-mini", "-m", "LogisticBaseline", "--runs", "1", "--per-refit", "10")
    ran = experiments("run", "discovery", *options, "--verdicts", "30", "-o", "out")
    assert ran.exit_code == 0, ran.output
    cells = [record for record in read_journal(tmp_path / "out") if record["kind"] == "cell"]
    assert {cell["verdicts"] for cell in cells} == {30}
    assert {tuple(cell["found"]) for cell in cells} == {("20",)}
    other = experiments("run", "discovery", *options, "--verdicts", "50", "-o", "out")
    assert other.exit_code == 1
    assert 'were {"n_verdicts": 30}, now {"n_verdicts": 50}' in other.output


def test_the_journal_says_how_it_was_made(tmp_path):
    home = ["--data-home", str(tmp_path / "own data")]
    command = [sys.executable, "-m", "experiments", *SMALL, *home, "-o", "out"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env=ENVIRONMENT)
    run = read_journal(tmp_path / "out")[0]
    assert run["command"] == f"python -m experiments {' '.join(SMALL)} --data-home 'own data' -o out"
    assert run["partial"]["covertype-mini"][0] == "class normal: 20,000 of 283,301 rows"
    assert {"numpy", "dplan"} <= set(run["versions"])
    assert str(tmp_path) not in json.dumps(run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run",), "name a suite, use `all`, or add --quick"),
        (("run", "table9"), "unknown suite 'table9'; choose from table2"),
        (("run", "table2", "-m", "SVM"), "unknown method 'SVM'; choose from DPLAN"),
        (("run", "table2", "--data-home", "nowhere"), "data set 'unsw_nb15' is not in nowhere"),
        (("report", "nowhere"), "cannot read the journal nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(experiments, arguments, message):
    result = experiments(*arguments)
    assert result.exit_code != 0
    assert message in result.output
    assert "Traceback" not in result.output


def test_failed_cells_make_the_command_fail(experiments, tmp_path, monkeypatch):
    """A damaged detector: its own check refuses a parameter that a record cannot have."""
    from dplan.detectors.baselines import LogisticBaseline

    def refuse(self):
        raise ValueError("refused for the test")

    monkeypatch.setattr(LogisticBaseline, "_check_parameters", refuse)
    result = experiments(*SMALL, "-o", "out")
    assert result.exit_code == 1
    assert "2 cells failed" in result.output
    assert "refused for the test" in result.output
    experiments("report", "out")
    assert "refused for the test" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    monkeypatch.undo()


def test_help_shows_every_suite_and_an_example(experiments):
    text = experiments("run", "--help").output
    for name, suite in SUITES.items():
        assert re.search(rf"^  {name} +{re.escape(suite.title)}$", text, re.MULTILINE)
    assert "python -m experiments run --quick" in text


def test_help_is_quick():
    code = (
        "import sys; from experiments.__main__ import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: print([m for m in ('sklearn', 'numba', 'polars', 'rich') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert run.stdout.splitlines()[-1] == "[]"
