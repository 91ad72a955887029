"""Novelty beside the score: the column, and alerts that are reserved for what nobody has labelled."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import dplan
from dplan.cli.main import main
from dplan.scoring import AlertPolicy, Scorer, score_file, score_table
from dplan.scoring.parts import Parts
from dplan.scoring.scorer import Batch
from dplan.tables import Input, TableModel, fit_table, from_table
from dplan.tables.writing import Output
from tests.detectors.quick import QUICK
from tests.serving.process import Running

N_KNOWN, N_NEW = 80, 8


def orders(n_rows=3000, seed=0, n_new=0):
    """Orders; the first ones are fraud of a known kind, which is not rare, and the last ones are of a new kind."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, 5))
    values[:N_KNOWN, :2] = rng.normal([1.5, -1.5], 0.1, (N_KNOWN, 2))
    values[n_rows - n_new :, 3:] = rng.normal([3.6, -3.6], 0.1, (n_new, 2))
    kind = np.repeat(["known", "", "new"], [N_KNOWN, n_rows - N_KNOWN - n_new, n_new])
    table = pl.DataFrame(values, schema=["amount", "hour", "age", "items", "weight"])
    return table.with_columns(order=pl.int_range(n_rows), kind=pl.Series(kind))


def labelled_orders():
    label = pl.when(pl.col("order") < 30).then(pl.lit("fraud")).otherwise(None)
    return orders().with_columns(verdict=label).drop("kind")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orders")
    own = from_table(labelled_orders(), label="verdict", anomaly=["fraud"], id="order")
    settings = {"n_steps": 2000, "warmup_steps": 500, "n_agents": 1}
    fit_table(own, dplan.DPLANEnsemble(**settings, random_state=0), estimate=False).save(folder / "m.dplan")
    fit_table(own, QUICK["DevNet"], estimate=False).save(folder / "plain.dplan")
    orders(seed=1, n_new=N_NEW).drop("kind").write_csv(folder / "new.csv")
    return folder


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_ten_reserved_alerts_find_a_new_kind_that_fifty_by_score_do_not(folder, tmp_path):
    kinds = orders(seed=1, n_new=N_NEW)["kind"]
    found = {}
    for name, explore in (("score", []), ("explore", ["--explore", 10])):
        out = tmp_path / f"{name}.csv"
        result = run(
            "score",
            folder / "new.csv",
            "-m",
            folder / "m.dplan",
            "-o",
            out,
            "--budget",
            50,
            *explore,
            "--explain",
        )
        assert result.exit_code == 0, result.output
        found[name] = pl.read_csv(out)
        assert found[name]["alert"].sum() == 50
    assert "50 alerts (the 40 highest scores and the 10 most novel other rows)" in result.output
    alerts = {name: table.filter("alert") for name, table in found.items()}
    assert not (kinds[alerts["score"]["order"]] == "new").any()
    assert (kinds[alerts["explore"]["order"]] == "new").sum() >= 6
    assert (kinds[alerts["explore"]["order"]] == "known").sum() >= 30
    # They are marked, and stand below the alerts by score.
    assert alerts["explore"]["explore"].to_list() == [False] * 40 + [True] * 10
    new = alerts["explore"].filter(pl.Series(kinds[alerts["explore"]["order"]] == "new"))
    assert new["novelty"].min() > 99
    assert all("`items`" in text or "`weight`" in text for text in new["reasons"])
    assert "explore" not in found["score"].columns
    assert "novelty" not in found["score"].columns


def test_alerts_by_score_have_the_reasons_that_they_have_without_novelty(folder, tmp_path):
    model = TableModel.load(folder / "m.dplan")
    for name, options in (("all", {"budget": 40}), ("some", {"budget": 50, "explore": 10})):
        score_file(
            model, folder / "new.csv", tmp_path / f"{name}.parquet", explain=True, order="file", **options
        )
    everything, some = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("all", "some"))
    by_score = some.filter(pl.col("alert") & ~pl.col("explore"))
    assert by_score.drop("novelty", "explore").equals(everything.filter("alert"))
    explored = some.filter("explore")
    table = pl.read_csv(folder / "new.csv", infer_schema=False)[explored["order"].cast(pl.Int64).to_list()]
    expected = [" | ".join(reason.text() for reason in own) for own in model.why(table, novelty=True)]
    assert explored["reasons"].to_list() == expected
    assert some["novelty"].to_list() == model.novelty(pl.read_csv(folder / "new.csv")).tolist()


