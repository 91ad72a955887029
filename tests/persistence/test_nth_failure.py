"""Every call of the system that writes fails once, the first, the second and so on: a file is the old or the new one.

Unlike kills at random moments, this is exhaustive: n grows until nothing fails any more.
"""

import builtins
import errno
import fcntl
import io
import os
import shutil
import sys
from contextlib import contextmanager

import pytest

from dplan.exceptions import VerdictLogError
from dplan.persistence.atomic import atomic_write, replace_folder, store
from dplan.persistence.claim import claimed
from dplan.review.log import VerdictLog, read_log

CALLS = [
    (os, "open"), (os, "write"), (os, "pwrite"), (os, "fsync"), (os, "replace"), (os, "rename"), (os, "ftruncate"),
    (os, "mkdir"), (fcntl, "flock"), (io, "open"), (builtins, "open"),
]  # fmt: skip


@contextmanager
def failing(n, number, monkeypatch, folder=None):
    """Let the n-th of these calls fail; yield a list that then has its name.

    With a folder, calls with the path of a file elsewhere do not count, such as those of libraries. Nor do those that
    remove a temporary folder: if that fails, it stays.
    """
    count, failed = [0], []

    def counted(function, name):
        def call(*arguments, **options):
            path = arguments[0] if arguments and isinstance(arguments[0], str | os.PathLike) else None
            elsewhere = path is not None and not os.fspath(path).startswith(os.fspath(folder or path))
            if elsewhere or sys._getframe(1).f_code.co_filename == shutil.__file__:
                return function(*arguments, **options)
            count[0] += 1
            if count[0] == n:
                failed.append(name)
                raise OSError(number, os.strerror(number), *([] if path is None else [os.fspath(path)]))
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patched:
        for module, name in CALLS:
            patched.setattr(module, name, counted(getattr(module, name), name))
        yield failed


def verdict(row):
    return {
        "kind": "verdict", "row": [row], "digest": "d", "number": 0, "model": "m", "round": 0, "score": 1.5, "rank": 1,
        "reasons": [], "verdict": "normal", "class": "", "who": "me", "window": "w", "seconds": 0.5, "together": 1,
    }  # fmt: skip


def write_atomically(folder):
    with claimed(folder / "out.txt"), atomic_write(folder / "out.txt") as temporary:
        temporary.write_text("new")


def store_model(folder):
    store(folder / "out.txt", b"new")


def replace_a_folder(folder):
    with claimed(folder / "out", folder=True):
        (folder / ".new").mkdir()
        try:
            (folder / ".new" / "a.txt").write_text("new")
            replace_folder(folder / ".new", folder / "out")
        finally:
            if (folder / ".new").exists():
                for path in (folder / ".new").iterdir():
                    path.unlink()
                (folder / ".new").rmdir()


def contents(folder):
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


WRITERS = {
    write_atomically: ({"out.txt": "old"}, {"out.txt": "new"}),
    store_model: ({"out.txt": "old"}, {"out.txt": "new"}),
    replace_a_folder: ({"out/a.txt": "old", "out/b.txt": "old"}, {"out/a.txt": "new"}),
}
NUMBERS = [errno.ENOSPC, errno.EIO, errno.EINTR]


@pytest.mark.parametrize("number", NUMBERS, ids=errno.errorcode.get)
@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_a_file_is_the_old_or_the_new_one_whatever_fails(write, number, tmp_path, monkeypatch):
    old, new = WRITERS[write]
    for n in range(1, 100):
        folder = tmp_path / str(n)
        for name, text in old.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        error = None
        with failing(n, number, monkeypatch) as failed:
            try:
                write(folder)
            except OSError as caught:
                error = caught
        found = contents(folder)
        if "flock" in failed:  # somebody else may hold the lock, so it stays
            found = {name: text for name, text in found.items() if not name.endswith(".lock")}
        if not failed:
            assert (found, error) == (new, None)
            break
        # Only the sync of the folder comes after the rename.
        assert found in (old, new), (n, failed)
        assert error is not None or found == new
    assert 5 < n < 100


@pytest.mark.parametrize("number", NUMBERS, ids=errno.errorcode.get)
def test_a_verdict_is_saved_or_refused_whatever_fails(number, tmp_path, monkeypatch):
    for n in range(1, 100):
        path, saved, errors = tmp_path / f"{n}.jsonl", [], []
        with failing(n, number, monkeypatch) as failed:
            try:
                with VerdictLog(path) as log:
                    for row in "ab":
                        try:
                            log.append(verdict(row))
                            saved.append(row)
                        except VerdictLogError as error:
                            errors.append(f"{error}")
            except VerdictLogError as error:
                errors.append(f"{error}")
        assert all("cannot write to" in error for error in errors)  # a sentence, with the name of the file
        found = [record["row"][0] for record in read_log(path)] if path.exists() else []
        assert found == saved, (n, failed)
        with VerdictLog(path) as log:  # nothing is locked, and it goes on
            log.append(verdict("c"))
        assert [record["row"][0] for record in read_log(path)] == [*saved, "c"]
        assert sorted(tmp_path.glob(".*")) == []  # no lock either
        if not failed:
            break
    assert saved == ["a", "b"]
    assert 5 < n < 100
