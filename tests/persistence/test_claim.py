"""One writer per output; what can be foreseen is refused before the work."""

import errno
import fcntl
import os
import signal
import subprocess
import sys

import pytest

from dplan.persistence.claim import claimed
from tests.permissions import run_bound

HOLD = """
import sys, time
from dplan.persistence.claim import claimed
with claimed(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_claim_names_its_holder_and_ends_with_the_process(how, tmp_path):
    target = tmp_path / "a.csv"
    with subprocess.Popen([sys.executable, "-c", HOLD, target], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError) as error, claimed(target):
            pass
        assert f"process {holder.pid} on {os.uname().nodename}, since 2" in str(error.value)
        holder.send_signal(how)
    with claimed(target):
        assert (tmp_path / ".a.csv.lock").exists()
    assert not list(tmp_path.iterdir())


def test_another_name_of_the_same_file_is_the_same_claim(tmp_path):
    target, link = tmp_path / "a.csv", tmp_path / "link.csv"
    target.touch()
    link.symlink_to(target)
    with claimed(target), pytest.raises(BlockingIOError), claimed(link):
        pass
    with claimed(link) as real:
        assert real == target.resolve()


def test_inputs_are_compared_by_identity_and_not_by_name(tmp_path):
    table, hard, soft = (tmp_path / name for name in ("t.csv", "hard.csv", "soft.csv"))
    table.touch()
    hard.hardlink_to(table)
    soft.symlink_to(table)
    for output in (table, hard, soft, tmp_path / ".." / tmp_path.name / "t.csv"):
        with pytest.raises(ValueError, match="is also an input"), claimed(output, [table]):
            pass
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "part").touch()
    (tmp_path / "link").symlink_to(folder)
    for output in (folder / "out", tmp_path / "link" / "out"):
        with pytest.raises(ValueError, match="is inside the input folder"), claimed(output, [folder]):
            pass
    inside = pytest.raises(ValueError, match="is inside the output folder")
    with inside, claimed(folder, [folder / "part"], folder=True):
        pass
    with claimed(tmp_path / "new.csv", [table, folder]):
        pass


def test_targets_that_cannot_be_written_raise_before_the_work(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    cases = [
        (tmp_path / "folder", False, "a folder, not a file"),
        (tmp_path / "file", True, "a file, not a folder"),
        (tmp_path / "pipe", False, "not a regular file"),
        (tmp_path / "no" / "x", False, "cannot write x: the folder .*no does not exist"),
        (tmp_path / "file" / "x", False, "cannot write x: the folder .*file does not exist"),
    ]
    for target, folder, message in cases:
        with pytest.raises(OSError, match=message), claimed(target, folder=folder):
            pass


CLAIM = "import sys; from dplan.persistence.claim import claimed; claimed(sys.argv[1]).__enter__()"


def test_permissions_are_checked_first(tmp_path):
    read_only, closed = tmp_path / "file", tmp_path / "closed"
    read_only.touch(0o444)
    closed.mkdir(0o555)
    cases = [
        (read_only, f"PermissionError: {read_only} is read-only"),
        (closed / "new", f"PermissionError: no permission to write to the folder {closed}"),
    ]
    for target, message in cases:
        refused = run_bound("-c", CLAIM, target)
        assert refused.returncode == 1
        assert refused.stderr.splitlines()[-1] == message
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["closed", "file"]


def test_a_lock_does_not_follow_a_symbolic_link(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".a.csv.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic link"), claimed(tmp_path / "a.csv"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_lock_that_its_last_holder_removed_is_made_again(tmp_path, monkeypatch):
    lock, flock, calls = tmp_path / ".a.csv.lock", fcntl.flock, []

    def removed_meanwhile(descriptor, how):
        calls.append(descriptor)
        if len(calls) == 1:
            lock.unlink()  # by the holder, who was done after the file was opened here
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    with claimed(tmp_path / "a.csv"):
        assert lock.exists()
        with pytest.raises(BlockingIOError, match="another run is writing"), claimed(tmp_path / "a.csv"):
            pass
        assert lock.exists()  # only its holder removes it
    assert not list(tmp_path.iterdir())


def test_what_exists_is_only_replaced_if_asked_for(tmp_path):
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.touch()
    for target, beside in ((old, []), (new, [old])):
        refused = pytest.raises(FileExistsError, match=r"old.csv already exists; .*\(--overwrite\)")
        with refused, claimed(target, beside=beside, overwrite=False):
            pass
        with claimed(target, beside=beside):
            pass
    with claimed(new, overwrite=False):
        pass


def test_two_outputs_are_two_places(tmp_path):
    (tmp_path / "folder").mkdir()
    inside = tmp_path / "folder" / "errors.csv"
    for target, beside in ((tmp_path / "a.csv", tmp_path / "a.csv"), (tmp_path / "folder", inside)):
        refused = pytest.raises(ValueError, match="cannot be two outputs")
        with refused, claimed(target, beside=[beside], folder=target.is_dir()):
            pass
        with refused, claimed(beside, beside=[target]):
            pass
    with claimed(tmp_path / "folder", beside=[tmp_path / "errors.csv"], folder=True):
        assert (tmp_path / ".folder.lock").exists()
        assert (tmp_path / ".errors.csv.lock").exists()


def test_some_file_systems_have_no_locks(tmp_path, monkeypatch):
    def failing(number):
        def flock(descriptor, how):
            raise OSError(number, os.strerror(number))

        return flock

    for number in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
        monkeypatch.setattr(fcntl, "flock", failing(number))
        with claimed(tmp_path / "a.csv"):
            pass
    monkeypatch.setattr(fcntl, "flock", failing(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), claimed(tmp_path / "a.csv"):
        pass


def test_a_holder_that_has_just_started_has_not_said_who_it_is(tmp_path):
    (lock := tmp_path / ".a.csv.lock").touch()
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with (
            pytest.raises(BlockingIOError, match=r"writing to .*a\.csv: it has just started$"),
            claimed(tmp_path / "a.csv"),
        ):
            pass
