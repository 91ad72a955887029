"""Files and folders are replaced whole, with their mode, where links lead."""

import os
import stat

import pytest

from dplan.persistence import atomic
from dplan.persistence.atomic import atomic_write, replace_folder


def write(path, text):
    with atomic_write(path) as temporary:
        temporary.write_text(text)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664])
def test_a_replaced_file_keeps_its_mode_and_a_new_one_follows_the_umask(kept, umask, tmp_path):
    path = tmp_path / "a.txt"
    write(path, "new")
    assert mode(path) == 0o640
    path.chmod(kept)
    with atomic_write(path) as temporary:
        assert mode(temporary) == kept  # never wider, not even for a moment
        temporary.write_text("newer")
    assert (path.read_text(), mode(path)) == ("newer", kept)


def test_a_symbolic_link_keeps_pointing_to_the_new_content(tmp_path):
    (tmp_path / "real").mkdir()
    link, target = tmp_path / "link.txt", tmp_path / "real" / "a.txt"
    link.symlink_to(target)
    for text in ("new", "newer"):  # the first time it leads nowhere
        write(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert [path.name for path in target.parent.iterdir()] == ["a.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(error):
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise error

    for error in (ValueError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error):
            fail(error)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_content_is_flushed_before_the_file_is_renamed(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor):
        calls.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda *paths: calls.append("replace") or replace(*paths))
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    write(tmp_path / "a.txt", "new")
    assert calls[0].startswith(".a.")
    assert calls[1:] == ["replace", tmp_path.name]


@pytest.mark.parametrize("in_one_step", [True, False])
def test_a_folder_is_replaced_with_all_its_files(in_one_step, tmp_path, monkeypatch):
    if not in_one_step:
        monkeypatch.setattr(atomic, "_exchanged", lambda *_: False)
    target = tmp_path / "target"
    for names in (["a", "b"], ["b", "c"]):
        new = tmp_path / "new"
        new.mkdir()
        for name in names:
            (new / name).write_text(name)
        replace_folder(new, target)
        assert sorted(path.name for path in target.iterdir()) == names
        assert list(tmp_path.iterdir()) == [target]
        target.chmod(0o711)
    assert mode(target) == 0o711
