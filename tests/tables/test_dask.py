"""Scoring parts on a real Dask cluster, of which one worker is killed on the way."""

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dplan.tables.input import Input
from dplan.tables.scoring import Options, score_table

pytest.importorskip("distributed", reason="the extra [dask] is not installed")

N_PARTS = 24

# In a process of its own: the cluster's event loop and its warnings stay out of the other tests.
CLUSTER = """
import json, os, signal, sys
from pathlib import Path
from distributed import LocalCluster
from dplan.tables.input import Input
from dplan.tables.scoring import Options, score_table

if __name__ == "__main__":
    model, parts, output = map(Path, sys.argv[1:])
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        victim = cluster.workers[0]
        address, pid = victim.worker_address, victim.pid
        events = []

        def progress(stage, done, total):
            if stage == "Explaining":
                return
            events.append(done)
            if done == 4:
                os.kill(pid, signal.SIGKILL)

        outcome = score_table(
            model, Input(str(parts)), output, Options(budget=10, explain=True),
            output_kind="folder", chunk_rows=50, scheduler=cluster.scheduler_address, progress=progress,
        )
        alive = [worker.pid for worker in cluster.workers.values()]
    print(json.dumps({"rows": outcome.rows, "events": events, "killed": pid, "alive": alive}))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL, which Windows does not have")
def test_a_cluster_scores_every_part_although_a_worker_is_killed(model, model_path, table, tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(table.height), N_PARTS)):
        table[rows].write_parquet(parts / f"p{number:02}.parquet")
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    environment = {
        **os.environ,
        "PYTHONWARNINGS": "ignore",
        "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "false",
    }
    run = subprocess.run(
        [sys.executable, str(script), str(model_path), str(parts), str(tmp_path / "scored")],
        capture_output=True, text=True, env=environment, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout.strip().splitlines()[-1])
    assert told["rows"] == table.height
    assert told["events"] == list(range(1, N_PARTS + 1))
    assert told["killed"] not in told["alive"]
    found = pl.concat(pl.read_parquet(path) for path in sorted((tmp_path / "scored").iterdir()))
    assert found.height == table.height
    np.testing.assert_array_equal(found["score"], model.score(table))
    score_table(
        model_path, Input(str(parts)), tmp_path / "local", Options(budget=10, explain=True),
        output_kind="folder", chunk_rows=50,
    )  # fmt: skip
    local = pl.concat(pl.read_parquet(path) for path in sorted((tmp_path / "local").iterdir()))
    assert_frame_equal(found, local)


def test_a_scheduler_that_is_not_there_is_an_error_in_one_line(model_path, table, tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    table[:10].write_parquet(parts / "p.parquet")
    command = [
        sys.executable, "-m", "dplan", "score", str(parts), "-m", str(model_path), "-o", str(tmp_path / "out"),
        "--backend", "dask", "--scheduler", "tcp://127.0.0.1:1",
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 1
    assert run.stderr.strip().splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in run.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts"]
