"""Where compiled kernels are kept: with and without folders that can be written to."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dplan._kernels.cache import PACKAGE
from tests.permissions import run_bound

# Uses one small kernel; tells where kernels are kept, and whether this one was loaded and not compiled.
PROGRAM = """
import sys, tempfile
if sys.argv[1:]: tempfile.tempdir = sys.argv[1]
from dplan._kernels import cache
from dplan._kernels.perceptron import piece_rows
assert piece_rows(1000, 196, 20) == 250
print(cache.place().kind.name, sum(piece_rows.stats.cache_hits.values()))
"""


def run(package: Path, home: Path, *arguments: str, **environment: str) -> tuple[str, int, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG"))}
    done = run_bound(
        "-c",
        PROGRAM,
        *arguments,
        env={**kept, "PYTHONPATH": str(package), "HOME": str(home), **environment},
    )
    assert done.returncode == 0, done.stderr
    kind, hits = done.stdout.split()
    return kind, int(hits), done.stderr


@pytest.fixture
def installed(tmp_path):
    """Give a copy of the package without any kernel."""
    folder = tmp_path / "installed"
    shutil.copytree(PACKAGE, folder / "dplan", ignore=shutil.ignore_patterns("__pycache__", "data"))
    for part in ("_kernels", ""):
        (folder / "dplan" / part / "__pycache__").mkdir(exist_ok=True)
    yield folder
    subprocess.run(["chmod", "-R", "u+w", str(tmp_path)], check=True)


@pytest.fixture
def no_home(tmp_path):
    """Give a home that cannot be written to."""
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    return home


def protect(folder):
    subprocess.run(["chmod", "-R", "a-w", str(folder)], check=True)


def test_beside_the_package_where_that_can_be_written_to(installed, no_home):
    assert run(installed, no_home) == ("PACKAGE", 0, "")
    assert run(installed, no_home) == ("PACKAGE", 1, "")


def test_kernels_of_an_image_are_loaded_though_nothing_can_be_written(installed, no_home):
    run(installed, no_home)  # when the image is built
    protect(installed)
    assert run(installed, no_home, str(no_home)) == ("READ_ONLY", 1, "")


def test_in_the_users_folder_if_the_package_is_protected(installed, tmp_path):
    protect(installed)
    home = tmp_path / "own"
    home.mkdir()
    assert run(installed, home) == ("USER", 0, "")
    assert run(installed, home) == ("USER", 1, "")


def test_without_a_home_a_private_temporary_folder_is_used_and_said(installed, no_home, tmp_path):
    protect(installed)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    kind, hits, said = run(installed, no_home, str(temporary))
    assert (kind, hits) == ("TEMPORARY", 0)
    assert f"cached in {temporary}" in said
    assert "NUMBA_CACHE_DIR" in said
    assert run(installed, no_home, str(temporary))[:2] == ("TEMPORARY", 1)


def test_a_temporary_folder_that_others_can_write_to_is_not_trusted(installed, no_home, tmp_path):
    protect(installed)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    shared = temporary / f"dplan-kernels-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    kind, _, said = run(installed, no_home, str(temporary))
    assert kind == "NONE"
    assert "cannot be cached" in said


def test_without_any_folder_kernels_work_and_a_line_says_what_it_costs(installed, no_home):
    protect(installed)
    kind, hits, said = run(installed, no_home, str(no_home))
    assert (kind, hits) == ("NONE", 0)
    assert said.count("cannot be cached") == 1
    assert "dplan doctor --warm-up" in said


def test_the_users_choice_comes_first(installed, no_home, tmp_path):
    chosen = str(tmp_path / "chosen")
    assert run(installed, no_home, NUMBA_CACHE_DIR=chosen) == ("CHOSEN", 0, "")
    assert run(installed, no_home, NUMBA_CACHE_DIR=chosen) == ("CHOSEN", 1, "")
