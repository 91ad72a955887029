"""The commands as people run them: exit codes, one-line errors, pipes, Ctrl-C."""

import gzip
import io
import os
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from dplan import DPLAN, DevNet, DPLANEnsemble, LogisticBaseline
from dplan._kernels.compiling import Compiling
from dplan.cli import _terminal
from dplan.cli.main import main
from dplan.persistence.claim import claimed
from dplan.tables import TableModel
from tests.permissions import run_bound
from tests.serving.process import until
from tests.tables.payments import payments

FAST = ["--set", "n_steps=2000", "--set", "warmup_steps=500", "--set", "n_trees=10"]
ONE_OF_EACH = ["--set", "n_agents=1"]


def run(*arguments, stdin=None):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


@pytest.fixture
def csv(tmp_path):
    payments().write_csv(tmp_path / "payments.csv")
    return tmp_path / "payments.csv"


def fit(table, output, *more):
    return run(
        "fit",
        table,
        "--label",
        "verdict",
        "--anomaly",
        "fraud",
        "--id",
        "payment",
        "-o",
        output,
        *FAST,
        *ONE_OF_EACH,
        *more,
    )


def test_from_a_csv_to_a_ranked_list_with_reasons(csv, tmp_path):
    done = fit(csv, tmp_path / "m.dplan")
    assert done.exit_code == 0, done.output
    for said in (
        "3,000 rows",
        "2 number, 1 date, 1 flag, 1 text",
        "30 fraud",
        "held out",
        "Seconds",
        "Wrote",
    ):
        assert said in done.output
    done = run("score", csv, "-m", tmp_path / "m.dplan", "-o", tmp_path / "top.csv", "--top", 10, "--explain")
    assert done.exit_code == 0, done.output
    assert done.stdout == ""  # what happened is told on standard error
    top = pl.read_csv(tmp_path / "top.csv")
    assert top.columns == ["row", "payment", "score", "percentile", "alert", "reasons"]
    frauds = payments().filter(pl.col("country") == "XX")["payment"]
    assert top["payment"].is_in(frauds.implode()).mean() >= 0.8
    assert (top["reasons"] != "").all()
    done = run("inspect", tmp_path / "m.dplan")
    for said in (
        "DPLANEnsemble",
        "randomised trees 0.",
        "nearest neighbours 0.",
        "isolation forest 0.0",
        "country: 4 levels: DE, FR, PL, XX",
        "n_steps=2000",
        "30 fraud",
        "Threshold",
    ):
        assert said in done.output


@pytest.mark.parametrize(
    "detector",
    [
        DPLAN(n_steps=900, episode_steps=400, warmup_steps=100),
        DPLANEnsemble(n_agents=2, n_steps=200, warmup_steps=100, n_rounds=2),
        DevNet(n_epochs=3, epoch_batches=2),
    ],
    ids=lambda detector: type(detector).__name__,
)
def test_the_bar_knows_how_many_rounds_a_training_has(detector):
    X = np.random.default_rng(0).normal(size=(200, 3))
    assert detector._expected_rounds() == len(detector.fit(X, np.arange(200) < 20).history_["seconds"])


def test_inspect_tells_the_ranges_of_a_plain_detector(tmp_path):
    X = np.column_stack([np.linspace(-3, 5, 50), np.full(50, 7.0)])
    LogisticBaseline(random_state=0).fit(X, np.arange(50) > 45).save(tmp_path / "m.dplan")
    done = run("inspect", tmp_path / "m.dplan")
    assert "  0: -3 to 5" in done.output
    assert "  1: 7 to 7" in done.output


