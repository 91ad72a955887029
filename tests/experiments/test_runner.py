"""The runner: what is finished stays finished, and nothing is ever mixed."""

import dataclasses
import json

import numpy as np
import pytest

from dplan.datasets import scenario
from experiments.methods import create
from experiments.runner import ConfigurationError, run
from experiments.suites import Plan
from tests.experiments.small_cells import figures


def test_a_second_run_adds_nothing_and_a_longer_one_only_what_is_new(small_plan, tmp_path):
    shorter = dataclasses.replace(small_plan, runs=2)
    assert run(shorter, tmp_path).done == 12
    before = (tmp_path / "journal.jsonl").read_bytes()
    again = run(shorter, tmp_path)
    assert (again.done, again.skipped) == (0, 12)
    assert (tmp_path / "journal.jsonl").read_bytes() == before
    longer = run(small_plan, tmp_path)
    assert (longer.done, longer.skipped) == (6, 12)
    assert len(figures(tmp_path)) == 18


def test_the_number_of_workers_changes_no_bit(small_plan, tmp_path):
    run(small_plan, tmp_path / "one")
    run(small_plan, tmp_path / "two", jobs=2)
    assert figures(tmp_path / "one") == figures(tmp_path / "two")


def test_a_record_holds_what_the_detector_gives_by_hand(tmp_path):
    plan = Plan(("table2",), methods=("LogisticBaseline",), runs=1, datasets=("covertype-mini",))
    run(plan, tmp_path)
    record = next(iter(figures(tmp_path).values()))
    task = scenario("covertype-mini/cottonwood-v1", seed=0)
    scores = create("LogisticBaseline", random_state=0).fit(task.X, task.y).anomaly_score(task.X_test)
    ranks = np.argsort(np.argsort(scores)) + 1
    anomalous = task.y_test > 0
    n, m = anomalous.sum(), (~anomalous).sum()
    assert record["auc_roc"] == pytest.approx((ranks[anomalous].sum() - n * (n + 1) / 2) / (n * m), abs=1e-6)
    assert record["precision_at"]["50"] == pytest.approx(anomalous[np.argsort(-scores)[:50]].mean())
    assert set(record["classes"]) == {"cottonwood", "douglas-fir"}


def test_with_the_protocol_fixed_only_the_detector_varies(small_plan, tmp_path):
    plan = dataclasses.replace(small_plan, protocols=("fixed",), methods=("LogisticBaseline", "IForest"))
    run(plan, tmp_path)
    by_method = {}
    for cell in figures(tmp_path).values():
        if cell["dataset"] == "cottonwood":
            by_method.setdefault(cell["method"], set()).add(cell["scores_sha256"])
    assert len(by_method["LogisticBaseline"]) == 1  # it has no randomness of its own
    assert len(by_method["IForest"]) == 3


def test_a_failing_cell_is_recorded_with_its_traceback_and_does_not_stop_the_rest(small_plan, tmp_path):
    broken = dataclasses.replace(small_plan, parameters={"DevNet": {"n_epochs": -1}}, runs=1)
    summary = run(broken, tmp_path)
    assert (summary.done, summary.failed) == (4, 2)
    failed = [cell for cell in figures(tmp_path).values() if cell["status"] == "failed"]
    assert {cell["method"] for cell in failed} == {"DevNet"}
    assert all("n_epochs" in cell["error"] and "Traceback" in cell["traceback"] for cell in failed)
    assert run(broken, tmp_path).failed == 2, "failed cells are tried again"


