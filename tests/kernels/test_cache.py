"""The cache of compiled kernels, with and without writable folders."""

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
from dplan._kernels.perceptron import rows_per_block
assert rows_per_block(1000, 196, 20) == 250
print(cache.place().kind.name, sum(rows_per_block.stats.cache_hits.values()))
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
    """Return a home folder that is not writable."""
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    return home


def protect(folder):
    subprocess.run(["chmod", "-R", "a-w", str(folder)], check=True)


def test_the_package_folder_is_used_if_it_is_writable(installed, no_home):
    assert run(installed, no_home) == ("PACKAGE", 0, "")
    assert run(installed, no_home) == ("PACKAGE", 1, "")


def test_kernels_of_an_image_are_loaded_from_a_read_only_folder(installed, no_home):
    run(installed, no_home)  # when the image is built
    protect(installed)
    assert run(installed, no_home, str(no_home)) == ("READ_ONLY", 1, "")


def test_the_users_folder_is_used_if_the_package_is_read_only(installed, tmp_path):
    protect(installed)
    home = tmp_path / "own"
    home.mkdir()
    assert run(installed, home) == ("USER", 0, "")
    assert run(installed, home) == ("USER", 1, "")


def test_without_a_home_a_private_temporary_folder_is_used_with_a_warning(installed, no_home, tmp_path):
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


def test_without_any_folder_kernels_work_with_a_warning(installed, no_home):
    protect(installed)
    kind, hits, said = run(installed, no_home, str(no_home))
    assert (kind, hits) == ("NONE", 0)
    assert said.count("cannot be cached") == 1
    assert "dplan doctor --warm-up" in said


def test_the_users_choice_comes_first(installed, no_home, tmp_path):
    chosen = str(tmp_path / "chosen")
    assert run(installed, no_home, NUMBA_CACHE_DIR=chosen) == ("CHOSEN", 0, "")
    assert run(installed, no_home, NUMBA_CACHE_DIR=chosen) == ("CHOSEN", 1, "")
