"""What a person did with an earlier version is opened by this one: verdicts, queues, kinds and interrupted runs."""

import datetime
import json
import shutil

import polars as pl
import pytest

from dplan.review.export import export_labels
from dplan.review.log import Standing, VerdictLog, read_log
from dplan.review.table import TableFile
from dplan.rules.file import RuleFile
from dplan.tables import Input, TableModel, read_queue
from tests.persistence.golden_work import GOLDEN, N_ROWS, N_VERDICTS, score, write


@pytest.fixture(params=sorted(GOLDEN.glob("work-*")), ids=lambda folder: folder.name)
def work(request, tmp_path):
    return shutil.copytree(request.param, tmp_path / "work")


def test_a_log_of_verdicts_is_read_continued_and_finds_its_rows(work):
    records = read_log(work / "verdicts.jsonl")
    assert len(Standing(records).current) == N_VERDICTS
    done = export_labels(records, TableFile(Input(work / "table.csv"), ("payment",)), work / "labels.csv")
    assert (done.rows, done.labelled, done.unmatched) == (N_ROWS, N_VERDICTS, 0)
    with VerdictLog(work / "verdicts.jsonl") as log:
        log.append({"kind": "undo", "of": [records[-1]["n"]], "who": "", "window": ""})
        assert len(log.verdicts.current) == N_VERDICTS - 1


def test_a_review_queue_is_read(work):
    judged = read_queue(TableModel.load(work / "model.dplan"), work / "queue.csv")
    assert judged.y.tolist() == [1, -1]
    assert judged.bad is None or judged.bad.height == 0


def test_kinds_are_read_and_their_rules_select_rows(work):
    kinds = RuleFile.load(work / "kinds.json")
    (muted,) = [kind for kind in kinds.kinds if kind.about["muted"]]
    assert muted.about["muted"]["owner"] == "ann"
    until = datetime.date.fromisoformat(muted.about["muted"]["until"])
    assert muted.is_muted(until)
    rows = pl.read_csv(work / "table.csv", try_parse_dates=True)
    assert rows.filter(muted.rule.expression()).height == 7
    kinds.save(work / "again.json")
    assert RuleFile.load(work / "again.json") == kinds


def test_an_interrupted_run_is_resumed_or_made_again(work, tmp_path):
    """Another version does not reuse what was scored, but it must neither fail nor leave it behind."""
    assert sorted((work / ".scored.csv.parts").glob("part-*"))
    score(work)
    assert not (work / ".scored.csv.parts").exists()
    fresh = shutil.copytree(work, tmp_path / "fresh", ignore=shutil.ignore_patterns("scored.csv"))
    score(fresh)
    assert (work / "scored.csv").read_bytes() == (fresh / "scored.csv").read_bytes()


def test_the_golden_files_are_what_is_written_today(tmp_path):
    """A change of what is stored must be seen: then keep this folder, and write one of the new version beside it."""
    newest = sorted(GOLDEN.glob("work-*"))[-1]
    write(tmp_path / "work")
    names = {"table.csv", "queue.csv", "model.dplan", "verdicts.jsonl", "kinds.json", ".scored.csv.parts"}
    assert (
        {path.name for path in newest.iterdir()}
        == {path.name for path in (tmp_path / "work").iterdir()}
        == names
    )
    queues = [pl.read_csv(folder / "queue.csv", infer_schema=False) for folder in (newest, tmp_path / "work")]
    assert queues[0].columns == queues[1].columns
    fields = [
        [sorted(line) for line in read_log(folder / "verdicts.jsonl")]
        for folder in (newest, tmp_path / "work")
    ]
    assert fields[0] == fields[1]
    kinds = [json.loads((folder / "kinds.json").read_text()) for folder in (newest, tmp_path / "work")]
    assert [keys(one) for one in kinds[:1]] == [keys(one) for one in kinds[1:]]


def keys(value):
    """Return what JSON consists of, without its values."""
    if isinstance(value, dict):
        return {name: keys(own) for name, own in value.items()}
    return [keys(own) for own in value] if isinstance(value, list) else type(value)
