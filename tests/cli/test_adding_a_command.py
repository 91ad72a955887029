"""A command that the package has never seen is one file and one registry line."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

import dplan.cli
from dplan.cli import main as command_line

FILE = '''
"""``dplan longest``: print the longest line of a file."""

from pathlib import Path

import click

from dplan.cli._options import OUTPUT
from dplan.cli._terminal import echo, examples, say


@click.command(short_help="Print the longest line.", epilog=examples("dplan longest notes.txt"))
@click.argument("file", type=Path)
@click.option("-o", "--output", type=OUTPUT, help="File to write.")
def longest(file, output):
    """Print the longest line of FILE."""
    line = max(file.read_text(encoding="utf-8").splitlines(), key=len)
    if output is None:
        echo(line)
    else:
        output.write_text(line, encoding="utf-8")
        say(f"Wrote {output}.")
'''


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Add the file and the line; return a function that runs the command line."""
    (tmp_path / "longest.py").write_text(FILE, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("short\nmuch longer\x1b[0m\n", encoding="utf-8")
    monkeypatch.setattr(dplan.cli, "__path__", [*dplan.cli.__path__, str(tmp_path)])
    monkeypatch.setattr(command_line, "COMMANDS", [*command_line.COMMANDS, "longest"])
    monkeypatch.chdir(tmp_path)
    yield lambda *arguments: CliRunner().invoke(command_line.main, arguments)
    command_line.main.commands.pop("longest", None)
    sys.modules.pop("dplan.cli.longest", None)


def test_it_is_listed_with_its_help(run):
    assert "Print the longest line." in run("--help").output
    text = run("longest", "--help").output
    assert "dplan longest notes.txt" in text
    assert all(option in text for option in ("--quiet", "--verbose", "--debug"))  # which it did not ask for


def test_it_runs_as_the_others_do(run, tmp_path):
    assert run("longest", "notes.txt").output == "much longer\\x1b[0m\n"
    assert run("longest", "notes.txt", "-o", "found.txt").output == "Wrote found.txt.\n"
    assert run("longest", "notes.txt", "-o", "found.txt", "--quiet").output == ""
    failed = run("longest", "missing.txt")
    assert (failed.exit_code, failed.output) == (1, "Error: file not found: missing.txt\n")


def test_without_the_line_it_is_unknown(run, monkeypatch):
    monkeypatch.setattr(command_line, "COMMANDS", command_line.COMMANDS[:-1])
    assert run("longest", "notes.txt").exit_code == 2
    assert "longest" not in run("--help").output


def test_a_command_does_not_import_the_others():
    code = (
        "import sys\n"
        "from dplan.cli.main import COMMANDS, main\n"
        "main(['detectors'], standalone_mode=False)\n"
        "print(*(name for name in COMMANDS if f'dplan.cli.{name}' in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "detectors"
