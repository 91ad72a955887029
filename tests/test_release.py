"""What would be uploaded: a wheel and an sdist, with a page, licences and a citation that are right."""

import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import dplan

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def metadata(built):
    with zipfile.ZipFile(built[0]) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(wheel.read(name))


def test_the_page_of_the_package_has_no_dead_links(metadata):
    page = metadata.get_payload(decode=True).decode()
    assert metadata["Description-Content-Type"] == "text/markdown"
    targets = re.findall(r"\]\(([^)]*)\)", page)
    assert targets
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in page.splitlines()
        if line.startswith("#")
    }
    assert {target[1:] for target in targets if target.startswith("#")} <= headings
    assert "```python" in page
    assert "  \n\n\n" not in page


def test_licences_have_their_texts(built, metadata):
    assert metadata["License-Expression"] == "BSD-3-Clause AND CC-BY-4.0"
    assert set(metadata.get_all("License-File")) == {"LICENSE", "LICENSES/CC-BY-4.0.txt"}
    with zipfile.ZipFile(built[0]) as wheel:
        (text,) = [wheel.read(name) for name in wheel.namelist() if name.endswith("CC-BY-4.0.txt")]
    assert b"Attribution 4.0 International" in text


def test_the_sdist_has_what_the_wheel_is_built_from(built):
    with tarfile.open(built[1]) as sdist:
        names = [Path(*Path(name).parts[1:]) for name in sdist.getnames()]
    tops = {path.parts[0] for path in names if path.parts}
    assert tops - {".gitignore"} == {
        "src", "CHANGELOG.md", "CITATION.cff", "LICENSE", "LICENSES", "README.md", "hatch_build.py",
        "pyproject.toml", "PKG-INFO",
    }  # fmt: skip
    assert built[1].stat().st_size < 2_000_000


def test_every_place_has_the_same_version(metadata):
    assert metadata["Version"] == dplan.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, flags=re.MULTILINE)[1] == dplan.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[(.*?)\]", changelog, flags=re.MULTILINE)[1] == dplan.__version__
    assert not any("example" in url for url in metadata.get_all("Project-URL") or [])