def test_other_parameters_are_refused_and_the_folder_stays_as_it_is(small_plan, tmp_path):
    run(dataclasses.replace(small_plan, runs=1), tmp_path)
    before = (tmp_path / "journal.jsonl").read_bytes()
    changed = dataclasses.replace(small_plan, methods=("LogisticBaseline",), parameters={})
    with pytest.raises(
        ConfigurationError, match=r"parameters of LogisticBaseline on covertype-mini/.* were .*20.*, now {}"
    ):
        run(changed, tmp_path)
    assert (tmp_path / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize(("part", "name"), [("versions", "numpy"), ("data", "covertype-mini")])
def test_other_libraries_or_data_are_refused(small_plan, tmp_path, part, name):
    plan = dataclasses.replace(small_plan, runs=1, methods=("LogisticBaseline",))
    run(plan, tmp_path)
    journal = tmp_path / "journal.jsonl"
    first, *rest = journal.read_text().splitlines()
    record = json.loads(first)
    record[part][name] = "another"
    journal.write_text("\n".join([json.dumps(record), *rest]) + "\n")
    with pytest.raises(ConfigurationError, match=f"{name} was another, now"):
        run(plan, tmp_path)


def changed_records(folder, change):
    """Rewrite the cells of a journal."""
    journal = folder / "journal.jsonl"
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    for record in records:
        if record["kind"] == "cell":
            change(record)
    journal.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("version", "version of LogisticBaseline was 7, now 1"),
        ("data_version", "version of covertype-mini was 7, now 1"),
    ],
)
def test_another_version_of_a_detector_or_a_data_set_is_refused(small_plan, tmp_path, field, message):
    plan = dataclasses.replace(small_plan, runs=1, methods=("LogisticBaseline",))
    run(plan, tmp_path)
    changed_records(tmp_path, lambda record: record.update({field: 7}))
    with pytest.raises(ConfigurationError, match=message):
        run(plan, tmp_path)
    other = dataclasses.replace(plan, methods=("IForest",))
    if field == "version":
        assert run(other, tmp_path).done == 2, "other methods may join"


def test_records_without_versions_are_of_version_1(tmp_path):
    """The first journals had neither versions nor parameters, and keys made from the source code."""
    plan = Plan(("table2",), methods=("LogisticBaseline",), runs=1, datasets=("covertype-mini",))
    run(plan, tmp_path)

    def forget(record):
        del record["version"], record["data_version"]
        record["key"] = "a fingerprint of code that has moved since"

    changed_records(tmp_path, forget)
    assert (run(plan, tmp_path).done, run(plan, tmp_path).skipped) == (0, 2)


def test_a_renamed_parameter_orphans_no_record(small_plan, tmp_path, monkeypatch):
    plan = dataclasses.replace(small_plan, runs=1, methods=("LogisticBaseline",))
    run(plan, tmp_path)
    (name,) = plan.parameters["LogisticBaseline"]

    def rename(record):
        record["changed"] = {"former_name": record["changed"][name]}

    changed_records(tmp_path, rename)
    with pytest.raises(ConfigurationError, match="former_name"):
        run(plan, tmp_path)
    monkeypatch.setattr("dplan.detectors.baselines.LogisticBaseline._renamed", {"former_name": name})
    assert run(plan, tmp_path).skipped == 2


def test_one_training_gives_the_whole_curve_of_steps(tmp_path):
    plan = Plan(
        ("steps",),
        runs=1,
        datasets=("covertype-mini",),
        quick=True,
        parameters={"DPLAN": {"warmup_steps": 10_000}},
    )
    run(plan, tmp_path)
    (record,) = (found for found in figures(tmp_path).values() if found["method"] == "DPLAN")
    curve = record["curve"]
    assert [point["steps"] for point in curve] == [10_000, 20_000, 30_000, 40_000]
    # The first checkpoint is what a shorter training ends with, the last what this one ends with.
    assert curve[-1]["auc_pr"] == record["auc_pr"]
    task = scenario("covertype-mini/cottonwood-v1", seed=0)
    shorter = create("DPLAN", n_steps=20_000, replay_size=40_000, random_state=0).fit(task.X, task.y)
    assert len(shorter.history_["reward"]) == 10
    assert np.mean(shorter.history_["reward"][5:]) == pytest.approx(curve[1]["reward"], abs=1e-6)
