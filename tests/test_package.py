"""The package as a whole: names, imports, command line."""

import json
import subprocess
import sys

import pytest

import dplan


def python(code):
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout


def test_every_public_name_is_there():
    for name in dplan.__all__:
        assert getattr(dplan, name) is not None
    assert set(dir(dplan)) == set(dplan.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = dplan.nothing


def test_star_imports_and_help_need_no_extra():
    extras = [
        "gymnasium",
        "matplotlib",
        "onnx",
        "pooch",
        "starlette",
        "uvicorn",
        "fastexcel",
        "xlsxwriter",
        "duckdb",
    ]
    missing = f"import sys; sys.modules.update(dict.fromkeys({[*extras, 'pandas', 'pyarrow']}))"
    assert "DPLANEnsemble" in python(f"{missing}; from dplan import *; print(DPLANEnsemble)")
    assert "DPLANEnsemble" in python(f"{missing}; import dplan; help(dplan)")


@pytest.mark.parametrize("statement", ["import dplan", "import dplan.cli.main", "import dplan.datasets"])
def test_importing_loads_nothing_heavy(statement):
    loaded = json.loads(python(f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"))
    heavy = {"numba", "sklearn", "scipy", "polars", "pandas", "matplotlib", "gymnasium"}
    assert not heavy & set(loaded)


def test_importing_leaves_global_random_states_alone():
    state = "random.getstate(), np.random.get_state()[1].tolist()"
    code = (
        "import random, numpy as np; random.seed(1); np.random.seed(1); "
        f"before = {state}; from dplan import DPLAN; print(before == ({state}))"
    )
    assert python(code).strip() == "True"


def test_the_command_line_tells_its_version_and_its_commands():
    run = subprocess.run(
        [sys.executable, "-m", "dplan", "--help"], capture_output=True, text=True, check=True
    )
    assert "demo" in run.stdout
    run = subprocess.run(
        [sys.executable, "-m", "dplan", "--version"], capture_output=True, text=True, check=True
    )
    assert dplan.__version__ in run.stdout
