"""``dplan data`` as a person types it."""

import io
import os
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

from dplan.cli.main import main
from dplan.datasets import load
from dplan.datasets.download import sha256_of
from dplan.datasets.publishers import _ANNTHYROID_COLUMNS as COLUMNS
from dplan.datasets.publishers import _ANNTHYROID_FLOATS as FLOATS
from dplan.datasets.registry import CATALOG


def dplan(*arguments):
    return CliRunner().invoke(main, ["data", *map(str, arguments)])


@pytest.fixture(scope="module")
def thyroid() -> pl.DataFrame:
    """A table of Annthyroid's form and class counts, of random values."""
    rng = np.random.default_rng(0)
    columns = {
        name: rng.integers(1, 600, size=7200) / 1000 if name in FLOATS else rng.integers(0, 2, size=7200)
        for name in COLUMNS[:-1]
    }
    classes = np.repeat(["hypothyroid", "subnormal", "normal"], [166, 368, 6666])
    schema = {name: pl.Float64 if name in FLOATS else pl.Int8 for name in COLUMNS[:-1]} | {"class": pl.String}
    return pl.DataFrame({**columns, "class": rng.permutation(classes)}, schema=schema)


def thyroid_archive(table: pl.DataFrame, n_test: int = 3428) -> bytes:
    numbers = table.with_columns(
        pl.col("class").replace_strict({"hypothyroid": 1, "subnormal": 2, "normal": 3}, return_dtype=pl.Int8)
    )
    lines = [" ".join(f"{value:g}" for value in row) + "\n" for row in numbers.rows()]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ann-train.data", "".join(lines[:3772]))
        archive.writestr("ann-test.data", "".join(lines[3772 : 3772 + n_test]))
    return buffer.getvalue()


def test_list_of_the_real_data_sets(data_home):
    """Holds for incomplete copies as well as for the publishers' whole files."""
    result = dplan("list", "--home", data_home)
    assert result.exit_code == 0
    sections = {
        text.split(":")[0]: [" ".join(line.split()) for line in text.splitlines()]
        for text in result.output.split("\n\n")[1:]
    }
    assert list(sections) == list(CATALOG)
    for name, (first, *lines) in sections.items():
        data = load(name, data_home)
        state = "incomplete" if data.partial else "complete"
        assert first == f"{name}: {state}, {data.features.height:,} rows in {data.path}"
        width = data.features.width
        assert f"columns: {width}, D = {data.dimensions} (paper: {data.source.dimensions})" in lines
        for kind, found in data.counts().items():
            used = min(found, data.source.max_rows_per_class or found) if kind != "normal" else found
            (line,) = (line for line in lines if line.startswith(f"{kind}: "))
            assert line.startswith(f"{kind}: {used:,} of {data.source.table_1[kind]:,}")
            assert line.endswith("<- incomplete") == (used < data.source.table_1[kind])
            assert ("(drawn from" in line) == (used < found)
    assert "annthyroid: complete, 7,200 rows" in result.output
    assert "covertype: complete, 581,012 rows" in result.output


def test_list_of_an_empty_home(tmp_path):
    result = dplan("list", "--home", tmp_path)
    assert result.exit_code == 0
    for name in ("unsw_nb15", "annthyroid", "har", "covertype"):
        assert f"{name}: missing; run `dplan data fetch {name}`" in result.output
    assert "covertype-mini: incomplete, 21,600 rows" in result.output


def test_fetch_prepares_what_check_and_load_then_find(thyroid, tmp_path, server):
    server.served.content = thyroid_archive(thyroid)
    server.served.path = "/mirror/thyroid+disease.zip"
    server.served.break_off_after = [1000]
    result = dplan("fetch", "annthyroid", "--home", tmp_path, "--mirror", f"{server.url}/mirror/")
    assert result.exit_code == 0, result.output
    assert server.served.requests[-1]["Range"] == "bytes=1000-"
    assert "annthyroid: complete, 7,200 rows" in result.output
    assert_frame_equal(pl.read_parquet(tmp_path / "annthyroid.parquet"), thyroid)
    result = dplan("check", "annthyroid", "--home", tmp_path)
    assert result.exit_code == 0
    assert "sha256: a file of your own" in result.output


