"""Tables larger than memory: all labelled rows, a uniform sample of the others, ranges and levels of all."""

import io
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dplan import IForest
from dplan.tables import fit_table, from_table

N_ROWS, N_SAMPLE = 5_000, 1_000


def big_table():
    rng = np.random.default_rng(0)
    amount = rng.normal(100, 10, N_ROWS).round(2)
    amount[[1_234, 4_321]] = [-5_000.5, 9_999.25]
    town = rng.choice(["A", "B", "C"], N_ROWS).astype(object)
    town[2_222] = "nowhere"
    return pl.DataFrame(
        {
            "amount": amount,
            "town": town.astype(str),
            "count": rng.integers(0, 50, N_ROWS),
            "fraud": np.where(np.arange(N_ROWS) % 100 == 7, "yes", ""),
        }
    )


@pytest.fixture(params=["csv", "parquet", "folder", "jsonl"])
def big(request, tmp_path, monkeypatch):
    monkeypatch.setattr("dplan.tables.sampling.CHUNK_ROWS", 300)
    table, path = big_table(), tmp_path / f"t.{request.param}"
    if request.param == "csv":
        table.write_csv(path)
    elif request.param == "jsonl":
        table.write_ndjson(path)
    elif request.param == "parquet":
        table.write_parquet(path)
    else:
        path.mkdir()
        for start in range(0, N_ROWS, 2_000):
            table[start : start + 2_000].write_parquet(path / f"{start}.parquet")
    return path


def read(path, **options):
    return from_table(path, "fraud", anomaly=["yes"], sample=N_SAMPLE, **options)


