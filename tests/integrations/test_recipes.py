"""The blocks of the pages about clusters and MLflow that need Spark, MLflow or Ray run as written."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dplan.cli.main import main
from tests.conftest import PROJECT

pytest.importorskip("pyspark", reason="the extra [spark] is not installed; run  make test-integrations")
pytest.importorskip("mlflow", reason="the extra [mlflow] is not installed; run  make test-integrations")
pytest.importorskip("ray", reason="Ray is not installed; run  make test-integrations")

PAGE = "".join((PROJECT / "docs" / name).read_text(encoding="utf-8") for name in ("cluster.md", "mlflow.md"))
LIBRARIES = ("dplan.spark", "dplan.mlflow", "ray.data")
# The recipe for Dask, which needs no environment of its own, is run by tests/scoring.
BLOCKS = [
    block
    for block in re.findall(r"^```py\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    if "distributed" not in block
]

# Appended to the recipe for Ray, which brings psutil: who listens while its cluster runs?
LISTENERS = """
import psutil

ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
sockets = [socket for socket in psutil.net_connections("tcp") if socket.pid in ours]
listening = {socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN}
assert listening and listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}, listening
"""


def library(block):
    return next(name for name in LIBRARIES if name in block)


def run(code, folder, environment, limit):
    """Run Python code in a session of its own, and leave nothing of that session running."""
    with (folder / "errors.txt").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=folder, env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        pytest.fail(f"not finished after {limit} s:\n{last_words(folder)}")
    finally:
        # Not the process group: those of Ray are in several, and some outlive the process that started them.
        while members := [member for member, session in running() if session == process.pid]:
            for member in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            time.sleep(0.1)
        process.wait()
    assert process.returncode == 0, last_words(folder)


def last_words(folder):
    return (folder / "errors.txt").read_text(encoding="utf-8", errors="replace")[-4000:]


def running():
    """Yield the id and the session of every process."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if state != "Z":
                yield int(path.parent.name), int(session)


def test_there_are_recipes():
    assert sorted(map(library, BLOCKS)) == sorted(LIBRARIES)


def test_a_stalled_recipe_fails_and_leaves_nothing_running(tmp_path):
    stalls = """
import subprocess, sys, time

sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
print(subprocess.Popen(sleeper, process_group=0).pid, file=sys.stderr, flush=True)
time.sleep(600)
"""
    with pytest.raises(pytest.fail.Exception, match="not finished after 3 s") as failed:
        run(stalls, tmp_path, None, limit=3)
    child = int(str(failed.value).split()[-1])
    assert child not in dict(running())


@pytest.mark.parametrize("block", BLOCKS, ids=library)
def test_a_recipe_runs(block, model_path, table, tmp_path):
    if "pyspark" in block and shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    new = table.drop("verdict")
    shutil.copy(model_path, tmp_path / "payments.dplan")
    for number in range(4):
        new[number::4].write_parquet(tmp_path / f"part-{number}.parquet")
    # MLflow keeps the experiment of this process, which is another test's, in the environment.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    with_ray = library(block) == "ray.data"
    # The path of a Unix socket, which Ray makes in its folder, must be short.
    with tempfile.TemporaryDirectory() as short:
        environment = {
            **inherited,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "RAY_TMPDIR": short,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(),  # of this test's cluster alone; none from the home folder
        }
        run(block + LISTENERS * with_ray, tmp_path, environment, limit=120 if with_ray else 600)
    expected = tmp_path / "expected.parquet"
    new.write_parquet(tmp_path / "new.parquet")
    command = ["score", tmp_path / "new.parquet", "-m", model_path, "-o", expected]
    main([str(argument) for argument in command], standalone_mode=False)
    scores = pl.read_parquet(expected).select("payment", "score")
    for written in tmp_path.glob("scored-by-*"):
        found = pl.read_parquet(written / "*.parquet").select("payment", "score")
        assert_frame_equal(found, scores, check_row_order=False, check_exact=True)
    assert not with_ray or (tmp_path / "scored-by-ray").is_dir()
