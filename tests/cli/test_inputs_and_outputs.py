"""No command replaces what it reads: every input of every command against every output, side outputs included."""

import itertools
import os
import re
import shutil
from typing import NamedTuple

import click
import pytest

from dplan.cli import _options
from dplan.cli.main import main
from dplan.persistence.claim import claimed
from dplan.review.log import VerdictLog
from tests.cli.test_tables import run
from tests.tables.payments import payments


class Files(NamedTuple):
    """The command line of a command, what it reads, what it writes, and what it writes beside that without being told.

    Every file has a name of its own, which the command line has in braces.
    """

    line: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    beside: tuple[str, ...] = ()


ERRORS = ("out.errors.csv", "out.errors.csv.previous")  # rows that were left out, now and by the run before
COMMANDS = {
    "fit": Files(
        "fit {table} --columns {columns} --label verdict --anomaly fraud --detector iforest --no-estimate "
        "--on-error skip --overwrite -o {out}",
        ("table", "columns"),
        ("out",),
        ERRORS,
    ),
    "score": Files(
        "score {table} -m {model} --kinds {kinds} --on-error skip --overwrite -o {out} --review {queue}",
        ("table", "model", "kinds"),
        ("out", "queue"),
        (*ERRORS, ".out.csv.parts/t.csv", "queue.errors.csv", "queue.errors.csv.previous"),
    ),
    "update": Files(
        "update {model} {table} --anomaly fraud --on-error skip --overwrite -o {out}",
        ("table", "model"),
        ("out",),
        ERRORS,
    ),
    "report": Files(
        "report {model} {table} --kinds {kinds} --on-error skip --overwrite -o {out}",
        ("table", "model", "kinds"),
        ("out",),
        ERRORS,
    ),
    "update in place": Files(
        "update {model} {table} --anomaly fraud --on-error skip --overwrite",
        ("table", "model"),
        (),
        ("model.errors.csv", "model.errors.csv.previous", "model.csv.previous"),
    ),
    "kinds": Files(
        "kinds {model} {table} --budget 40 --on-error skip --overwrite -o {out}",
        ("table", "model"),
        ("out",),
        ("out.errors.csv",),
    ),
    "export": Files("export {model} --overwrite --onnx {out}", ("model",), ("out",)),
    "review": Files(
        "review {model} {table} --simulate verdict --verdicts 2 --log {out} --model-out {new} --labels-out {labels}",
        ("table", "model"),
        ("out", "new", "labels"),
    ),
    "labels export": Files("labels export {log} {table} --overwrite -o {out}", ("log", "table"), ("out",)),
    "labels merge": Files("labels merge {log} {other} -o {out}", ("log", "other"), ("out",)),
}


def clashes():
    """Return every input with every file that the command writes."""
    for name, (_, reads, writes, beside) in COMMANDS.items():
        for read, written in itertools.product(reads, (*(f"{out}.csv" for out in writes), *beside)):
            if (name, read, written) == ("update", "model", "out.csv"):
                continue  # it may replace its model
            if read == "table" and written.endswith(".previous"):
                continue  # no table has such a name
            if (name, read) == ("update in place", "model"):
                continue  # what is written has its name from the model
            yield name, read, written


def outputs_that_clash():
    for name, (_, _, writes, beside) in COMMANDS.items():
        for one, other in itertools.permutations(writes, 2):
            for taken in (f"{other}.csv", *(path for path in beside if path.startswith(f"{other}."))):
                if not taken.endswith(".previous"):  # no output has such a name
                    yield name, one, taken


def every_command(group=main, name=""):
    context = click.Context(group)
    for own in group.list_commands(context):
        command = group.get_command(context, own)
        if isinstance(command, click.Group):
            yield from every_command(command, f"{own} ")
        else:
            yield f"{name}{own}", command


def test_every_command_that_writes_a_named_file_is_in_the_table():
    writing = {
        name
        for name, command in every_command()
        if any(p.type is _options.OUTPUT or (name, p.name) == ("score", "output") for p in command.params)
    }
    assert writing == set(COMMANDS) - {"update in place"}
    into_folders = {
        name for name, command in every_command() if any(p.name == "output" for p in command.params)
    }
    assert into_folders - writing == {"example", "demo"}  # demo writes a picture with a name of its own


@pytest.fixture
def files(tmp_path, model_path):
    """Return every file that a command of the table may name; those that are read exist."""
    payments(300).write_csv(tmp_path / "table.csv")
    (tmp_path / "columns.csv").write_text('[items]\nkind = "category"\n')
    shutil.copy(model_path, tmp_path / "model.csv")
    (tmp_path / "kinds.csv").write_text('{"format": "dplan-rules", "version": 1, "columns": {}, "kinds": []}')
    for name in ("log", "other"):
        with VerdictLog(tmp_path / f"{name}.csv") as log:
            log.append({"kind": "undo", "of": [], "who": "", "window": ""})
    names = {name for command in COMMANDS.values() for name in (*command.reads, *command.writes)}
    return {name: tmp_path / f"{name}.csv" for name in names}


