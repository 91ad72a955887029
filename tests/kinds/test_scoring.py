"""Kinds of new rows by rules, in `dplan score`, and muted kinds."""

import datetime
import json
import re
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

import dplan
from dplan.cli.main import main
from dplan.columns.preparer import Cells
from dplan.rules.file import RuleFile
from dplan.rules.muting import muted
from dplan.scoring.kinds import KindsOfRows
from dplan.scoring.scorer import AlertPolicy, Batch, Scorer
from tests.kinds.alarms import alarms, alarms_model


def run(*arguments, code=0, **rest):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], **rest)
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    alarms_model().save(folder / "m.dplan")
    alarms(seed=2).drop("verdict").write_csv(folder / "new.csv")
    dplan.kinds(alarms_model(), alarms(), folder / "kinds.json", budget=90, n_kinds=3)
    table = alarms(seed=1)
    table.with_columns(verdict=table["truth"].replace("normal", "")).write_csv(folder / "known.csv")
    return folder


def mute_one(folder, path, name="like night"):
    found = RuleFile.load(folder / "kinds.json")
    muted(found, found.named(name), owner="ann", reason="night shift").save(path)


@pytest.mark.parametrize(
    "options", [["--budget", "90"], ["--chunk-rows", "700", "--budget", "90", "--explain"]]
)
def test_every_alert_gets_the_kind_whose_rule_it_meets(folder, tmp_path, options):
    out = tmp_path / "s.csv"
    run("score", folder / "new.csv", "-m", folder / "m.dplan", "-o", out, "--kinds", folder / "kinds.json",
        "--keep", "truth", *options)  # fmt: skip
    found = pl.read_csv(out).with_columns(pl.col(pl.String).fill_null(""))
    alerts = found.filter("alert")
    assert (alerts["kind"] == "like " + alerts["truth"]).mean() > 0.95
    assert (found.filter(~pl.col("alert"))["kind"] == "").all()
    assert "muted" not in found.columns


def test_rows_of_a_muted_kind_are_no_alerts_and_the_budget_goes_to_others(folder, tmp_path):
    mute_one(folder, tmp_path / "kinds.json")
    out = tmp_path / "s.csv"
    said = run("score", folder / "new.csv", "-m", folder / "m.dplan", "-o", out, "--kinds", tmp_path / "kinds.json",
               "--keep", "truth", "--budget", 60, "--explain", "--chunk-rows", 500)  # fmt: skip
    found = pl.read_csv(out).with_columns(pl.col(pl.String).fill_null(""))
    n_muted = int(found["muted"].sum())
    assert f"; {n_muted} muted" in said
    assert n_muted > 0
    assert found["alert"].sum() == 60
    assert not found.filter("alert")["truth"].is_in(["night"]).any()
    assert (found.filter("muted")["kind"] == "like night").all()
    assert not found.filter(pl.col("alert") & pl.col("muted")).height
    assert (found.filter("alert")["reasons"] != "").all()


def test_a_muted_kind_wakes_up_when_it_expires(folder, tmp_path):
    mute_one(folder, tmp_path / "kinds.json")
    rules = RuleFile.load(tmp_path / "kinds.json")
    today = datetime.date.today()
    assert KindsOfRows(rules, alarms_model(), today + datetime.timedelta(days=90)).mutes
    assert not KindsOfRows(rules, alarms_model(), today + datetime.timedelta(days=91)).mutes


def test_cells_have_the_kinds_of_tables(folder):
    kinds = KindsOfRows(RuleFile.load(folder / "kinds.json"), alarms_model())
    table = alarms(300, seed=3)
    preparation = alarms_model().preparation
    numbers = table.select(pl.col(preparation.number_columns).cast(float)).to_numpy()
    texts = [table[name].cast(pl.String).to_list() for name in preparation.text_columns]
    assert kinds.of_cells(Cells(numbers, texts)).tolist() == kinds.of_table(table).tolist()
    assert len(set(kinds.of_table(table).tolist())) == 4


