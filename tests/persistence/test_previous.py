"""The file that was replaced last is kept, and exchanged with its successor, on any file system."""

import os
import re

import pytest

from dplan.persistence import previous as module
from dplan.persistence.previous import exchange, previous, replace_keeping


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    replace_keeping(tmp_path / "a.txt", b"new")
    return tmp_path / "a.txt"


def contents(path):
    """Return what both files have, which must be all that there is."""
    assert sorted(path.parent.iterdir()) == [path, previous(path)]
    return path.read_text(), previous(path).read_text()


@pytest.mark.parametrize("at_once", [True, False])
def test_two_files_are_exchanged_and_on_disk(at_once, path, monkeypatch):
    synced = []
    monkeypatch.setattr(module, "flush_name", synced.append)
    if not at_once:
        monkeypatch.setattr(module, "exchanged", lambda one, other: False)
    exchange(path)
    assert (contents(path), synced) == (("old", "new"), [path])
    exchange(path)
    assert contents(path) == ("new", "old")


def test_without_hard_links_the_old_file_is_copied(path, monkeypatch):
    def refuse(*paths):
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    replace_keeping(path, b"newest")
    assert contents(path) == ("newest", "new")


def test_a_file_that_is_kept_already_leaves_nothing_behind(path):
    """As after a kill between the two steps: both names are of one file, and renaming one to the other does nothing."""
    previous(path).unlink()
    os.link(path, previous(path))
    replace_keeping(path, b"newest")
    assert contents(path) == ("newest", "new")


def test_a_further_name_can_be_recognised(path, monkeypatch):
    names, link = [], os.link
    monkeypatch.setattr(os, "link", lambda one, other: names.append(other.name) or link(one, other))
    replace_keeping(path, b"newest")
    assert [bool(re.fullmatch(r"\.a\.[0-9a-f]{12}\.tmp\.txt", name)) for name in names] == [True]