def test_fetch_of_something_else_leaves_nothing_that_could_be_taken_for_it(thyroid, tmp_path, server):
    server.served.content = thyroid_archive(thyroid, n_test=3000)
    result = dplan("fetch", "annthyroid", "--home", tmp_path, "--mirror", server.url)
    assert result.exit_code == 1
    assert "is not annthyroid and was deleted" in result.output
    assert "ann-test.data has 3,000 rows, not 3,428" in result.output
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals need a POSIX system")
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_fetch_that_is_stopped_midway_goes_on_later(signal_number, thyroid, tmp_path, server):
    server.served.content = thyroid_archive(thyroid)
    server.served.stall_after = 30_000
    arguments = ["data", "fetch", "annthyroid", "--home", str(tmp_path), "--mirror", server.url]
    process = subprocess.Popen(
        [sys.executable, "-c", "from dplan.cli.main import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    part = tmp_path / "downloads" / "annthyroid" / "thyroid+disease.zip.part"
    deadline = time.monotonic() + 30
    while not (part.is_file() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal_number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "Traceback" not in output
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == [part.name, f"{part.name}.version"]
    arrived = part.stat().st_size
    assert 0 < arrived <= 30_000
    server.served.stall_after = 0
    assert dplan(*arguments[1:]).exit_code == 0
    assert server.served.requests[-1]["Range"] == f"bytes={arrived}-"
    assert_frame_equal(pl.read_parquet(tmp_path / "annthyroid.parquet"), thyroid)


def test_fetch_with_a_wrong_checksum(tmp_path, server):
    server.served.content = b"anything"
    result = dplan("fetch", "annthyroid", "--home", tmp_path, "--mirror", server.url, "--sha256", "0" * 64)
    assert result.exit_code == 1
    assert "expected 0000" in result.output
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_fetch_that_is_not_found_says_what_to_do_by_hand(tmp_path, server):
    server.served.failures = [404]
    result = dplan("fetch", "covertype", "--home", tmp_path, "--mirror", server.url)
    assert result.exit_code == 1
    assert "covertype.zip answered 404 Not Found" in result.output
    assert "download it from https://archive.ics.uci.edu/dataset/31/covertype" in result.output
    assert "dplan data prepare covertype --from FOLDER" in result.output
    assert "Traceback" not in result.output


def test_fetch_of_what_needs_a_form(tmp_path):
    result = dplan("fetch", "unsw_nb15", "--home", tmp_path)
    assert result.exit_code == 1
    assert "https://research.unsw.edu.au/projects/unsw-nb15-dataset" in result.output
    assert "dplan data prepare unsw_nb15 --from FOLDER" in result.output


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("covertype-mini", "comes with the package; there is nothing to download"),
        ("mnist", "unknown data set 'mnist'"),
    ],
)
def test_fetch_of_what_cannot_be_fetched(name, message, tmp_path):
    result = dplan("fetch", name, "--home", tmp_path)
    assert result.exit_code == 1
    assert message in result.output


def test_prepare(thyroid, tmp_path):
    downloads = tmp_path / "Downloads"
    downloads.mkdir()
    (downloads / "thyroid.zip").write_bytes(thyroid_archive(thyroid))
    result = dplan("prepare", "annthyroid", "--from", downloads, "--home", tmp_path / "home")
    assert result.exit_code == 0, result.output
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["annthyroid.parquet"]
    assert_frame_equal(pl.read_parquet(tmp_path / "home" / "annthyroid.parquet"), thyroid)


def test_prepare_from_a_folder_without_the_files(tmp_path):
    result = dplan("prepare", "har", "--from", tmp_path, "--home", tmp_path)
    assert result.exit_code == 1
    assert "features.txt, activity_labels.txt, X_train.txt" in result.output
    assert dplan("prepare", "har", "--from", tmp_path / "nowhere").exit_code == 2


@pytest.mark.skipif(sys.platform == "win32", reason="limits on file sizes need a POSIX system")
def test_prepare_on_a_full_disk_leaves_nothing_half_written(thyroid, tmp_path):
    (tmp_path / "thyroid.zip").write_bytes(thyroid_archive(thyroid))
    home = tmp_path / "home"
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "from dplan.cli.main import main; main()"
    )
    arguments = ["data", "prepare", "annthyroid", "--from", str(tmp_path), "--home", str(home)]
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert run.returncode == 1
    assert "cannot write" in run.stderr
    assert "File too large" in run.stderr
    assert "Traceback" not in run.stderr
    assert list(home.iterdir()) == []


def test_check_says_whether_it_is_the_projects_own_file(data_home):
    result = dplan("check", "annthyroid", "--home", data_home)
    assert result.exit_code == 0
    own = sha256_of(data_home / "annthyroid.parquet") == CATALOG["annthyroid"].sha256
    edition = "the file that the project's results were produced with" if own else "a file of your own"
    assert f"sha256: {edition}\n" in result.output
    assert "missing values: 0" in result.output


def test_check_of_what_is_missing_or_damaged(thyroid, tmp_path):
    result = dplan("check", "har", "--home", tmp_path)
    assert result.exit_code == 1
    assert "run `dplan data fetch har`" in result.output
    thyroid.write_parquet(tmp_path / "annthyroid.parquet")
    whole = (tmp_path / "annthyroid.parquet").read_bytes()
    (tmp_path / "annthyroid.parquet").write_bytes(whole[: len(whole) // 2])
    result = dplan("check", "annthyroid", "--home", tmp_path)
    assert result.exit_code == 1
    assert "annthyroid.parquet cannot be read" in result.output
    assert "annthyroid: damaged" in dplan("list", "--home", tmp_path).output
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "annthyroid.parquet")
    result = dplan("check", "annthyroid", "--home", tmp_path)
    assert "has no column 'class', so it is not annthyroid" in result.output
    pl.DataFrame({"class": ["ill"]}).write_parquet(tmp_path / "annthyroid.parquet")
    result = dplan("check", "annthyroid", "--home", tmp_path)
    assert "column 'class' contains 'ill', which is not a class of annthyroid" in result.output


@pytest.mark.parametrize("command", ["list", "fetch", "prepare", "check"])
def test_help_has_an_example(command):
    result = dplan(command, "--help")
    assert result.exit_code == 0
    assert f"dplan data {command}" in result.output.split("Example")[1]
