"""Every Python block of the README and the docs runs, in order; links work; the map of the package is complete."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.test_doc_commands import PAGES as WITH_COMMANDS
from tests.test_import_graph import GRAPH

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page):
    return re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )


# The blocks of other pages run in their order, with commands between them.
ALONE = [page for page in PAGES if blocks(page) and page.name not in WITH_COMMANDS]


@pytest.mark.parametrize("page", ALONE, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page)), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_every_part_of_the_package_is_on_the_map():
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "dplan"
    folders = {f"`{path.parent.name}/`" for path in package.glob("*/__init__.py")}
    modules = {f"`{path.name}`" for path in package.glob("[a-z]*.py")}
    assert not [name for name in sorted(folders | modules) if f"| {name} |" not in page]


def test_imports_point_down_the_map():
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^\| `([a-z_]+)(?:/|\.py)` \|", page, flags=re.MULTILINE)
    place = {room: number for number, room in enumerate(rooms)}
    found = {
        (name, other)
        for name, others in GRAPH.items()
        for other in others
        if place.get(name.split(".")[0], -1) > place.get(other.split(".")[0], len(rooms))
    }
    assert found == set()


def test_algorithm_1_is_mapped_to_functions_that_exist():
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d, ]+) \|.*\| (.*) \|$", page, flags=re.MULTILINE)
    assert [int(line) for lines, _ in rows for line in lines.split(",")] == list(range(1, 19))
    for _, code in rows:
        functions = re.findall(r"`(\w+)\.(\w+)`", code)
        assert functions
        for module, function in functions:
            assert callable(getattr(import_module(f"dplan.agent.{module}"), function))
