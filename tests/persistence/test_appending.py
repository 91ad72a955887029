"""Lines that are appended are on disk when they count, and nothing else of the file changes."""

import os

import pytest

from dplan.persistence.appending import AppendedFile


def test_a_line_is_synced_to_disk_before_it_counts(tmp_path, monkeypatch):
    path, synced, fsync = tmp_path / "a.jsonl", [], os.fsync

    def noting(descriptor):
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            synced.append(path.read_bytes())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    file = AppendedFile(path)
    file.append(b"one\n")
    file.append(b"two\n")
    file.close()
    assert synced == [b"one\n", b"one\ntwo\n"]


def test_a_line_that_cannot_be_synced_is_taken_back(tmp_path, monkeypatch):
    file = AppendedFile(tmp_path / "a.jsonl")
    file.append(b"one\n")

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as later:
        later.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            file.append(b"two\n")
    file.append(b"three\n")
    file.close()
    assert (tmp_path / "a.jsonl").read_bytes() == b"one\nthree\n"


def test_everybody_may_read_a_new_file_and_only_its_owner_may_write(tmp_path):
    before = os.umask(0)
    try:
        AppendedFile(tmp_path / "a.jsonl").close()
    finally:
        os.umask(before)
    assert (tmp_path / "a.jsonl").stat().st_mode & 0o777 == 0o644