@pytest.mark.parametrize("suffix", ["csv.gz", "parquet", "jsonl", "tsv"])
def test_other_kinds_of_tables_give_the_same_scores(suffix, csv, tmp_path):
    path, table = tmp_path / f"payments.{suffix}", payments()
    if suffix == "csv.gz":
        path.write_bytes(gzip.compress(csv.read_bytes()))
    elif suffix == "parquet":
        table.write_parquet(path)
    elif suffix == "jsonl":
        table.write_ndjson(path)
    else:
        table.write_csv(path, separator="\t")
    assert fit(csv, tmp_path / "a.dplan", "--no-estimate").exit_code == 0
    done = fit(path, tmp_path / "b.dplan", "--no-estimate")
    assert done.exit_code == 0, done.output
    for model, source in (("a", csv), ("b", path)):
        done = run("score", source, "-m", tmp_path / f"{model}.dplan", "-o", tmp_path / f"{model}.parquet")
        assert done.exit_code == 0, done.output
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_every_detector_can_be_fitted_from_the_command_line(csv, tmp_path):
    from dplan import list_detectors

    for entry in list_detectors():
        few = {
            "DPLAN": FAST,
            "DPLANEnsemble": [*FAST, *ONE_OF_EACH],
            "BoostedBaseline": ["--set", "n_estimators=5"],
            "IForest": [],
            "LogisticBaseline": [],
        }.get(entry.name, ["--set", "n_epochs=2"])
        done = run(
            "fit", csv, "--label", "verdict", "--anomaly", "fraud", "-o", tmp_path / "m.dplan",
            "--detector", entry.name.lower(), "--drop", "payment", "--overwrite", *few,
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        assert type(TableModel.load(tmp_path / "m.dplan").detector).__name__ == entry.name


def test_pipes(csv, model_path):
    done = run("score", "-", "-m", model_path, "-o", "-", "--top", 5, stdin=csv.read_bytes())
    assert done.exit_code == 0, done.output
    assert pl.read_csv(io.StringIO(done.stdout)).height == 5
    assert "\x1b" not in done.output  # no colours in a pipe
    lines = payments()[:20].write_ndjson().encode()
    done = run("score", "-", "-m", model_path, "-o", "-", "--format", "jsonl", stdin=lines)
    assert pl.read_ndjson(io.StringIO(done.stdout)).height == 20


WRONG = {
    "no such label": (["--label", "verdct"], 1, "did you mean 'verdict'"),
    "no such value": (["--label", "verdict", "--anomaly", "frauds"], 1, "did you mean 'fraud'"),
    "no such detector": (["--label", "verdict", "--detector", "magic"], 2, "unknown detector 'magic'"),
    "no such parameter": (["--label", "verdict", "--set", "spin=1"], 2, "write NAME=VALUE"),
    "senseless parameter": (
        ["--label", "verdict", "--anomaly", "fraud", "--set", "n_steps=-1"],
        1,
        "must be an integer >= 1",
    ),
    "no label": ([], 2, "Missing option '--label'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_fits_end_with_one_line(what, csv, tmp_path):
    more, code, message = WRONG[what]
    done = run("fit", csv, "-o", tmp_path / "m.dplan", *more)
    assert done.exit_code == code
    error = done.stderr.strip().splitlines()
    assert message in error[-1]
    assert error[-1].startswith("Error: ")
    assert code == 2 or len(error) <= 4  # with the stages before
    assert "Traceback" not in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["payments.csv"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{csv}", "-m", "{csv}", "-o", "{out}.csv"], 1, "not a dplan model file"),
        (["{csv}x", "-m", "{model}", "-o", "{out}.csv"], 2, "file not found:"),
        (["{csv}", "-m", "{model}", "-o", "{out}.xls"], 1, "unsupported file type"),
        (["{csv}", "-m", "{model}", "-o", "{out}.csv.gz"], 1, "compressed text output is not supported"),
        (["{csv}", "-m", "{model}", "-o", "{csv}"], 1, "is also an input"),
        (["{csv}", "-m", "{model}", "-o", "{model}"], 1, "unsupported file type"),
        (["{csv}", "-m", "{model}", "-o", "{folder}"], 1, "is a folder"),
        (["{csv}", "-m", "{model}", "-o", "{out}.csv", "--threshold", "nan"], 2, "finite number"),
        (
            ["{csv}", "-m", "{model}", "-o", "{out}.csv", "--keep", "\x1b[2Jx"],
            1,
            r"cannot keep column '\x1b[2Jx'",
        ),
        (["{csv}", "-m", "{model}", "-o", "{out}/no/folder.csv"], 1, "does not exist"),
        (
            ["{csv}", "-m", "{model}", "-o", "{out}.csv", "--budget", "1", "--threshold", "1"],
            2,
            "cannot be combined",
        ),
        (
            ["-", "-m", "{model}", "-o", "-", "--follow", "--budget", "3"],
            2,
            "cannot be combined with --budget",
        ),
        (["-", "-m", "{model}", "-o", "-", "--follow", "--jobs", "3"], 2, "cannot be combined with --jobs"),
        (["{csv}", "-m", "{model}", "--review", "{out}.csv", "--explain"], 2, "add -o FILE"),
        (
            ["{csv}", "-m", "{model}", "--review", "{out}.csv", "--jobs", "2"],
            2,
            "--jobs: only for the output",
        ),
        (
            ["{csv}", "-m", "{model}", "--review", "{out}.csv", "--budget", "9"],
            2,
            "how many rows to look at with",
        ),
        (["{csv}", "-m", "{model}", "-o", "{out}.csv", "--review-rows", "5"], 2, "only with --review"),
        (["{csv}", "-m", "{model}", "-o", "{out}.csv", "--format", "jsonl"], 2, "is for standard input"),
        (["{csv}", "-m", "{model}", "-o", "{out}.csv", "--sheet", "new"], 2, "--sheet is for Excel files"),
        (
            ["-", "-m", "{model}", "-o", "{out}.csv", "--query", "select 1"],
            2,
            "and standard input is not one",
        ),
        (
            ["{csv}", "-m", "{model}", "-o", "{out}.parquet", "--separator", ";"],
            2,
            "--separator: only for CSV",
        ),
        (["-", "-m", "{model}", "-o", "-", "--format", "parquet"], 2, "standard input"),
        (["{csv}", "-m", "{model}", "-o", "{out}.csv", "--separator", "::"], 2, "one character"),
        (["{csv}", "-m", "{model}", "-o", "{out}.csv", "--keep", "colour"], 1, "cannot keep column 'colour'"),
        (["{csv}", "-m", "{model}", "-o", "{out}.csv", "--top", "0"], 2, "--top"),
    ],
)
def test_wrong_scorings_end_with_one_line(arguments, code, message, csv, model_path, tmp_path):
    filled = [
        text.format(csv=csv, model=model_path, out=tmp_path / "out", folder=tmp_path) for text in arguments
    ]
    done = run("score", *filled, stdin=b"")
    assert done.exit_code == code, done.output
    assert message in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["payments.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "{model}", "--sheet", "new", "--column", "a=id"], "--column, --sheet: only for tables"),
        (["inspect", "{model}", "--anomaly", "1", "--no-header"], "--anomaly, --no-header: only for tables"),
        (["report", "{model}", "{csv}", "-o", "r.html", "--format", "jsonl"], "is for standard input"),
        (["report", "{model}", "{csv}", "-o", "r.html", "--anomaly", "1"], "--anomaly needs --label"),
        (
            ["review", "{model}", "{csv}", "--simulate", "fraud", "--port", "1"],
            "cannot be combined with --port",
        ),
        (["review", "{model}", "{csv}", "--verdicts", "5"], "--verdicts: only with --simulate"),
    ],
)
def test_an_option_that_a_command_cannot_keep_is_refused(arguments, message, csv, model_path):
    done = run(*(text.format(csv=csv, model=model_path) for text in arguments))
    assert done.exit_code in (1, 2), done.output
    assert message in done.stderr.strip().splitlines()[-1]


def test_debug_shows_the_traceback(csv):
    done = run("score", csv, "-m", csv, "-o", "x.csv", "--debug")
    assert type(done.exception).__name__ == "ModelFileError"  # not turned into one line


@pytest.mark.parametrize("command", ["fit", "score", "inspect"])
def test_help_has_examples(command):
    done = run(command, "--help")
    assert done.exit_code == 0
    assert "Examples:\n    dplan " in done.output
    assert "--debug" in done.output


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process group")
@pytest.mark.parametrize("stage", ["Reading", "Estimating"])
def test_ctrl_c_leaves_nothing_half_written(stage, csv, tmp_path):
    # Where tests run in the background, SIGINT may be ignored from the start; a terminal does not do that.
    start = "import signal as s; s.signal(s.SIGINT, s.default_int_handler); from dplan.cli.main import main; main()"
    process = subprocess.Popen(
        [
            sys.executable, "-c", start, "fit", str(csv), "--label", "verdict", "--anomaly", "fraud",
            "-o", str(tmp_path / "m.dplan"), "--set", "n_steps=3000000",
        ],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert any(line.startswith(stage) for line in process.stderr)
        os.killpg(process.pid, signal.SIGINT)
        error = process.communicate(timeout=300)[1]
    finally:
        process.kill()
    assert process.returncode == 130, error
    assert error.splitlines()[-1].startswith("Interrupted.")
    assert [path.name for path in tmp_path.iterdir()] == ["payments.csv"]


def test_a_bar_that_does_not_move_says_why(monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    own = Compiling(lambda message: None)
    monkeypatch.setattr(_terminal, "compiling", own)
    own.begin()
    detector = DPLAN()
    with _terminal.training_progress(detector) as stage:
        stage("training")
        shown = ""

        def seen(text):
            nonlocal shown
            shown += capfd.readouterr().err
            return text in shown

        until(lambda: seen("compiling (first use only)"))
        detector.callback(detector, {"reward": 812.0, "epsilon": 0.5})
        until(lambda: seen("reward 812"))
    shown += capfd.readouterr().err
    last = shown.rindex("reward 812")
    assert "compiling" not in shown[last:]


@pytest.mark.parametrize("command", ["fit", "report", "update", "export"])
def test_no_command_writes_over_its_input_or_beside_another_run(command, csv, model_path, tmp_path):
    model = tmp_path / "m.dplan"
    model.write_bytes(model_path.read_bytes())
    (tmp_path / "link").symlink_to(model if command == "export" else csv)
    arguments = {
        "fit": [csv, "--label", "verdict", "--anomaly", "fraud", "--detector", "iforest", "-o"],
        "report": [model, csv, "-o"],
        "update": [model, csv, "--anomaly", "fraud", "-o"],
        "export": [model, "--onnx"],
    }[command]
    before = {path: path.read_bytes() for path in (csv, model)}
    done = run(command, *arguments, tmp_path / "link")
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert "is also an input and would be overwritten" in done.output
    with claimed(tmp_path / "out"):
        done = run(command, *arguments, tmp_path / "out")
    assert done.exit_code == 1
    assert f"out: process {os.getpid()} on " in done.output
    done = run(command, *arguments, tmp_path / "no" / "out")
    assert done.output == f"Error: cannot write out: the folder {tmp_path / 'no'} does not exist\n"
    assert {path: path.read_bytes() for path in (csv, model)} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "m.dplan", "payments.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of a POSIX system")
def test_missing_permissions_are_one_line(csv, model_path, tmp_path):
    closed, output = tmp_path / "closed", tmp_path / "scores.csv"
    closed.mkdir(0o555)

    def refused(to):
        done = run_bound("-m", "dplan", "score", csv, "-m", model_path, "-o", to, "--quiet")
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    assert refused(closed / "new.csv") == f"Error: no permission to write to the folder {closed}\n"
    output.touch(0o444)
    assert refused(output) == f"Error: {output} is read-only\n"
    csv.chmod(0o000)
    advice = "permission denied; change its permissions or run as another user"
    assert refused(tmp_path / "new.csv") == f"Error: {csv}: {advice}\n"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["closed", "payments.csv", "scores.csv"]


def test_update_replaces_a_private_model_and_keeps_it_private(csv, model_path, tmp_path):
    real, link = tmp_path / "real.dplan", tmp_path / "m.dplan"
    real.write_bytes(model_path.read_bytes())
    real.chmod(0o600)
    link.symlink_to(real)
    done = run("update", link, csv, "--anomaly", "fraud")
    assert done.exit_code == 0, done.output
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert TableModel.load(real).summary.updates


def test_a_folder_to_standard_output_is_one_stream(model, model_path, table, tmp_path, monkeypatch):
    (tmp_path / "parts").mkdir()
    for number in range(3):
        table[1000 * number : 1000 * (number + 1)].write_parquet(tmp_path / "parts" / f"{number}.parquet")
    monkeypatch.chdir(tmp_path)
    done = run("score", "parts", "-m", model_path, "-o", "-", "--format", "tsv")
    assert done.exit_code == 0, done.output
    found = pl.read_csv(io.StringIO(done.stdout), separator="\t")
    assert found["payment"].to_list() == table["payment"].to_list()
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


def test_tsv_output_is_separated_by_tabs(csv, model_path, tmp_path):
    assert run("score", csv, "-m", model_path, "-o", tmp_path / "out.tsv").exit_code == 0
    assert (
        (tmp_path / "out.tsv").read_text().startswith("row\tpayment\tscore\tpercentile\talert\n1\tp00000\t")
    )


HOSTILE = "a\x1b]0;owned\x07\u202eb"


def test_names_and_values_of_a_table_are_printed_escaped(tmp_path):
    table = (
        payments()
        .rename({"country": HOSTILE, "items": "ok\nError: fake"})
        .with_columns(pl.col("verdict").replace("fraud", HOSTILE), pl.lit("same").alias("\x9b31mconstant"))
    )
    table.write_parquet(tmp_path / "t.parquet")
    commands = [
        ["fit", tmp_path / "t.parquet", "--label", "verdict", "--anomaly", HOSTILE, "--id", "payment",
         "-o", tmp_path / "m.dplan", "--detector", "iforest"],
        ["inspect", tmp_path / "m.dplan"],
        ["score", tmp_path / "t.parquet", "-m", tmp_path / "m.dplan", "-o", tmp_path / f"{HOSTILE}.csv"],
        ["fit", tmp_path / "t.parquet", "--label", f"{HOSTILE}x", "-o", tmp_path / "n.dplan"],
        ["inspect", tmp_path / HOSTILE],
    ]  # fmt: skip
    for command in commands:
        output = run(*command).output
        assert r"a\x1b]0;owned\x07\u202eb" in output
        assert not set(output) & {"\x1b", "\x07", "\x9b", "\u202e"}
        assert "\nError: fake" not in output


def command_line(*arguments):
    return [sys.executable, "-m", "dplan", *map(str, arguments)]


def test_a_terminal_that_knows_only_ascii_gets_escapes(csv, tmp_path):
    table = payments().rename({"country": "Größe"})
    table.write_csv(tmp_path / "t.csv")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    fitted = command_line(
        "fit", tmp_path / "t.csv", "--label", "verdict", "--anomaly", "fraud", "-o", tmp_path / "m.dplan",
        "--detector", "iforest", "--quiet",
    )  # fmt: skip
    for command in (fitted, command_line("inspect", tmp_path / "m.dplan"), command_line("detectors")):
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr == b""


def test_a_reader_that_stops_early_is_no_traceback(csv, model_path):
    big = pl.concat([payments()] * 20)
    big.write_csv(csv)
    process = subprocess.Popen(
        command_line("score", csv, "-m", model_path, "-o", "-", "--quiet"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"row,payment,score,percentile,alert\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 1


def test_damaged_tables_are_one_line(csv, model_path, tmp_path):
    whole = {
        "parquet": io.BytesIO(),
        "csv.gz": gzip.compress(csv.read_bytes()),
        "jsonl": payments().write_ndjson(),
    }
    payments().write_parquet(whole["parquet"], compression="uncompressed")
    whole = {**whole, "parquet": whole["parquet"].getvalue(), "jsonl": whole["jsonl"].encode()}
    for kind, content in whole.items():
        path = tmp_path / f"t.{kind}"
        for damaged in (
            content[: len(content) // 2],
            b"",
            b"\0" * 100,
            content[:1000] + b"\xff\xfe" * 500 + content[2000:],
        ):
            path.write_bytes(damaged)
            done = run("score", path, "-m", model_path, "-o", tmp_path / "out.csv", "--overwrite")
            if done.exit_code == 0:  # damage inside a page may give other values
                continue
            assert done.exit_code == 1, done.output
            assert done.stderr.splitlines()[-1].startswith("Error: ")
            assert len(done.stderr.splitlines()) <= 2


def test_an_error_that_nobody_foresaw_says_that_it_is_a_bug(csv, model_path, tmp_path, monkeypatch):
    monkeypatch.setattr(TableModel, "percentile", lambda self, scores: {}["missing"])
    done = run("score", csv, "-m", model_path, "-o", tmp_path / "out.csv")
    assert done.exit_code == 1
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("this is a bug in dplan; please report it with the lines above.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")
def test_sigterm_cleans_up(csv, tmp_path):
    fitting = command_line(
        "fit",
        csv,
        "--label",
        "verdict",
        "--anomaly",
        "fraud",
        "-o",
        tmp_path / "m.dplan",
        "--set",
        "n_steps=3000000",
    )
    with subprocess.Popen(fitting, stderr=subprocess.PIPE) as process:
        # A signal in the very moment in which the lock appears may leave it behind, which is harmless.
        assert process.stderr.readline().startswith(b"Reading")
        process.terminate()
        process.stderr.read()
        assert process.wait(300) == 143
    assert [path.name for path in tmp_path.iterdir()] == ["payments.csv"]


def messy(path, encoding="cp1252"):
    """Write a table that is read rightly only with its encoding and its mark of missing values."""
    rows = [
        f"{i};{'-' if i % 7 == 0 else i % 50};{1 + i % 28:02}.03.2024;{'Köln' if i % 3 else 'Mün'};00{i % 4}"
        for i in range(400)
    ]
    lines = [
        "id;amount;day;town;code;verdict",
        *(f"{row};{'fraud' if i % 20 == 0 else ''}" for i, row in enumerate(rows)),
    ]
    path.write_bytes("\r\n".join(lines).encode(encoding))
    return path


def test_every_command_reads_the_table_as_fit_did(tmp_path):
    table, model = messy(tmp_path / "t.csv"), tmp_path / "m.dplan"
    label = ["--label", "verdict", "--anomaly", "fraud"]
    reading = ["--encoding", "cp1252", "--missing", "-"]
    fitted = [
        "--id",
        "id",
        "--text",
        "code",
        "--detector",
        "DPLAN",
        "--set",
        "n_steps=300",
        "--set",
        "warmup_steps=50",
    ]
    assert "is not valid utf-8" in run("fit", table, *label, "-o", model, "--encoding", "utf-8").stderr
    done = run("fit", table, *label, *reading, *fitted, "-o", model, "--no-estimate")
    assert done.exit_code == 0, done.output
    assert "1 number, 1 date, 2 text" in done.output
    # The options are kept in the model; they can be given again, and stand for others in a table of another origin.
    other = messy(tmp_path / "other.csv", "utf-8")
    done = run("score", table, "-m", model, "-o", tmp_path / "a.csv")
    assert done.exit_code == 0, done.output
    assert "Warning" not in done.stderr
    for source, more in ((table, reading), (other, ["--encoding", "utf-8"])):
        done = run("score", source, "-m", model, "-o", tmp_path / "b.csv", "--overwrite", *more)
        assert done.exit_code == 0, done.output
        # Spreadsheets need the mark to tell UTF-8 from the encoding of the system, which the first table has.
        assert (tmp_path / "a.csv").read_bytes().startswith(b"\xef\xbb\xbfrow;id;score")
        assert (tmp_path / "a.csv").read_text("utf-8-sig") == (tmp_path / "b.csv").read_text("utf-8-sig")
    stdin = table.read_bytes()
    done = run("score", "-", "-m", model, "-o", "-", stdin=stdin)
    assert done.stdout.encode() == (tmp_path / "a.csv").read_bytes()
    for command in (
        ["report", model, table, "-o", tmp_path / "r.html"],
        ["report", model, "-", "-o", tmp_path / "r.html", "--overwrite"],
        ["update", model, table, "--anomaly", "fraud", "-o", tmp_path / "n.dplan"],
        ["update", model, "-", "--anomaly", "fraud", "-o", tmp_path / "n.dplan", "--overwrite"],
        ["fit", "-", *label, *reading, *fitted, "-o", tmp_path / "s.dplan", "--no-estimate"],
    ):
        done = run(*command, stdin=stdin if "-" in command else None)
        assert done.exit_code == 0, done.output
        assert "Warning" not in done.stderr
    for name in ("m.dplan", "s.dplan", "n.dplan"):
        assert TableModel.load(tmp_path / name).summary.reading["encoding"] == "cp1252"
    for command in ("fit", "score", "report", "update"):
        assert "--encoding" in run(command, "--help").output
        assert "--missing" in run(command, "--help").output


def test_useless_columns_are_named_in_one_line(csv, model_path, tmp_path):
    odd = payments().with_columns(amount=pl.lit(None, pl.Float64), country=pl.lit("??"))
    odd.write_csv(tmp_path / "odd.csv")
    said = (
        "Warning: columns that differ from the training table: 'amount' (all values are missing), 'country' ("
    )
    for command in (
        ["score", tmp_path / "odd.csv", "-m", model_path, "-o", tmp_path / "o.csv", "--chunk-rows", 700],
        ["report", model_path, tmp_path / "odd.csv", "-o", tmp_path / "r.html"],
    ):
        done = run(*command)
        assert done.exit_code == 0, done.output
        assert len([line for line in done.stderr.splitlines() if line.startswith(said)]) == 1


def test_a_bad_cell_is_named_by_its_line_in_score_and_report(csv, model_path, tmp_path):
    lines = csv.read_text().splitlines()
    lines[2500] = lines[2500].replace(lines[2500].split(",")[1], "many", 1)
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join(lines))
    for command in (
        ["score", bad, "-m", model_path, "-o", tmp_path / "o.csv", "--chunk-rows", 700],
        ["report", model_path, bad, "-o", tmp_path / "r.html"],
    ):
        done = run(*command)
        assert done.exit_code == 1
        assert "Error: bad.csv, line 2501, column 'amount': 'many' is not a number" in done.stderr
