"""The recipe for Dask in the page about clusters, run as written on a cluster of two processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("distributed", reason="the extra [dask] is not installed")

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


def test_the_recipe_scores_every_part(model, model_path, table, tmp_path):
    blocks = re.findall(
        r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    (recipe,) = [block for block in blocks if "distributed" in block]
    (tmp_path / "recipe.py").write_text(recipe, encoding="utf-8")
    (tmp_path / "payments.dplan").write_bytes(model_path.read_bytes())
    for number, rows in enumerate(np.array_split(np.arange(table.height), 4)):
        table[rows].write_parquet(tmp_path / f"part-{number}.parquet")
    run = subprocess.run(
        [sys.executable, "recipe.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONWARNINGS": "ignore"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = pl.concat(
        pl.read_parquet(tmp_path / "scored-by-dask" / f"part-{number}.parquet") for number in range(4)
    )
    assert found["payment"].to_list() == table["payment"].to_list()
    np.testing.assert_array_equal(found["score"], model.score(table))
    np.testing.assert_array_equal(found["alert"], model.is_alert(model.score(table)))
