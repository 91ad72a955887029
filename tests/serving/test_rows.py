"""Rows of requests, read and scored together, against `dplan score` on a file of the same rows."""

import json

import numpy as np
import polars as pl
import pytest

from dplan import LogisticBaseline
from dplan.serving.rows import Layout
from dplan.serving.scoring import score
from dplan.tables import fit_table, from_table
from dplan.tables.model import TableModel
from dplan.tables.scoring import Options, score_table


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """A model of a file with decimal commas, day-first dates, flags, and a note that is usually empty."""
    rng = np.random.default_rng(0)
    lines = ["amount;day;urgent;note;fraud"]
    for i in range(600):
        bad = i < 30
        amount = f"{rng.lognormal(3 + bad, 1):.2f}".replace(".", ",")
        note = f"call {i} back" if rng.random() < (0.4 if bad else 0.004) else ""
        lines.append(
            f"{amount} €;{rng.integers(13, 29)}.0{rng.integers(1, 9)}.2024;{rng.choice(['yes', 'no'])};{note};{bad:d}"
        )
    folder = tmp_path_factory.mktemp("messy")
    (folder / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    own = from_table(folder / "t.csv", label="fraud", columns={"note": {"kind": "filled"}})
    fit_table(own, LogisticBaseline(), estimate=False).save(folder / "m.dplan")
    return folder


def test_requests_together_have_the_scores_of_a_file(messy):
    rows = [
        {"amount": amount, "day": day, "urgent": urgent, "note": note}
        for amount in (12.5, 7, "1.312,50 €", None)
        for day in ("14.03.2024", None)
        for urgent in (True, None)
        for note in ("call", None)
    ]
    layout = Layout(TableModel.load(messy / "m.dplan"), 100)
    requests = [layout.read([row]) for row in rows]
    found = [float(one.score[0]) for one in score(layout, requests)]
    for row, together in zip(rows, found, strict=True):
        (messy / "row.jsonl").write_text(json.dumps(row))
        score_table(
            messy / "m.dplan",
            messy / "row.jsonl",
            "jsonl",
            messy / "out.parquet",
            Options(),
            output_kind="parquet",
        )
        assert pl.read_parquet(messy / "out.parquet")["score"].to_list() == [together], row
