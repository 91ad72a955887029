"""The blocks of the page about production that need Spark or MLflow run as written."""

import os
import re
import shutil
import subprocess
import sys

import polars as pl
import pytest

from tests.conftest import PROJECT

pytest.importorskip("pyspark", reason="the extra [spark] is not installed; run  make test-integrations")
pytest.importorskip("mlflow", reason="the extra [mlflow] is not installed; run  make test-integrations")

PAGE = (PROJECT / "docs" / "production.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```py\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_there_are_recipes():
    for library in ("dplan.spark", "dplan.mlflow"):
        assert any(library in block for block in BLOCKS)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: re.search(r"import (\S+)", block)[1])
def test_a_recipe_runs(block, model_path, model, table, tmp_path):
    if "pyspark" in block and shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    shutil.copy(model_path, tmp_path / "payments.dplan")
    for number in range(4):
        table[number::4].drop("verdict").write_parquet(tmp_path / f"part-{number}.parquet")
    # MLflow keeps the experiment of this process, which is another test's, in the environment.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    environment = {
        **inherited,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    new, scores = table.drop("verdict"), model.score(table).tolist()
    for written in tmp_path.glob("scored-by-*"):
        found = new.select("payment").join(pl.read_parquet(written / "*.parquet"), on="payment", how="left")
        assert found["score"].to_list() == scores