def test_the_strangest_of_the_other_rows_are_explored_even_if_their_percentiles_are_equal(folder):
    model = TableModel.load(folder / "m.dplan")
    table = pl.read_csv(folder / "new.csv").with_columns(
        age=pl.when(pl.col("order") >= 2900).then(-10.0 - pl.col("order")).otherwise("age")
    )
    scorer = Scorer(model, alerts=AlertPolicy(budget=6, explore=3))
    scored = scorer.score(Batch(table))
    assert (scored.novelty[2900:] == 100).all()
    columns = scorer.columns(scored, explain=True)
    alerts = columns.with_row_index("row").filter("alert")
    by_score = alerts.filter(~pl.col("explore"))["row"]
    others = [row for row in range(2999, 2900, -1) if row not in by_score]
    assert alerts.filter("explore")["row"].to_list() == sorted(others[:3])
    assert all(alerts["reasons"])


def test_parts_are_reused_only_for_the_same_exploration(folder, tmp_path):
    model = TableModel.load(folder / "m.dplan")
    table = Input(folder / "new.csv").like(model)

    def names(**options):
        parts = Parts(Scorer(model, **options), tmp_path, explain=True, output_format="csv")
        return [parts.score(chunk).name for chunk in table.chunks(1000)]

    budget = AlertPolicy(budget=50)
    ways = [
        names(alerts=budget),
        names(alerts=budget, novelty=True),
        names(alerts=budget._replace(explore=10)),
        names(alerts=budget._replace(explore=11)),
    ]
    assert len({name for way in ways for name in way}) == 4 * len(ways[0])


@pytest.mark.parametrize("chunk_rows", [100, 777])
def test_chunks_do_not_matter(folder, tmp_path, chunk_rows):
    model = TableModel.load(folder / "m.dplan")
    scorer = Scorer(model, alerts=AlertPolicy(budget=50, explore=10))
    table = Input(folder / "new.csv").like(model)
    for name, size in (("whole", 10_000), ("chunks", chunk_rows)):
        score_table(scorer, table, Output(tmp_path / name, "csv"), explain=True, chunk_rows=size)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "chunks").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--explore", 5], "--explore reserves alerts of a budget; add --budget"),
        (["--explore", 5, "--budget", 3], "--explore 5 is more than the --budget of 3"),
        (["--explore", 5, "--budget", 9, "--top", 9], "--top writes the highest scores alone"),
        (["--explore", 5, "--threshold", 1], "add --budget"),
    ],
)
def test_options_that_cannot_be_kept_are_refused(folder, tmp_path, options, message):
    found = run("score", folder / "new.csv", "-m", folder / "m.dplan", "-o", tmp_path / "o.csv", *options)
    assert found.exit_code == 2
    assert message in found.output


def test_a_stream_has_novelty_but_no_budget_to_explore_with(folder):
    text = (folder / "new.csv").read_text()
    command = ["score", "-", "-m", str(folder / "m.dplan"), "-o", "-", "--follow"]
    found = CliRunner().invoke(main, [*command, "--novelty"], input=text)
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0] == "row,order,score,percentile,novelty,alert"
    refused = CliRunner().invoke(main, [*command, "--budget", "9", "--explore", "3"], input=text)
    assert refused.exit_code == 2
    assert "cannot be combined with --budget, --explore" in refused.output