def test_labelled_rows_are_all_there_and_the_others_a_uniform_sample(big):
    found, table = read(big), big_table()
    assert found.n_rows == N_ROWS
    assert found.counts() == {"unlabelled": N_ROWS - 50, "yes": 50}
    assert (found.y > 0).sum() == 50
    assert len(found.y) == N_SAMPLE + 50
    assert (np.diff(found.positions) > 0).all()
    assert_frame_equal(found.features, table.drop("fraud")[found.positions])
    drawn = found.positions[found.y == 0]
    # Every fifth of the table gives about a fifth of the sample, whose size deviates by 13 rows or so.
    assert (abs(np.bincount(drawn // 1_000) - 200) < 60).all()
    other = read(big, seed=1).positions
    assert (read(big).positions == found.positions).all()
    assert len(np.setdiff1d(other, found.positions)) > 500


def decided(model):
    """Return what is decided about each column from all rows: its kind, levels and range."""
    names = ("name", "kind", "levels", "minimum", "maximum")
    return [[getattr(column, name, None) for name in names] for column in model.preparation.columns_]


def test_ranges_and_levels_are_those_of_the_whole_table(big):
    sampled = fit_table(read(big), IForest(random_state=0), estimate=False)
    whole = fit_table(from_table(big, "fraud", anomaly=["yes"]), IForest(random_state=0), estimate=False)
    assert "nowhere" in sampled.preparation.columns_[1].levels
    assert decided(sampled) == decided(whole)
    for one, other in zip(sampled.preparation.columns_, whole.preparation.columns_, strict=True):
        np.testing.assert_allclose(one.fill, other.fill, atol=0.05)
    assert sampled.summary.rows == N_ROWS
    assert sampled.summary.sampled == N_SAMPLE + 50
    assert whole.summary.sampled is None


def test_a_table_that_is_small_enough_is_read_whole(big):
    whole, table = from_table(big, "fraud", anomaly=["yes"], sample=N_ROWS), big_table()
    assert_frame_equal(whole.features, table.drop("fraud"))
    assert whole.n_rows is None


@pytest.mark.parametrize("on_error", ["fail", "skip", "null"])
def test_a_bad_cell_anywhere_is_found(on_error, tmp_path, monkeypatch):
    monkeypatch.setattr("dplan.tables.sampling.CHUNK_ROWS", 300)
    lines = big_table().write_csv().splitlines()
    for line in (3_001, 3_002, 9, 4_900):  # line 9 is labelled and therefore in every sample
        lines[line - 1] = "many" + lines[line - 1][lines[line - 1].index(",") :]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines))
    if on_error == "fail":
        with pytest.raises(ValueError, match=r"t\.csv, line 9, column 'amount': 'many' is not a number"):
            read(path)
        lines[8] = "1" + lines[8][4:]
        path.write_text("\n".join(lines))
        with pytest.raises(ValueError, match=r"t\.csv, line (3001|3002|4900), column 'amount': 'many'"):
            read(path)
        return
    found = read(path, on_error=on_error)
    assert found.features["amount"].dtype == pl.Float64
    assert (7 in found.positions) == (on_error == "null")
    assert found.features["amount"].null_count() == (found.bad.height if on_error == "null" else 0)
    assert 8 in found.bad["dplan_row_number"]
    assert set(found.bad["dplan_row_number"]) <= {8, 3_000, 3_001, 4_899}
    assert set(found.bad["amount"]) == {"many"}
    fit_table(found, IForest(random_state=0), estimate=False)


def test_an_infinite_number_outside_the_sample_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("dplan.tables.sampling.CHUNK_ROWS", 300)
    table = big_table().with_columns(
        amount=pl.when(pl.int_range(pl.len()) == 3_100).then(float("inf")).otherwise("amount")
    )
    table.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet, row 3101, column 'amount': inf is not finite"):
        read(tmp_path / "t.parquet")
    found = fit_table(read(tmp_path / "t.parquet", on_error="null"), IForest(random_state=0), estimate=False)
    assert found.preparation.columns_[0].maximum == 9_999.25


MEMORY = """
import sys
from pathlib import Path
from dplan.tables import from_table
def peak(): return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024
before = peak()
found = from_table(sys.argv[1], "l", sample=20_000)
print(len(found.y), found.n_rows, peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_table(tmp_path):
    rng, rows = np.random.default_rng(0), 400_000
    columns = {f"c{j}": rng.normal(size=rows) for j in range(40)}
    pl.DataFrame({**columns, "l": (np.arange(rows) % 1000 == 0).astype(int)}).write_parquet(
        tmp_path / "t.parquet"
    )
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, tmp_path / "t.parquet"], capture_output=True, text=True, check=True
    )
    n_drawn, n_rows, megabytes = map(int, done.stdout.split())
    assert (n_drawn, n_rows) == (20_400, rows)
    assert megabytes < 300  # the table alone has 128 MB, and fitting it all takes several times as much


def test_standard_input_is_sampled_too():
    text = big_table().write_csv().encode()
    assert len(read(io.BytesIO(text), kind="csv").y) == N_SAMPLE + 50


def test_checked_normal_rows_are_sampled_apart_and_counted(tmp_path):
    verdict = np.where(np.arange(N_ROWS) % 2 == 0, "OK", np.where(np.arange(N_ROWS) % 100 == 7, "yes", ""))
    big_table().with_columns(fraud=pl.Series(verdict)).write_csv(tmp_path / "t.csv")
    found = from_table(tmp_path / "t.csv", "fraud", anomaly=["yes"], normal=["ok"], sample=N_SAMPLE)
    assert [(found.y == k).sum() for k in (-1, 0, 1)] == [N_SAMPLE, N_SAMPLE, 50]
    assert found.n_checked == 2_500
    assert found.counts() == {"unlabelled": 2_450, "yes": 50}
    assert (verdict[found.positions[found.y < 0]] == "OK").all()
    model = fit_table(found, IForest(random_state=0), estimate=False)
    assert model.summary.checked_normal == 2_500
    # Known anomalies are called by their number in the file, not in the sample.
    assert model.summary.known_names[:2] == ("training row 8", "training row 108")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_columns_mean_is_decided_on_the_sample_and_holds_for_its_extremes(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("dplan.tables.sampling.CHUNK_ROWS", 300)
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2033, 9, 8), eager=True)[:N_ROWS]
    table = big_table().with_columns(
        amount=pl.format("{} €", pl.col("amount").cast(pl.String).str.replace(".", ",", literal=True)),
        day=days.dt.strftime("%d.%m.%Y"),
        mail=pl.format(
            "{}@{}.org", pl.int_range(pl.len()), pl.concat_str("town", pl.int_range(pl.len()) % 2)
        ),
        place=pl.int_range(10, pl.len() + 10),
    )
    path = tmp_path / f"t.{kind}"
    table.write_csv(path, separator=";") if kind == "csv" else table.write_parquet(path)
    options = {"columns": {"amount": {"kind": "number"}, "day": {"kind": "date", "calendar": True}}}
    found = read(path, **options)
    assert found.features.schema["amount"] == pl.Float64
    assert found.meanings["place"].why == "counts the rows from 10"
    sampled = fit_table(found, IForest(random_state=0), estimate=False)
    assert list(sampled.summary.dropped) == ["place"]
    whole = from_table(path, "fraud", anomaly=["yes"], **options)
    whole = fit_table(whole, IForest(random_state=0), estimate=False)
    assert list(whole.summary.dropped) == ["place"]
    assert decided(sampled) == decided(whole)
    assert sampled.preparation.columns_[0].maximum == 9_999.25
    assert "nowhere0.org" in sampled.preparation.columns_[4].levels
