"""A part is reused only if everything that its scores depend on is the same."""

import os
from dataclasses import replace

import polars as pl

from dplan.scoring import AlertPolicy, Scorer, parts
from dplan.scoring.parts import Parts, clear_folder


def test_a_part_of_another_version_threshold_or_table_has_another_name(model, table, tmp_path, monkeypatch):
    rows = table[:50]

    def name(scorer, rows=rows, explain=True):
        return Parts(scorer, tmp_path, explain=explain, output_format="csv")._digest(rows)

    plain = Scorer(model)
    other_model = replace(model, summary=replace(model.summary, rows=7))
    names = {
        "plain": name(plain),
        "not explained": name(plain, explain=False),
        "threshold": name(Scorer(model, alerts=AlertPolicy(threshold=1.5))),
        "another threshold": name(Scorer(model, alerts=AlertPolicy(threshold=1.25))),
        "budget": name(Scorer(model, alerts=AlertPolicy(budget=5))),
        "another budget": name(Scorer(model, alerts=AlertPolicy(budget=6))),
        "kept column": name(Scorer(model, keep=("country",))),
        "errors": name(Scorer(model, on_error="skip")),
        "labels": name(Scorer(model, skip_labelled=True)),
        "model": name(Scorer(other_model)),
        "one cell": name(plain, rows.with_columns(pl.col("amount").replace(rows["amount"][3], 0.5))),
        "order": name(plain, rows.reverse()),
    }
    monkeypatch.setattr(parts, "__version__", "0.0.0")
    names["version"] = name(plain)
    monkeypatch.undo()
    monkeypatch.setattr(pl, "__version__", "0.0.0")
    names["version of polars"] = name(plain)
    monkeypatch.undo()
    assert len(set(names.values())) == len(names)
    assert name(Scorer(model)) == names["plain"]


def test_the_working_folder_can_be_read_only_by_its_owner(tmp_path):
    before = os.umask(0)
    try:
        clear_folder(tmp_path / "parts")
    finally:
        os.umask(before)
    assert (tmp_path / "parts").stat().st_mode & 0o777 == 0o700