@pytest.mark.parametrize("options", [["--novelty"], ["--budget", 9, "--explore", 3]])
def test_a_model_without_explorers_refuses(folder, tmp_path, options):
    found = run("score", folder / "new.csv", "-m", folder / "plain.dplan", "-o", tmp_path / "o.csv", *options)
    assert found.exit_code == 1
    assert "DevNet has no explorers, so it cannot tell how novel a row is" in found.output
    assert not (tmp_path / "o.csv").exists()


def test_python_refuses_what_the_command_refuses(folder):
    model = TableModel.load(folder / "m.dplan")
    with pytest.raises(ValueError, match="set a budget of at least as many"):
        Scorer(model, alerts=AlertPolicy(explore=3))
    with pytest.raises(ValueError, match="set a budget of at least as many"):
        Scorer(model, alerts=AlertPolicy(budget=2, explore=3))
    with pytest.raises(ValueError, match="explore and top cannot be combined"):
        Scorer(model, alerts=AlertPolicy(budget=5, explore=3, top=5))


def test_a_copied_column_called_novelty_keeps_its_name(folder, tmp_path):
    table = tmp_path / "t.jsonl"
    rows = pl.read_csv(folder / "new.csv")[:50].with_columns(novelty=pl.lit("mine"), explore=pl.lit("ours"))
    rows.write_ndjson(table)
    keep = ["--keep", "novelty", "--keep", "explore", "--budget", 5, "--explore", 2]
    found = run("score", table, "-m", folder / "m.dplan", "-o", tmp_path / "o.jsonl", *keep)
    assert found.exit_code == 0, found.output
    first = json.loads(Path(tmp_path / "o.jsonl").read_text().splitlines()[0])
    assert (first["novelty"], first["explore"]) == ("mine", "ours")
    assert first["dplan_novelty"] >= 0
    assert first["dplan_explore"] is False


def test_an_empty_table_has_the_columns_too(folder, tmp_path):
    (tmp_path / "t.csv").write_text("order,amount,hour,age,items,weight\n")
    found = run(
        "score",
        tmp_path / "t.csv",
        "-m",
        folder / "m.dplan",
        "-o",
        tmp_path / "o.csv",
        "--budget",
        5,
        "--explore",
        2,
    )
    assert found.exit_code == 0, found.output
    header = (tmp_path / "o.csv").read_text().splitlines()[0]
    assert header.endswith("score,percentile,novelty,alert,explore")


def test_the_report_shows_score_and_novelty_against_each_other(folder):
    page = dplan.report(folder / "m.dplan", folder / "new.csv", budget=50)
    picture = page[page.index(">Score and novelty<") :].partition("</svg>")[0]
    assert picture.count('<circle class="point alert"') == 50
    assert picture.count('<circle class="point background"') > 1_000
    assert "50 of them alerts" in picture
    assert "Score and novelty" not in dplan.report(folder / "plain.dplan", folder / "new.csv", budget=50)


def test_the_service_answers_novelty_if_asked_to(folder, tmp_path):
    rows = pl.read_csv(folder / "new.csv")[-12:]
    expected = TableModel.load(folder / "m.dplan").novelty(rows).tolist()
    inputs = [
        {"name": column.name, "datatype": "FP64", "shape": [12], "data": column.to_list()} for column in rows
    ]
    tensors = {"inputs": inputs, "outputs": [{"name": "novelty"}]}
    with Running(tmp_path, folder / "m.dplan", "--novelty") as running:
        for path in ("/score", "/explain"):
            assert running.ask(path, rows.to_dicts())[1]["novelty"] == expected
        records = running.ask("/invocations", {"dataframe_records": rows.to_dicts()})[1]["predictions"]
        assert [record["novelty"] for record in records] == expected
        assert running.ask("/v2/models/m/infer", tensors)[1]["outputs"][0]["data"] == expected
    with Running(tmp_path, folder / "m.dplan") as running:
        assert "novelty" not in running.ask("/score", rows.to_dicts())[1]
        assert running.ask("/v2/models/m/infer", tensors)[0] == 400
    command = [sys.executable, "-m", "dplan", "serve", folder / "plain.dplan", "--novelty", "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "DevNet has no explorers" in refused.stderr
