"""Files and folders are replaced whole, with their mode, where links lead."""

import errno
import os
import re
import stat
import sys
from pathlib import Path

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


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_an_error_after_the_rename_says_that_the_new_file_is_there(number, tmp_path, monkeypatch):
    fsync = os.fsync

    def failing(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    (tmp_path / "a.txt").write_text("old")
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=rf"a\.txt was written, but .*\({os.strerror(number)}\)") as caught:
        write(tmp_path / "a.txt", "new")
    assert caught.value.errno is None  # or a command would show its own words for it
    assert (tmp_path / "a.txt").read_text() == "new"
    (tmp_path / "new").mkdir()
    with pytest.raises(OSError, match=os.strerror(number)) as caught:  # of a folder, before it is renamed
        replace_folder(tmp_path / "new", tmp_path / "target")
    assert "was written" not in str(caught.value)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("in_one_step", [True, False])
def test_a_folder_is_replaced_with_all_its_files(in_one_step, tmp_path, monkeypatch):
    if not in_one_step:
        monkeypatch.setattr(atomic, "exchanged", lambda *_: False)
    target = tmp_path / "target"
    for names in (["a", "b"], ["b", "c"]):
        new = tmp_path / "new"
        new.mkdir()
        for name in names:
            (new / name).write_text(name)
        replace_folder(new, target)
        assert sorted(path.name for path in target.iterdir()) == names
        assert list(tmp_path.iterdir()) == [target]
        if names == ["a", "b"]:
            target.chmod(0o711)
    assert mode(target) == 0o711


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_folder_and_its_files_are_on_disk_before_and_after(tmp_path, monkeypatch):
    new, synced, fsync, rename = tmp_path / "new", [], os.fsync, os.rename
    new.mkdir()
    (new / "a").write_text("a")

    def noting(descriptor):
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    monkeypatch.setattr(os, "rename", lambda *paths: synced.append("rename") or rename(*paths))
    replace_folder(new, tmp_path / "target")
    assert synced == ["a", "new", "rename", tmp_path.name]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can")
def test_two_paths_are_exchanged_in_one_step(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, other = Path("one"), Path("other")
    one.write_text("1")
    other.mkdir()
    assert atomic.exchanged(one, other)
    assert (other.read_text(), one.is_dir()) == ("1", True)
    assert not atomic.exchanged(one, Path("no such file"))


def test_a_temporary_file_is_private_and_named_so_that_it_can_be_recognised(tmp_path, monkeypatch):
    path, made, opened = tmp_path / "a.csv", [], os.open

    def noting(name, flags, permissions=0o777, **options):
        if flags & os.O_CREAT:
            made.append((os.path.basename(name), bool(flags & os.O_EXCL), permissions))
        return opened(name, flags, permissions, **options)

    monkeypatch.setattr(os, "open", noting)
    for _ in range(2):
        write(path, "new")
    assert [(own, permissions) for _, own, permissions in made] == [(True, 0o666), (True, 0o600)]
    assert all(re.fullmatch(r"\.a\.[0-9a-f]{12}\.tmp\.csv", name) for name, _, _ in made)


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files as Linux lists them")
def test_no_file_stays_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for content in "ab":
        with atomic_write(tmp_path / "a.txt") as temporary:
            temporary.write_text(content)
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_error_without_a_path_gets_that_of_the_output_and_others_keep_theirs(tmp_path):
    for given, named in ((None, "a.txt"), ("other.txt", "other.txt")):
        with pytest.raises(OSError, match="No space left") as caught, atomic_write(tmp_path / "a.txt"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *([] if given is None else [given]))
        assert Path(caught.value.filename).name == named
