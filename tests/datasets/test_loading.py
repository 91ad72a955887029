"""Loading: what stands in each data set, and that loading costs little."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import dplan.datasets
from dplan.datasets import load
from dplan.datasets.registry import CATALOG
from dplan.exceptions import DownloadError
from dplan.tables import TablePreparer


@pytest.mark.parametrize(
    ("name", "rows"), [("unsw_nb15", 257_673), ("annthyroid", 7_200), ("har", 10_299), ("covertype", 581_012)]
)
def test_real_data_sets(name, rows, dataset):
    """Holds for incomplete copies as well as for the publishers' whole files."""
    data = dataset(name)
    source = data.source
    short = [kind for kind, n in data.counts().items() if n < source.table_1[kind]]
    missing = source.n_features - data.features.width
    assert [text.split(":")[0] for text in data.partial] == [
        *(f"class {kind}" for kind in short),
        *([f"{data.features.width} of {source.n_features} features"] if missing else []),
    ]
    assert missing >= 0
    assert data.features.height <= rows
    assert data.features.height == rows or name == "unsw_nb15"  # of which a part may be missing
    dimensions = data.dimensions
    assert dimensions == source.dimensions or (data.partial and dimensions < source.dimensions)
    shape = data.features.shape
    assert len(data.classes) == shape[0]
    assert set(data.normal) | set(data.anomalies) <= set(data.classes.unique())
    assert data.licence
    assert data.citation
    X = TablePreparer().fit_transform(data.features)
    assert X.shape == (shape[0], dimensions)
    assert np.isfinite(X).all()
    assert X.min() == 0
    assert X.max() == 1


def test_har_has_four_normal_classes(dataset):
    counts = dataset("har").classes.value_counts().rows()
    assert dict(counts) == {
        "walking": 1722,
        "sitting": 1777,
        "standing": 1906,
        "laying": 1944,
        "downstairs": 1406,
        "upstairs": 1544,
    }


def test_the_embedded_cut_comes_from_covertype(dataset):
    mini = load("covertype-mini")
    whole = dataset("covertype").features.with_columns(label=dataset("covertype").labels)
    cut = mini.features.with_columns(label=mini.labels)
    assert cut.join(whole, on=cut.columns, how="anti").is_empty()


def test_a_file_is_read_again_only_when_it_changed(tmp_path):
    table = pl.DataFrame({"a": [1, 2], "class": ["normal", "subnormal"]})
    table.write_parquet(tmp_path / "annthyroid.parquet")
    first = load("annthyroid", home=tmp_path)
    assert load("annthyroid", home=tmp_path) is first
    pl.concat([table, table, table]).write_parquet(tmp_path / "annthyroid.parquet")
    assert load("annthyroid", home=tmp_path).features.height == 6


def test_the_data_home_of_the_environment(tmp_path, monkeypatch):
    pl.DataFrame({"a": [1], "class": ["normal"]}).write_parquet(tmp_path / "annthyroid.parquet")
    monkeypatch.setenv("DPLAN_DATA_HOME", str(tmp_path))
    assert load("annthyroid").path == tmp_path / "annthyroid.parquet"
    with pytest.raises(DownloadError, match=r"'unsw_nb15' is not in .*\. To get it by hand"):
        load("unsw_nb15")


def test_copies_are_found():
    data = dplan.datasets.Dataset(
        CATALOG["annthyroid"], pl.DataFrame({"a": [2, 1, 2, 3, 1], "b": list("xyxyy")}), pl.Series([]), None
    )
    assert data.copy_groups.tolist() == [0, 1, 0, 2, 1]


def test_every_public_name_is_there():
    for name in dplan.datasets.__all__:
        assert getattr(dplan.datasets, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        _ = dplan.datasets.nothing


def test_listing_commands_loads_nothing_heavy():
    code = (
        "import sys, dplan.cli.main, dplan.datasets\n"
        "print([m for m in ('sklearn', 'numba', 'polars', 'numpy', 'rich') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
