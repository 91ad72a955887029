"""Outputs are old or new, whole and of one run, whenever commands are killed and however many write at once."""

import json
import subprocess
import sys

import numpy as np
import pytest

from dplan import DPLAN
from dplan.tables import fit_table, from_table
from tests.conftest import PROJECT
from tests.tables.payments import payments

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks, and sends signals")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    table = payments(2000)
    table.write_csv(folder / "in.csv")
    (folder / "parts").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(table.height), 4)):
        table[rows].write_parquet(folder / "parts" / f"{number}.parquet")
    own = from_table(table, label="verdict", anomaly=["fraud"], id="payment")
    for name, n_steps in (("old", 200), ("new", 300)):
        detector = DPLAN(n_steps=n_steps, warmup_steps=100, n_trees=5, random_state=0)
        fit_table(own, detector, estimate=False).save(folder / f"{name}.dplan")
    return folder


def counted(what, n, folder):
    command = [sys.executable, "-m", "tests.cli.kills_and_races", what, str(n), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    print(f"\n{n} {what}: {found}")  # noqa: T201
    return found


@pytest.mark.parametrize("n", [12, pytest.param(150, marks=pytest.mark.soak)])
def test_a_killed_command_leaves_the_old_output_or_the_new_one(n, folder):
    found = counted("kills", n, folder)
    assert found["old"] + found["new"] == n
    assert found["killed"] >= n / 2
    assert found["mixed"] == found["reruns that differ"] == found["left behind"] == 0


@pytest.mark.parametrize("n", [12, pytest.param(200, marks=pytest.mark.soak)])
def test_two_commands_that_write_one_output_give_one_of_both(n, folder):
    found = counted("races", n, folder)
    assert found["one refused"] > 0
    assert found["both refused"] == found["wrong"] == found["left behind"] == 0