def test_streams_have_kinds(folder):
    text = (folder / "new.csv").read_text()
    said = run("score", "-", "-m", folder / "m.dplan", "-o", "-", "--follow", "--kinds", folder / "kinds.json",
               input=text)  # fmt: skip
    assert "like abroad" in said


def test_muting_is_refused_without_a_rule_and_if_a_known_anomaly_matches(folder, tmp_path):
    path = tmp_path / "kinds.json"
    path.write_bytes((folder / "kinds.json").read_bytes())
    line = [
        "rules",
        "mute",
        path,
        "like night",
        "--owner",
        "ann",
        "--reason",
        "night shift",
        "-m",
        folder / "m.dplan",
    ]
    before = path.read_bytes()
    said = run(*line, "--known", folder / "known.csv", code=1)
    assert "known anomalies, so it cannot be muted" in said
    assert path.read_bytes() == before
    harmless = pl.read_csv(folder / "known.csv").filter(pl.col("truth") != "night")
    harmless.write_csv(tmp_path / "harmless.csv")
    assert "Muted until" in run(*line, "--known", tmp_path / "harmless.csv")
    assert RuleFile.load(path).named("like night").about["muted"]["owner"] == "ann"
    assert "No longer muted" in run("rules", "unmute", path, "like night")
    assert RuleFile.load(path).named("like night").about["muted"] is None
    content = json.loads(path.read_text())
    content["kinds"][0] |= {"rule": None, "name": "vague"}
    del content["kinds"][0]["id"]
    path.write_text(json.dumps(content))
    line[3] = "vague"
    assert "has no rule, so it cannot be muted" in run(*line, "--known", tmp_path / "harmless.csv", code=1)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"owner": "ann"}, "muted has an owner, a reason and until"),
        ({"owner": "ann", "reason": "x", "until": "soon"}, "'soon' is not a date such as 2024-01-31"),
    ],
)
def test_a_wrong_record_of_muting_is_refused(folder, record, said):
    content = json.loads((folder / "kinds.json").read_text())
    content["kinds"][0]["muted"] = record
    with pytest.raises(ValueError, match=said):
        RuleFile.from_json(content)


def test_kinds_of_another_model_are_refused(folder, model_path, tmp_path):
    said = run("score", folder / "new.csv", "-m", model_path, "-o", tmp_path / "s.csv", "--kinds",
               folder / "kinds.json", code=1)  # fmt: skip
    assert "which the model does not; find kinds with this model" in said


def test_scorer_columns_have_kinds(folder):
    kinds = KindsOfRows(RuleFile.load(folder / "kinds.json"), alarms_model())
    scorer = Scorer(alarms_model(), kinds=kinds, alerts=AlertPolicy(budget=9))
    scored = scorer.score(Batch(alarms(300, seed=3)))
    found = scorer.columns(scored)
    assert found.filter("alert")["kind"].str.starts_with("like ").all()
    assert scorer.columns(scored[:10])["kind"].len() == 10


def test_the_page_of_output_columns_has_all_of_them_in_their_order(folder, tmp_path):
    mute_one(folder, tmp_path / "kinds.json")
    table = alarms(seed=1).with_columns(verdict=pl.col("truth").replace("normal", "")).drop("truth")
    anomaly = ["abroad", "night", "many"]
    own = dplan.tables.from_table(table, label="verdict", anomaly=anomaly, id="payment")
    dplan.tables.fit_table(own, dplan.IForest(random_state=0), estimate=False).save(tmp_path / "m.dplan")
    run("score", folder / "new.csv", "-m", tmp_path / "m.dplan", "-o", tmp_path / "s.csv", "--kinds",
        tmp_path / "kinds.json", "--budget", 60, "--explore", 5, "--novelty", "--explain")  # fmt: skip
    page = (Path(__file__).parents[2] / "docs" / "output-columns.md").read_text("utf-8").partition("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)
    header = pl.read_csv(tmp_path / "s.csv").columns
    assert [name for name in header if name != "payment"] == [name for name in named if name != "file"]
