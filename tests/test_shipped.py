"""What the package ships is what a user runs."""

import ast
import re
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

import dplan
from tests.test_import_graph import DOORS, GRAPH, MODULES, module_of
from tests.test_one_place import CODE

PACKAGE = Path(dplan.__file__).parent
PROJECT = PACKAGE.parents[1]

LONGEST_MODULE = 350


def test_the_wheel_contains_the_package_alone(tmp_path):
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"dplan"}
    shipped = {name for name in names if name.endswith(".py")}
    assert shipped == {str(path.relative_to(PACKAGE.parent).as_posix()) for path in PACKAGE.rglob("*.py")}


def test_every_module_is_reached_by_a_public_name_or_a_command():
    """From what people import and type; a module that nothing reaches is dead."""
    # Besides what the front door names: integrations, the algorithm to read, and the process of a review.
    waiting = ["", "__main__", "spark", "mlflow", "agent.reference", "review.worker"]
    waiting += [name for name in MODULES if name.startswith("cli.")]  # loaded by the name of the command
    waiting += sorted(set().union(*DOORS.values()))
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [*GRAPH[name], *named_by_stub(name), name.rpartition(".")[0]]
    assert set(MODULES) - reached == set()


def named_by_stub(name: str) -> list[str]:
    """Return the modules of the names that a package loads on first use."""
    stub = PACKAGE.joinpath(*name.split(".")) / "__init__.pyi"
    if not stub.exists():
        return []
    nodes = [
        node
        for node in ast.walk(ast.parse(stub.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    ]
    found = [
        f"{node.module}.{alias.name}" if node.module else alias.name for node in nodes for alias in node.names
    ]
    return [module_of(f"{name}.{own}".removeprefix(".")) for own in found]


def test_everything_is_used_in_the_package_or_documented():
    """What only experiments and tests use belongs to them."""
    documented = (PROJECT / "docs" / "_site" / "api.py").read_text(encoding="utf-8")
    stubs = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.pyi"))
    used = Counter(re.findall(r"\w+", "\n".join([*CODE.values(), stubs, documented])))
    alone = set()
    for name in MODULES:
        for node in ast.parse(CODE[name]).body:
            known = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
            if known and not node.decorator_list and used[node.name] < 2 + (f"'{node.name}'" in CODE[name]):
                alone.add(f"{name}.{node.name}")
    # What people import from there by the names of these modules.
    assert alone == {"agent.reference.Algorithm1", "mlflow.load_model"}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_read_in_one_sitting(name):
    n_lines = len(MODULES[name].read_text(encoding="utf-8").splitlines())
    assert n_lines <= LONGEST_MODULE, "there is probably more than one idea inside"
