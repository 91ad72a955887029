"""Tables to review: CSV files of a folder, and draws from the paper's data sets."""

import numpy as np
import pytest

from dplan.datasets import load
from experiments.data import reviews


def test_csv_files_with_verdicts_are_tables(tmp_path):
    (tmp_path / "b.csv").write_text("label,x,y\nanomaly,1,2.5\nnominal,3,4\n")
    (tmp_path / "a.csv").write_text("ground.truth,x\nnominal,1\n")
    (tmp_path / "published.csv").write_text("table,x\nb,1\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "text.csv").write_text("label,x\nnominal,some\n")
    assert reviews.tables(tmp_path) == ["a", "b", "text"]
    X, anomalous = reviews.table("b", tmp_path)
    assert X.tolist() == [[1.0, 2.5], [3.0, 4.0]]
    assert anomalous.tolist() == [True, False]
    with pytest.raises(ValueError, match=r"text\.csv: all columns but the first must be numbers"):
        reviews.table("text", tmp_path)
    with pytest.raises(ValueError, match="the first column must be"):
        reviews.table("published", tmp_path)


def test_a_draw_has_two_percent_anomalies_of_one_class():
    dataset = load("covertype-mini")
    first, again, other = (reviews.drawn("covertype-mini/cottonwood-v1", seed, dataset) for seed in (0, 0, 1))
    assert first.X.shape == (10_000, 54)
    assert first.anomalous.sum() == 200
    assert (first.X == again.X).all()
    assert (first.anomalous == again.anomalous).all()
    assert (first.X != other.X).any()
    assert np.flatnonzero(first.anomalous).max() > 9_000  # in random order


def test_the_three_tables(data_home):
    if not (data_home / "discovery").is_dir():
        pytest.skip(f"no tables in {data_home / 'discovery'}")
    counts = {name: reviews.table(name, data_home).anomalous.sum() for name in reviews.tables(data_home)}
    assert {"abalone": 29, "ann_thyroid_1v3": 73, "mammography": 260}.items() <= counts.items()
