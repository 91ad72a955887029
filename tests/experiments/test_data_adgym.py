# ruff: noqa: NPY002 - ADGym drew from the global generator
"""ADGym's splits: the published protocol to the letter, which tables take part, and files that are none."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from sklearn.naive_bayes import GaussianNB

from experiments.data import adgym
from tests.experiments.adbench import split_with_the_global_generator, write_table


@pytest.mark.parametrize("n_rows", [1_200, 3_500])
@pytest.mark.parametrize(("seed", "n_labels"), [(1, 5), (3, 20)])
def test_a_split_is_the_published_one(tmp_path, n_rows, seed, n_labels):
    write_table(tmp_path, "1_small", n_rows)
    state = np.random.get_state()[1].copy()
    task = adgym.task("1_small", seed, n_labels, tmp_path)
    assert (np.random.get_state()[1] == state).all()  # the caller's generator is left alone
    expected = split_with_the_global_generator(*adgym.table("1_small", tmp_path), seed, n_labels)
    for found, wanted in zip((task.X, task.y, task.X_test, task.y_test), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert (task.y > 0).sum() == n_labels
    assert task.known_mask.sum() == (task.y_test == 1).sum() > 0
    assert not task.unknown_mask.any()


def test_naive_bayes_repeats_its_published_results(data_home):
    """The published AUC-PR of GaussianNB, to six decimals, in all cells of the tables that are there."""
    if not (data_home / "adgym" / "published.csv").exists():
        pytest.skip(f"no ADBench tables with published.csv in {data_home / 'adgym'}")
    published = adgym.published(data_home).filter(method="NB")
    tables = adgym.tables(data_home)
    assert len(tables) >= 10
    for table, seed, labels, auc_pr in published.select("table", "seed", "labels", "auc_pr").rows():
        if table in tables and seed == 1:
            task = adgym.task(table, seed, labels, data_home)
            scores = GaussianNB().fit(task.X, task.y).predict_proba(task.X_test)[:, 1]
            assert average_precision_score(task.y_test, scores) == pytest.approx(auc_pr, abs=1e-6), table


def test_small_tables_are_left_out_and_the_others_sorted_by_number(tmp_path):
    for name, n_rows in (("10_b", 1_000), ("9_a", 1_001), ("1_small", 999)):
        write_table(tmp_path, name, n_rows)
    assert adgym.tables(tmp_path) == ["9_a", "10_b"]
    inner = tmp_path / "home" / "adgym"
    inner.mkdir(parents=True)
    write_table(inner, "5_c")
    assert adgym.tables(tmp_path / "home") == ["5_c"]


def test_more_labels_than_anomalies(tmp_path):
    write_table(tmp_path, "1_few", n_anomalies=20)  # 14 of them for training
    assert adgym.n_labelled_at_most("1_few", 1, tmp_path) == 14
    with pytest.raises(ValueError, match="1_few has 14 anomalies among its training rows, not 20"):
        adgym.task("1_few", 1, 20, tmp_path)


def test_what_is_wrong_with_a_folder_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="no ADBench tables with at least 1,000 rows"):
        adgym.tables(tmp_path)
    np.savez(tmp_path / "1_objects.npz", X=np.zeros(1000), y=np.array([{}] * 1000))
    with pytest.raises(ValueError, match=r"1_objects\.npz is not an ADBench table: Object arrays"):
        adgym.tables(tmp_path)
    np.savez(tmp_path / "1_objects.npz", X=np.zeros(1000), y=np.full(1000, 2))
    with pytest.raises(ValueError, match="y must be 0 or 1"):
        adgym.tables(tmp_path)
    assert adgym.published(tmp_path).is_empty()
    (tmp_path / "published.csv").write_text("table,seed\na,1\n")
    with pytest.raises(ValueError, match="it must have the columns table, seed, labels"):
        adgym.published(tmp_path)
