"""The journal on its own: torn lines, damage, compression."""

import gzip
import json

import pytest

from experiments.journal import FolderInUseError, Journal, JournalError, read_journal


def filled(folder, n=3):
    with Journal(folder) as journal:
        for number in range(n):
            journal.append({"kind": "note", "number": number})
    return folder / "journal.jsonl"


def numbers(records):
    return [record["number"] for record in records]


def test_a_line_torn_at_any_byte_is_cut_off_and_nothing_else(tmp_path):
    path = filled(tmp_path)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        assert numbers(read_journal(tmp_path)) == [0, 1]
        with Journal(tmp_path) as journal:
            assert numbers(journal.records) == [0, 1]
            journal.append({"kind": "note", "number": 9})
        assert numbers(read_journal(tmp_path)) == [0, 1, 9]


@pytest.mark.parametrize("damage", [b'{"kind": "cell", "numb', b"[1, 2]", b"\x00\xff"])
def test_damage_elsewhere_is_told_with_its_line(tmp_path, damage):
    path = filled(tmp_path)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], damage, lines[2], b""]))
    with pytest.raises(JournalError, match="line 2 is"):
        read_journal(tmp_path)
    with pytest.raises(JournalError, match="line 2 is"):
        Journal(tmp_path)


def test_a_compressed_journal_can_be_read(tmp_path):
    path = filled(tmp_path)
    packed = tmp_path / "results"
    packed.mkdir()
    (packed / "journal.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert read_journal(packed) == read_journal(tmp_path) == read_journal(packed / "journal.jsonl.gz")


def test_a_compressed_journal_is_not_begun_anew(tmp_path):
    path = filled(tmp_path)
    (tmp_path / "journal.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    with pytest.raises(JournalError, match=r"is compressed: run `gunzip journal\.jsonl\.gz` there first"):
        Journal(tmp_path)
    assert numbers(read_journal(tmp_path)) == [0, 1, 2]


def test_a_second_writer_is_refused_until_the_first_ends(tmp_path):
    with Journal(tmp_path), pytest.raises(FolderInUseError, match="another benchmark is writing to"):
        Journal(tmp_path)
    with Journal(tmp_path) as journal:
        journal.append({"kind": "note", "number": 1})


def test_no_number_is_written_that_json_does_not_have(tmp_path):
    with Journal(tmp_path) as journal, pytest.raises(ValueError, match="JSON compliant"):
        journal.append({"kind": "cell", "auc_pr": float("nan")})
    assert (tmp_path / "journal.jsonl").read_bytes() == b""


def valid(**changes):
    cell = {
        "kind": "cell", "status": "done", "suite": "steps", "dataset": "dos", "x": None, "scenario": "unsw_nb15/dos-v1",
        "method": "DPLAN", "seed": 0, "protocol": "fixed", "classes": {}, "known": [], "precision_at": {}, "curve": [],
        **{f"auc_{curve}{group}": 0.5 for curve in ("pr", "roc") for group in ("", "_known", "_unknown")},
        "fit_seconds": 1.0, "score_seconds": 1.0,
    }  # fmt: skip
    return {**cell, **changes}


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"kind": "cell"}, "the field 'suite' is missing"),
        ({"kind": "run", "command": "x"}, "the field 'time' is missing"),
        ({"auc_pr": 1}, "it has no kind"),
        (valid(auc_roc="high"), "the field 'auc_roc' is 'high'"),
        (valid(status="failed"), "the field 'error' is missing"),
        *[({k: v for k, v in valid().items() if k != name}, f"the field '{name}' is missing")
          for name in ("method", "seed", "auc_pr", "auc_pr_unknown", "classes", "curve", "fit_seconds")
         ],
    ],
)  # fmt: skip
def test_a_record_with_missing_or_wrong_fields_is_one_line(record, problem, tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps(valid()) + "\n" + json.dumps(record) + "\n")
    for read in (read_journal, Journal):
        with pytest.raises(JournalError) as error:
            read(tmp_path)
        assert str(error.value) == f"{path}, line 2 is not a valid record: {problem}"


def test_a_whole_record_is_read(tmp_path):
    (tmp_path / "journal.jsonl").write_text(json.dumps(valid()) + "\n")
    assert read_journal(tmp_path) == [valid()]


def test_where_no_journal_is_that_is_said(tmp_path):
    with pytest.raises(JournalError, match="cannot read the journal"):
        read_journal(tmp_path)
    (tmp_path / "file").write_text(json.dumps({}))
    with pytest.raises(JournalError, match="cannot use"):
        Journal(tmp_path / "file")