def run_with(name, files):
    return run(*(word.format(**files) for word in COMMANDS[name].line.split()))


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(("name", "read", "written"), list(clashes()))
def test_no_output_is_an_input(name, read, written, files, tmp_path):
    clash = tmp_path / written
    clash.parent.mkdir(exist_ok=True)
    files[read] = files[read].rename(clash)
    before = content(tmp_path)
    done = run_with(name, files)
    assert done.exit_code == 1, done.output
    assert "is also an input" in done.stderr or "is inside the output folder" in done.stderr, done.stderr
    assert content(tmp_path) == before


@pytest.mark.parametrize(("name", "one", "taken"), list(outputs_that_clash()))
def test_no_output_is_two_things(name, one, taken, files, tmp_path):
    files[one] = tmp_path / taken
    before = content(tmp_path)
    done = run_with(name, files)
    assert done.exit_code == 1, done.output
    assert "cannot be two outputs" in done.stderr, done.stderr
    assert content(tmp_path) == before


def outputs_that_exist():
    for name, (line, _, writes, beside) in COMMANDS.items():
        yield from ((name, line.replace("--overwrite", ""), f"{out}.csv") for out in writes)
        yield from ((name, line, side) for side in beside if side.endswith(".errors.csv"))


@pytest.mark.parametrize(("name", "line", "written"), list(outputs_that_exist()))
def test_what_nobody_asked_to_replace_is_not_replaced(name, line, written, files, tmp_path):
    """Not even with --overwrite, if it has the name of what is written beside the output."""
    (tmp_path / written).write_text("mine\n")
    before = content(tmp_path)
    done = run(*(word.format(**files) for word in line.split()))
    assert done.exit_code == 1, done.output
    assert written in done.stderr
    assert content(tmp_path) == before


def test_example_tables_replace_nothing_unless_asked_to(tmp_path):
    (tmp_path / "forest-new.csv").write_text("mine\n")
    done = run("example", "-o", tmp_path)
    assert done.exit_code == 1
    assert "forest-new.csv already exists" in done.stderr
    assert content(tmp_path) == {tmp_path / "forest-new.csv": b"mine\n"}
    assert run("example", "-o", tmp_path, "--overwrite").exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["forest-new.csv", "forest-train.csv"]


@pytest.mark.parametrize("name", ["fit", "score", "update", "report"])
def test_a_file_of_errors_is_kept_when_the_next_run_writes_another_or_none(name, files, tmp_path):
    good, errors, kept = (
        files["table"].read_text(),
        tmp_path / "out.errors.csv",
        tmp_path / "out.errors.csv.previous",
    )
    lines = good.splitlines(keepends=True)
    lines[4] = re.sub(r"^(p00003),[^,]*,", r"\1,abc,", lines[4])
    # So that abc is a mistake, and the column still one of numbers.
    files["columns"].write_text('[amount]\nkind = "number"\n')
    files["table"].write_text("".join(lines))
    assert run_with(name, files).exit_code == 0
    errors.write_text(corrected := errors.read_text().replace("abc", "17.5"))
    assert "17.5" in corrected
    done = run_with(name, files)
    assert done.exit_code == 0, done.stderr
    assert "abc" in errors.read_text()
    assert kept.read_text() == corrected
    files["table"].write_text(good)
    assert run_with(name, files).exit_code == 0
    assert not errors.exists()
    assert "abc" in kept.read_text()


@pytest.mark.parametrize("name", ["fit", "score", "update", "report"])
def test_two_runs_do_not_share_a_file_of_errors(name, files, tmp_path):
    with claimed(tmp_path / "out.errors.csv"):
        done = run_with(name, files)
    assert done.exit_code == 1
    assert "another run is writing to" in done.stderr
    assert not files["out"].exists()


def test_a_model_that_another_run_updates_is_not_updated(files, tmp_path):
    before = files["model"].read_bytes()
    with claimed(files["model"]):
        runs = run_with("update in place", files), run("update", "--undo", files["model"])
    for done in runs:
        assert done.exit_code == 1
        assert f"another run is writing to {files['model']}: process {os.getpid()} on " in done.stderr
    assert files["model"].read_bytes() == before


def test_the_working_folder_is_our_own(files, tmp_path):
    line = "score {table} -m {model} --overwrite -o {out}".format(**files).split()
    parts, private = tmp_path / ".out.csv.parts", tmp_path / "private"
    private.mkdir()
    (private / ".profile").write_text("mine")
    parts.symlink_to(private)
    done = run(*line)
    assert done.exit_code == 1
    assert f"{parts} is a symbolic link" in done.stderr
    parts.unlink()
    parts.mkdir()
    (parts / ".notes.txt").write_text("mine")
    done = run(*line)
    assert done.exit_code == 1
    assert f"{parts} contains .notes.txt, which was not written by dplan score" in done.stderr
    assert (private / ".profile").read_text() == (parts / ".notes.txt").read_text() == "mine"
    (parts / ".notes.txt").rename(
        parts / ".part-0a.0123456789ab.tmp.parquet"
    )  # left by a run that was killed
    assert run(*line).exit_code == 0
    assert os.listdir(private) == [".profile"]
    assert not parts.exists()
