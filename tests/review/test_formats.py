"""A review without a model fits and reads with one understanding, whatever the cells look like."""

import numpy as np
import polars as pl
import pytest

from dplan.review.engine import Engine
from dplan.review.table import as_file
from dplan.tables import Input

ROWS = 200
EVERYDAY = {
    "plain": lambda i: f"{i * 7 % 101}.5",
    "yes and no": lambda i: ("YES", "no")[i % 3 == 0],
    "dollars": lambda i: f"${1000 + i:,}.50",
    "percent": lambda i: f"{i % 100} %",
    "thousands": lambda i: f"{1000 * i + 17:,}",
    "points between thousands": lambda i: f"{1000 * i + 950:,}".replace(",", "."),
    "units": lambda i: f"{i % 40} kg",
    "decimal comma": lambda i: f"{i * 7 % 101},25",
    "euros": lambda i: f"{i * 7 % 101},25 €",
    "US dates": lambda i: f"{i % 12 + 1}/{i % 28 + 1}/2024",
    "German dates": lambda i: f"{i % 28 + 1}.{i % 12 + 1}.2024 07:{i % 60:02}",
    "dates with names": lambda i: f"{i % 28 + 1} Jan 2024",
    "times": lambda i: f"{i % 24}:{i % 60:02}",
    "durations": lambda i: f"{i % 5}h {i % 60}min",
    "parentheses": lambda i: (f"({i % 90}.50)", f"{i % 90}.50")[i % 2],
    "e-mail addresses": lambda i: f"user{i}@{('a', 'b')[i % 2]}.org",
    "codes": lambda i: f"{i % 20:04}",
    "rarely filled": lambda i: "soon" if i == 7 else "",
}


@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday_formats_are_read_as_they_are_fitted(tmp_path, name):
    path = tmp_path / "t.csv"
    cells = [f"{EVERYDAY[name](i)};{i * 3 % 17}" for i in range(ROWS)]
    path.write_text("\n".join(["value;other", *cells]), encoding="utf-8")
    first = Engine(as_file(path, None, None, tmp_path), None).open()
    understood, _ = Input(path).read()
    expected = first.model.prepare_with_report(understood)[0]
    np.testing.assert_array_equal(first.prepared, expected[first.rows])
    assert expected.min() >= 0
    assert expected.max() <= 1
    # A frame of the same cells is reviewed with the same scores.
    frame = pl.read_csv(path, separator=";", infer_schema=False)
    again = Engine(as_file(frame, None, None, tmp_path), None).open()
    np.testing.assert_array_equal(again.scores, first.scores)
