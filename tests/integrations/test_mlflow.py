"""Models in a real MLflow: logged to a store in a folder, loaded, served, and used in Spark."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import polars as pl
import pytest

from tests.integrations.test_spark import SESSION, run_script
from tests.tables.payments import payments

mlflow = pytest.importorskip(
    "mlflow", reason="the extra [mlflow] is not installed; run  make test-integrations"
)


@pytest.fixture(scope="module")
def logged(model_path, tmp_path_factory):
    """The address of a model that was logged to a store in a folder."""
    import dplan.mlflow

    folder = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/store.db")
    mlflow.set_experiment(
        experiment_id=mlflow.create_experiment("fraud", artifact_location=str(folder / "artifacts"))
    )
    with mlflow.start_run():
        info = dplan.mlflow.log_model(model_path, "fraud", registered_model_name="fraud")
    return info.model_uri, folder


@pytest.fixture(scope="module")
def new():
    return payments(500, seed=3).drop("verdict")


def test_a_logged_model_is_the_model_and_nothing_is_pickled(logged, model, new, model_path):
    import dplan.mlflow

    uri, folder = logged
    for address in (uri, "models:/fraud/1"):
        assert dplan.mlflow.load_model(address).score(new).tolist() == model.score(new).tolist()
    (stored,) = folder.rglob("model.dplan")
    assert stored.read_bytes() == model_path.read_bytes()
    assert not [path for path in folder.rglob("*") if path.suffix in (".pkl", ".pickle", ".joblib")]


def test_any_frame_is_scored_as_by_dplan(logged, model, new):
    scorer = mlflow.pyfunc.load_model(logged[0])
    found = scorer.predict(new.to_pandas())  # whole numbers, dates and missing values as pandas has them
    scores = model.score(new)
    assert found["score"].tolist() == scores.tolist()
    assert found["percentile"].tolist() == model.percentile(scores).tolist()
    assert found["alert"].tolist() == (scores >= model.threshold).tolist()
    explained = scorer.predict(new[:5].to_pandas(), params={"explain": True})
    assert len(explained["reasons"]) == 5
    with pytest.raises(mlflow.exceptions.MlflowException, match="amount"):
        scorer.predict(new.drop("amount").to_pandas())


def test_another_model_is_not_taken_for_ours(tmp_path):
    import dplan.mlflow

    class Other(mlflow.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):
            return model_input

    mlflow.pyfunc.save_model(tmp_path / "other", python_model=Other(), pip_requirements=[])
    with pytest.raises(ValueError, match="was not saved by dplan"):
        dplan.mlflow.load_model(str(tmp_path / "other"))


def test_mlflow_models_serve_gives_the_scores_of_dplan_score(model_path, model, new, tmp_path):
    import dplan.mlflow

    dplan.mlflow.save_model(model, tmp_path / "saved")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "mlflow", "models", "serve", "-m", str(tmp_path / "saved"), "--env-manager", "local",
        "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    rows = new.with_columns(pl.col("day").cast(pl.String)).to_dicts()
    body = json.dumps({"dataframe_records": rows}).encode()
    # As in an activated environment: MLflow starts uvicorn by its name.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, "PATH": path}
        )
    try:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/invocations", body, {"Content-Type": "application/json"}
        )
        answer = None
        end = time.monotonic() + 120
        while answer is None:
            assert server.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < end
            try:
                answer = json.load(urllib.request.urlopen(request, timeout=60))
            except urllib.error.HTTPError as error:
                raise AssertionError(error.read()) from error
            except urllib.error.URLError:
                time.sleep(0.3)
    finally:
        if server.poll() is None:
            os.killpg(server.pid, 15)
        server.wait(30)
    scores = model.score(new)
    assert [row["score"] for row in answer["predictions"]] == scores.tolist()
    assert [row["alert"] for row in answer["predictions"]] == (scores >= model.threshold).tolist()


UDF = (
    SESSION
    + """
import mlflow.pyfunc
from pyspark.sql import functions as F

uri, table, out = sys.argv[1:]
frame = spark.read.parquet(table)
score = mlflow.pyfunc.spark_udf(spark, uri, env_manager="local")
frame.repartition(4).withColumn("found", score()).select("payment", "found.*").write.parquet(out)
spark.stop()
"""
)


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_the_udf_of_mlflow_gives_the_scores_of_dplan_score(model, new, tmp_path):
    import dplan.mlflow

    dplan.mlflow.save_model(model, tmp_path / "saved")
    new.write_parquet(tmp_path / "new.parquet")
    run_script(UDF, tmp_path, tmp_path / "saved", tmp_path / "new.parquet", tmp_path / "out")
    found = pl.read_parquet(tmp_path / "out" / "*.parquet").sort("payment")
    assert found["score"].to_list() == model.score(new.sort("payment")).tolist()


def test_the_requirements_name_this_version(logged):
    import dplan

    requirements = mlflow.pyfunc.get_model_dependencies(logged[0])
    assert re.search(
        rf"^dplan-ad\[mlflow\]=={re.escape(dplan.__version__)}$", Path(requirements).read_text(), re.M
    )
