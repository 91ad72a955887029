"""The messy bank table: every cell is read back, and nothing is lost against cleaning by hand."""

import re

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal
from sklearn.metrics import average_precision_score

from dplan import LogisticBaseline
from dplan.cli.main import main
from dplan.columns.deciding import understand
from dplan.tables import fit_table, from_table
from dplan.tables.chunks import MISSING
from dplan.tables.input import Input
from tests.datasets.bank import bank_table, example_tables, messy

CLEAN = {  # column of the messy table → the same by hand
    "Gebucht am": "Gebucht", "Betrag": "Betrag", "Kontostand": "Kontostand", "Anteil am Limit": "Anteil am Limit",
    "Kunde seit": "Kunde seit", "Neuer Empfänger": "Neuer Empfänger", "IBAN": "Land", "E-Mail": "Anbieter",
    "Filiale": "Filiale", "Kanal": "Kanal", "Storniert am": "Storniert",
}  # fmt: skip


def test_every_cell_is_read_back():
    clean = bank_table(1500, seed=3)
    read, meanings = understand(messy(clean).get_columns(), {}, MISSING)
    for column, by_hand in CLEAN.items():
        assert read[column].to_list() == clean[by_hand].to_list(), column
    assert [name for name, meaning in meanings.items() if not meaning.is_used] == [
        "Nummer",
        "Verwendungszweck",
    ]
    assert all(meaning.sure for meaning in meanings.values())


def test_the_example_in_the_package_is_made_by_these_functions(folder):
    for name, table in example_tables().items():
        found = pl.read_csv(folder / f"{name.replace('_', '-')}.csv", separator=";", infer_schema=False)
        assert_frame_equal(found, table)


def test_the_same_seed_gives_the_same_table():
    assert messy(bank_table(100)).equals(messy(bank_table(100)))
    assert not bank_table(100).equals(bank_table(100, seed=1))


@pytest.fixture
def folder(tmp_path):
    done = CliRunner().invoke(main, ["example", "--messy", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert re.search(r"Next: dplan inspect .*bank-train\.csv", done.output)
    return tmp_path


def test_a_messy_table_is_as_good_as_one_cleaned_by_hand(folder):
    own = from_table(folder / "bank-train.csv", "Urteil", anomaly=["fraud"], normal=["ok"], id="Nummer")
    model = fit_table(own, LogisticBaseline(random_state=0), estimate=False)
    scores = np.concatenate([model.score(chunk()) for chunk in Input(folder / "bank-new.csv").chunks(999)])
    by_hand = bank_table(seed=1).select(CLEAN.values()).with_columns(verdict=own.y)
    cleaned = fit_table(from_table(by_hand, "verdict"), LogisticBaseline(random_state=0), estimate=False)
    new = bank_table(3_000, seed=2)
    truth = new["fraud"].to_numpy()
    messy_ap, clean_ap = (average_precision_score(truth, found) for found in (scores, cleaned.score(new)))
    assert clean_ap > 0.9
    assert abs(messy_ap - clean_ap) <= 0.01


def test_the_labels_are_few_and_blank_elsewhere(folder):
    found = pl.read_csv(folder / "bank-train.csv", separator=";", infer_schema=False)["Urteil"]
    counts = dict(found.value_counts().rows())
    assert 20 < counts["fraud"] < 60
    assert counts["ok"] > 200
    assert counts[None] > 0.9 * len(found)
