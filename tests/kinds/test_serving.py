"""Kinds in the answers of the service, which is a real one."""

import polars as pl

import dplan
from dplan.rules.file import RuleFile
from dplan.rules.muting import muted
from dplan.scoring import score_file
from tests.kinds.alarms import alarms, alarms_model
from tests.serving.process import Running


def test_the_service_answers_the_kinds_that_score_writes(tmp_path):
    alarms_model().save(tmp_path / "m.dplan")
    found = dplan.kinds(alarms_model(), alarms(), budget=90, n_kinds=3).rules
    muted(found, found.named("like night"), owner="ann", reason="night shift").save(tmp_path / "k.json")
    table = alarms(300, seed=2).drop("verdict", "truth").with_columns(pl.col("day").cast(pl.String))
    table.write_ndjson(tmp_path / "new.jsonl")
    score_file(
        tmp_path / "m.dplan", tmp_path / "new.jsonl", tmp_path / "s.parquet", kinds=tmp_path / "k.json"
    )
    expected = pl.read_parquet(tmp_path / "s.parquet")
    with Running(tmp_path, tmp_path / "m.dplan", "--kinds", tmp_path / "k.json") as running:
        answer = running.ask("/score", table.to_dicts())[1]
        one = running.ask("/explain", table.to_dicts()[:1])[1]
    assert answer["kind"] == expected["kind"].to_list()
    assert answer["alert"] == expected["alert"].to_list()
    assert {"like abroad", "like many", "like night", ""} == set(answer["kind"])
    assert not any(
        alert for alert, kind in zip(answer["alert"], answer["kind"], strict=True) if kind == "like night"
    )
    assert one["kind"] == answer["kind"][:1]
    assert RuleFile.load(tmp_path / "k.json").named("like night").about["muted"]["reason"] == "night shift"
