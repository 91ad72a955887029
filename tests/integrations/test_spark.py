"""Scoring on a real Spark cluster of two executors, of which one is killed on the way."""

import json
import os
import shutil
import subprocess
import sys

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dplan.tables.input import Input
from tests.scoring.files import Options, score_table
from tests.tables.payments import payments

pytest.importorskip("pyspark", reason="the extra [spark] is not installed; run  make test-integrations")
pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")

N_ROWS = 4000

SESSION = """
import os, sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.executor.memory", "700m")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "America/New_York")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    .config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    .getOrCreate()
)
"""

SCORE = (
    SESSION
    + """
import json, signal
from pathlib import Path
from pyspark.sql import functions as F
import dplan.spark

model, table, marker, out = sys.argv[1:]

def killing(batches):
    # The first task that comes here kills its whole executor, the process of Java above this worker.
    for batch in batches:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            pid = os.getppid()
            while Path(f"/proc/{pid}/comm").read_text() != "java\\n":
                pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            Path(marker).write_text(str(pid))
            os.kill(pid, signal.SIGKILL)
        yield batch

frame = spark.read.parquet(table).repartition(12)
killed = frame.mapInArrow(killing, frame.schema)
scored = dplan.spark.score(killed, model, keep=["payment", "paid_at", "score"], explain=True)
print(scored.schema.simpleString())
scored.write.parquet(out)
workers = scored.withColumn("where", F.spark_partition_id()).select("where").distinct().count()
everything = dplan.spark.score(frame, Path(model).read_bytes())
print(json.dumps({"partitions": workers, "columns": everything.columns, "killed": int(Path(marker).read_text())}))
try:
    dplan.spark.score(frame.drop("amount"), model)
except ValueError as error:
    print(error)
spark.stop()
"""
)


def run_script(code, folder, *arguments):
    script = folder / "script.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True, text=True, timeout=600, check=False, cwd=folder,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def spark_table(tmp_path_factory):
    """Payments as Spark finds them: text, dates, time stamps, missing values, and a column with one of our names."""
    table = payments(N_ROWS, seed=2).drop("verdict")
    table = table.with_columns(
        paid_at=pl.col("day").cast(pl.Datetime("us")) + pl.duration(hours=23, minutes=59),
        score=pl.lit("ours", dtype=pl.String),
        country=pl.when(pl.int_range(pl.len()) % 17 == 0).then(None).otherwise("country"),
        new_customer=pl.when(pl.int_range(pl.len()) % 19 == 0).then(None).otherwise("new_customer"),
    )
    path = tmp_path_factory.mktemp("spark") / "payments.parquet"
    table.write_parquet(path)
    return path


def test_a_cluster_scores_as_dplan_score_does_although_an_executor_is_killed(
    model_path, spark_table, tmp_path
):
    told = run_script(SCORE, tmp_path, model_path, spark_table, tmp_path / "killed", tmp_path / "scored")
    schema, about, problem = told.strip().splitlines()
    assert schema.startswith("struct<payment:string,paid_at:timestamp")
    assert schema.endswith("score:string,dplan_score:double,percentile:double,alert:boolean,reasons:string>")
    about = json.loads(about)
    assert about["partitions"] > 1
    assert not os.path.exists(f"/proc/{about['killed']}")
    assert about["columns"][-3:] == ["dplan_score", "percentile", "alert"]
    assert problem.startswith("the table does not match the model: missing columns 'amount'")
    score_table(
        model_path, Input(spark_table), tmp_path / "local.parquet", Options(keep=("score",), explain=True),
        output_format="parquet",
    )  # fmt: skip
    local = pl.read_parquet(tmp_path / "local.parquet").drop("row").sort("payment")
    found = pl.read_parquet(tmp_path / "scored" / "*.parquet").sort("payment")
    assert_frame_equal(found.drop("paid_at"), local, check_exact=True)
    assert found.height == N_ROWS
    assert found["alert"].any()


DATES = (
    SESSION
    + """
import dplan.spark
model, table, out = sys.argv[1:]
dplan.spark.score(spark.read.parquet(table), model).write.parquet(out)
spark.stop()
"""
)


def test_time_stamps_do_not_depend_on_the_time_zone_of_the_session(tmp_path):
    from dplan import LogisticBaseline
    from dplan.tables import fit_table, from_table

    times = pl.datetime_range(
        pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 9), "1h", time_zone="UTC", eager=True
    )
    table = pl.DataFrame({"at": times, "late": [0] * (len(times) - 5) + [1] * 5})
    model = fit_table(from_table(table, label="late"), LogisticBaseline())
    model.save(tmp_path / "m.dplan")
    table.write_parquet(tmp_path / "t.parquet")
    run_script(DATES, tmp_path, tmp_path / "m.dplan", tmp_path / "t.parquet", tmp_path / "out")
    found = pl.read_parquet(tmp_path / "out" / "*.parquet").sort("at")
    assert found["score"].to_list() == model.score(table).tolist()
