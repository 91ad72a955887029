"""Every call of a command that opens, writes, syncs, renames or locks one of its files fails once.

The output is then the old one or the new one, the message is a sentence, nothing is left behind, and the same command
succeeds afterwards. `make soak` tries each call with every error, `make test` with one of them.
"""

import errno
import os
import shutil

import pytest

from dplan import IForest
from dplan.persistence.claim import claimed
from dplan.review.log import VerdictLog, read_log
from dplan.rules.file import Kind, RuleFile
from dplan.rules.muting import muted
from dplan.rules.rule import Condition, Rule
from dplan.tables import fit_table, from_table
from tests.cli.test_tables import run
from tests.persistence.test_nth_failure import NUMBERS, failing
from tests.review.test_log import verdict
from tests.tables.payments import payments

COMMANDS = {
    "fit": "fit {0}/table.csv --label verdict --anomaly fraud --detector iforest --set n_estimators=5 --no-estimate "
    "--on-error skip --overwrite -o {0}/out.dplan",
    "score": "score {0}/table.csv -m {0}/model.dplan --on-error skip --overwrite -o {0}/out.csv",
    "score into a folder": "score {0}/tables -m {0}/model.dplan --overwrite -o {0}/scored",
    "score --review": "score {0}/table.csv -m {0}/model.dplan --on-error skip --overwrite --review {0}/out.csv",
    "update": "update {0}/learner.dplan {0}/new.csv --no-estimate --overwrite",
    "update --undo": "update --undo {0}/learned.dplan",
    "kinds": "kinds {0}/model.dplan {0}/table.csv --budget 30 --on-error skip --overwrite -o {0}/out.json",
    "rules mute": "rules mute {0}/kinds.json one --owner ann --reason harmless -m {0}/model.dplan "
    "--known {0}/new.csv",
    "rules unmute": "rules unmute {0}/kinds.json other",
    "report": "report {0}/model.dplan {0}/table.csv --on-error skip --overwrite -o {0}/out.html",
    "export": "export {0}/model.dplan --overwrite --onnx {0}/out.onnx",
    "example": "example --messy --overwrite -o {0}",
    "labels export": "labels export {0}/a.jsonl {0}/table.csv --overwrite -o {0}/out.csv",
    "labels merge": "labels merge {0}/a.jsonl {0}/b.jsonl -o {0}/merged.jsonl",
}


@pytest.fixture(scope="module")
def before(tmp_path_factory, model):
    """Return a folder with everything that the commands read, and an old version of what they write."""
    folder = tmp_path_factory.mktemp("before")
    table = payments(120)
    text = table.write_csv().replace("p00003,", "p00003,many,", 1).splitlines()
    text[4] = ",".join([*text[4].split(",")[:2], *text[4].split(",")[3:]])  # an amount that is none
    (folder / "table.csv").write_text("\n".join(text) + "\n")
    (folder / "tables").mkdir()
    (folder / "scored").mkdir()
    for name in ("a", "b"):
        table.write_csv(folder / "tables" / f"{name}.csv")
        with VerdictLog(folder / f"{name}.jsonl") as log:
            log.append(verdict(name))
    payments(40).write_csv(folder / "new.csv")
    own = from_table(payments(200), label="verdict", anomaly=["fraud"], id="payment")
    fit_table(own, IForest(n_estimators=5, random_state=0)).save(folder / "model.dplan")
    for name in ("learner.dplan", "learned.dplan"):
        model.save(folder / name)
    assert (
        run("update", folder / "learned.dplan", folder / "new.csv", "--no-estimate", "--overwrite").exit_code
        == 0
    )
    kinds = [Kind(name, Rule((Condition("items", "integer", at_least=10**6),))) for name in ("one", "other")]
    found = RuleFile({"items": "integer"}, tuple(kinds))
    muted(found, kinds[1], owner="ann", reason="harmless").save(folder / "kinds.json")
    for name in ("out.dplan", "out.csv", "out.json", "out.html", "out.onnx", "bank-train.csv"):
        (folder / name).write_text("old")
    return folder


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def failures(line, number_of, before, folder, monkeypatch):
    """Run a command until nothing fails; yield which call failed, what was said, and what the folder has then."""
    for n in range(1, 400):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(before, folder)
        with failing(n, number_of(n), monkeypatch, folder) as failed:
            done = run(*line.format(folder).split())
        yield n, failed, done
        if not failed:
            return
    raise AssertionError("there is no end of it")


@pytest.mark.parametrize(
    "number_of",
    [
        pytest.param(lambda n: NUMBERS[n % len(NUMBERS)], id="one error each"),
        *(
            pytest.param(lambda n, number=number: number, id=errno.errorcode[number], marks=pytest.mark.soak)
            for number in NUMBERS
        ),
    ],
)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_leaves_the_old_output_or_the_new_one_whatever_fails(
    name, number_of, before, tmp_path, monkeypatch
):
    folder, line = tmp_path / "files", COMMANDS[name]
    shutil.copytree(before, folder)
    old = content(folder)
    assert run(*line.format(folder).split()).exit_code == 0
    new = content(folder)
    assert new != old
    for n, failed, done in failures(line, number_of, before, folder, monkeypatch):
        which = (n, failed, done.output)
        assert "Traceback" not in done.output, which
        assert done.exit_code in (0, 1), which
        found = content(folder)
        if done.exit_code == 1:
            said = done.stderr.splitlines()[-1]
            assert said.startswith("Error: "), which
            assert "[Errno" not in said, which
            # What was scored is kept for the next run, and a lock that could not be had may be somebody else's.
            found = {
                path: text
                for path, text in found.items()
                if ".parts/" not in path and not path.endswith(".lock")
            }
            changed = {path for path in {*old, *new} if found.get(path) != old.get(path)}
            assert changed <= {path for path in {*old, *new} if old.get(path) != new.get(path)}, which
            assert all(found.get(path) == new.get(path) for path in changed), which
            assert not [path for path in found if path not in old and path not in new], which
            if not changed:
                assert run(*line.format(folder).split()).exit_code == 0, which
        else:
            assert found == new, which
        assert not [path for path in os.listdir(folder) if path.startswith(".")] or done.exit_code == 1, which
    assert n > 5


@pytest.mark.parametrize("line", [COMMANDS["rules mute"], COMMANDS["rules unmute"]])
def test_rules_have_one_writer(line, before, tmp_path):
    folder = tmp_path / "files"
    shutil.copytree(before, folder)
    with claimed(folder / "kinds.json"):
        done = run(*line.format(folder).split())
    assert done.exit_code == 1
    assert "another run is writing to" in done.stderr


def test_a_review_keeps_every_verdict_that_it_has_said_is_saved(before, tmp_path, monkeypatch):
    folder = tmp_path / "files"
    line = (
        "review {0}/model.dplan {0}/new.csv --simulate verdict --verdicts 2 --every 0 --log {0}/log.jsonl "
        "--labels-out {0}/labels.csv"
    )
    for n, failed, done in failures(line, lambda n: NUMBERS[n % 3], before, folder, monkeypatch):
        assert "Traceback" not in done.output, (n, failed, done.output)
        log = folder / "log.jsonl"
        records = read_log(log) if log.exists() else []
        assert done.exit_code == 0 or done.stderr.splitlines()[-1].startswith("Error: ")
        assert (done.exit_code == 0) <= (sum(r["kind"] == "verdict" for r in records) == 2), (n, failed)
        assert run(*line.format(folder).split()).exit_code == 0, (n, failed)
        assert not [path for path in os.listdir(folder) if path.startswith(".")], (n, failed)
    assert n > 5
