import inspect
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

import dplan
from dplan.cli.main import main
from dplan.detectors._base import Detector


def test_every_detector_is_listed_and_public():
    entries = dplan.list_detectors()
    assert len({entry.name for entry in entries}) == len(entries)
    listed = {entry.detector for entry in entries}
    public = {getattr(dplan, name) for name in dplan.__all__}
    assert listed == {kind for kind in public if isinstance(kind, type) and issubclass(kind, Detector)}


@pytest.mark.parametrize("entry", dplan.list_detectors(), ids=lambda entry: entry.name)
def test_every_parameter_is_documented_once(entry):
    section = entry.detector.__doc__.split("Parameters\n----------\n")[1].split("\n\n")[0]
    documented = [name for line in re.findall(r"(?m)^(\w[\w, ]*) : ", section) for name in line.split(", ")]
    assert sorted(documented) == sorted(inspect.signature(entry.detector).parameters)
    assert f"Called after each {entry.detector.round_name} " in section


def test_entries_match_their_classes():
    for entry in dplan.list_detectors():
        assert getattr(dplan, entry.name) is entry.detector
        assert entry.detector.uses_labels == entry.uses_labels
        assert isinstance(entry.create(random_state=0), Detector)
        assert entry.paper
        assert entry.title
        if not entry.uses_labels:
            assert "ignores labels" in entry.detector.__doc__


def test_the_command_line_lists_them():
    shown = CliRunner().invoke(main, ["detectors"], env={"COLUMNS": "200"}, catch_exceptions=False)
    lines = shown.output.splitlines()
    for entry in dplan.list_detectors():
        line = next(line for line in lines if f" {entry.name} " in line)
        assert entry.title in line
        assert ("used" if entry.uses_labels else "ignored") in line


def test_the_list_is_a_copy():
    dplan.list_detectors().clear()
    assert dplan.list_detectors()


@pytest.mark.parametrize(
    "listing",
    [
        "import dplan; dplan.list_detectors()",
        "from dplan.cli.main import main; main(['detectors'], standalone_mode=False)",
    ],
)
def test_listing_imports_no_detector(listing):
    code = f"import sys; {listing}; print(*{{'sklearn', 'numba'}} & set(sys.modules), file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not run.stderr.split()
