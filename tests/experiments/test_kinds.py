"""The experiment about kinds: its measures, and the page that is committed with its journal."""

import numpy as np
import pytest

from experiments.ensemble.measuring import measured
from experiments.kinds import page
from experiments.kinds.alerts import measures
from experiments.kinds.measuring import SEEDS, TABLES


def test_the_page_is_what_the_journal_says():
    assert (page.DOCS / "kinds-results.md").read_text("utf-8") == page.page()


def test_every_method_was_measured_on_every_table_and_seed():
    found = measured(page.RECORDS)
    places = {(record["table"], record["seed"]) for record in found}
    assert places == {(table, seed) for table in TABLES for seed in SEEDS}
    by_method = page.by_method(page.RECORDS)
    assert {len(own) for own in by_method.values()} == {len(places)}
    assert "score alone, Ward" in by_method


def test_groups_and_rules_that_have_nothing_to_do_with_classes_are_worth_little():
    rng = np.random.default_rng(0)
    classes, alert = np.repeat([0, 1, 2], [400, 50, 50]), np.repeat([False, True], [400, 100])
    half = rng.random(500) < 0.5
    good = measures(classes, (1,), alert, half, classes[alert], [classes == 1, classes == 2])
    poor = measures(classes, (1,), alert, half, rng.integers(0, 2, 100), [rng.random(500) < 0.5])
    assert good["ami"] == good["ami_anomalies"] == 1
    assert abs(poor["ami"]) < 0.1
    assert poor["classes"] < 0.2 < 0.8 < good["classes"]
    assert poor["alerts"] < 0.3 < 0.9 < good["alerts"]


def test_a_class_that_rules_miss_counts_nothing():
    classes, alert = np.repeat([0, 1, 2], [60, 20, 20]), np.repeat([False, True], [60, 40])
    half = np.arange(100) % 2 == 0
    found = measures(classes, (1,), alert, half, classes[alert], [classes == 1])
    assert found["classes"] == pytest.approx(0.787 / 2, abs=1e-3)
    assert measures(classes, (1,), alert, half, classes[alert], [])["alerts"] == 0
