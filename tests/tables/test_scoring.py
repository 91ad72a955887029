"""Scoring in chunks: the same rows however it is cut, interrupted or resumed."""

import gzip
import io
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dplan.tables.chunks import chunks
from dplan.tables.folders import parts_of, score_parts
from dplan.tables.scoring import Wish, score_chunk, score_table


def scored(model, table, tmp_path, wish=None, *, rows=100_000, kind="parquet", out="out.parquet"):
    source, target = tmp_path / f"in.{kind}", tmp_path / out
    table.write_parquet(source) if kind == "parquet" else table.write_csv(source)
    outcome = score_table(
        model, source, kind, target, wish or Wish(("payment",)),
        output_kind=target.suffix[1:], job="test", chunk_rows=rows,
    )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    return (pl.read_parquet if out.endswith("parquet") else pl.read_csv)(target), outcome


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("rows", [257, 3000])
def test_the_output_does_not_depend_on_the_chunks(model, table, tmp_path, kind, rows):
    found, outcome = scored(model, table, tmp_path, rows=rows, kind=kind)
    assert found.columns == ["payment", "score", "percentile", "alert"]
    assert found["payment"].to_list() == table["payment"].to_list()
    np.testing.assert_array_equal(found["score"], model.score(table))
    np.testing.assert_array_equal(found["alert"], model.score(table) >= model.threshold)
    assert (outcome.rows, outcome.alerts) == (3000, found["alert"].sum())


def test_budget_and_top_choose_the_highest_scores(model, table, tmp_path):
    order = np.argsort(-model.score(table), kind="stable")
    found, outcome = scored(model, table, tmp_path, Wish(("payment",), budget=25), rows=400)
    assert set(np.flatnonzero(found["alert"])) == set(order[:25])
    assert outcome.alerts == 25
    found, _ = scored(model, table, tmp_path, Wish(top=7), rows=400)
    assert (found["row"] - 1).to_list() == order[:7].tolist()
    found, outcome = scored(model, table, tmp_path, Wish(("payment",), threshold=-100.0))
    assert outcome.alerts == 3000


def test_equal_scores_never_exceed_the_budget(model, table, tmp_path):
    same = pl.concat([table[:1]] * 50)
    found, outcome = scored(model, same, tmp_path, Wish(budget=3), rows=10)
    assert np.flatnonzero(found["alert"]).tolist() == [0, 1, 2]
    assert outcome.alerts == 3


@pytest.mark.parametrize("wish", [{"budget": 9}, {"top": 9}, {"threshold": 1.0}, {}])
def test_alerts_and_top_rows_have_reasons_and_no_others(model, table, tmp_path, wish):
    found, _ = scored(model, table, tmp_path, Wish(("payment",), explain=True, **wish), rows=500)
    alerts = found if "top" in wish else found.filter("alert")
    assert alerts.height
    assert (alerts["because"] != "").all()
    if "top" not in wish:
        assert (found.filter(~pl.col("alert"))["because"] == "").all()
    row = table.filter(pl.col("payment") == alerts["payment"][0])
    assert model.reasons(row)[0] == alerts["because"][0]


def test_chosen_columns_are_kept_and_clashes_refused(model, table, tmp_path):
    found, _ = scored(model, table, tmp_path, Wish(("payment",), ("country", "items")))
    assert found.columns == ["payment", "country", "items", "score", "percentile", "alert"]
    assert_frame_equal(found.select("country", "items"), table.select("country", "items"))
    with pytest.raises(ValueError, match="no column 'colour' to keep"):
        scored(model, table, tmp_path, Wish(keep=("colour",)))
    with pytest.raises(ValueError, match="output has a column of this name"):
        scored(model, table.with_columns(score=1), tmp_path, Wish(keep=("score",)))
    assert not list(tmp_path.glob(".*"))


def test_formulas_are_neutralised_in_csv_and_only_there(model, table, tmp_path):
    cells = ["=1+2", "+49", "-x", "@sum", "\tx", "plain", "a=b", "1-2"]
    risky = table[:8].with_columns(pl.Series("note", cells), pl.Series("=head", cells))
    wish = Wish(keep=("note", "=head", "amount"))
    scored(model, risky, tmp_path, wish, out="out.csv")
    found = pl.read_csv(tmp_path / "out.csv", infer_schema=False)
    expected = ["'=1+2", "'+49", "'-x", "'@sum", "'\tx", "plain", "a=b", "1-2"]
    assert found["note"].to_list() == expected
    assert found["'=head"].to_list() == expected
    found, _ = scored(model, risky, tmp_path, wish)
    assert found["note"].to_list() == cells


def test_an_interrupted_run_goes_on_and_another_job_starts_over(model, table, tmp_path, monkeypatch):
    from dplan.tables import scoring

    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    table.write_parquet(source)
    calls = []

    def failing(*args):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return score_chunk(*args)

    def run(job="a", **wish):
        return score_table(
            model, source, "parquet", target, Wish(("payment",), **wish),
            output_kind="parquet", job=job, chunk_rows=300,
        )  # fmt: skip

    monkeypatch.setattr(scoring, "score_chunk", failing)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert not target.exists()
    monkeypatch.setattr(scoring, "score_chunk", score_chunk)
    assert run().resumed == 3
    assert pl.read_parquet(target).height == 3000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]
    for other in ({"job": "b"}, {"budget": 5}):
        calls.clear()
        monkeypatch.setattr(scoring, "score_chunk", failing)
        with pytest.raises(KeyboardInterrupt):
            run()
        monkeypatch.setattr(scoring, "score_chunk", score_chunk)
        assert run(**other).resumed == 0


KILLED = """
import os, random, shutil, signal, sys, time
from pathlib import Path
import numpy as np
from dplan.tables.model import TableModel
from dplan.tables.scoring import Wish, score_table

folder = Path(sys.argv[1])
model = TableModel.load(folder / "model.dplan")
model.detector.anomaly_score(model.usual)  # compiled before the forks; polars' threads start after them
random.seed(0)
killed = 0

def child():
    pid = os.fork()
    if pid == 0:
        score_table(model, folder / "in.csv", "csv", folder / "out.csv", Wish(("payment",), budget=20, explain=True),
                    output_kind="csv", job="j", chunk_rows=150)
        os._exit(0)
    return pid

for _ in range(20):
    pid = child()
    time.sleep(random.uniform(0.02, 0.5))
    os.kill(pid, signal.SIGKILL)
    killed += os.waitpid(pid, 0)[1] != 0
    if random.random() < 0.15 and (folder / "out.csv").exists():
        (folder / "out.csv").unlink()
status = os.waitpid(child(), 0)[1]
print(killed, status)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL, which Windows does not have")
def test_20_kills_and_a_rerun_give_the_rows_of_an_undisturbed_run(model, model_path, table, tmp_path):
    table.write_csv(tmp_path / "in.csv")
    (tmp_path / "model.dplan").write_bytes(model_path.read_bytes())
    run = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    killed, status = map(int, run.stdout.split())
    assert killed >= 5
    assert status == 0
    undisturbed = tmp_path / "undisturbed.csv"
    score_table(
        model, tmp_path / "in.csv", "csv", undisturbed, Wish(("payment",), budget=20, explain=True),
        output_kind="csv", job="other", chunk_rows=150,
    )  # fmt: skip
    assert (tmp_path / "out.csv").read_bytes() == undisturbed.read_bytes()
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_json_lines_may_change_their_number_type_from_chunk_to_chunk(model, table, tmp_path):
    numbered = table[:40].with_columns(n=pl.int_range(40).cast(pl.Float64))
    lines = numbered.write_ndjson().splitlines()
    lines[:10] = [line.replace('.0,"', ',"').replace(".0}", "}") for line in lines[:10]]
    lines[10:20] = [line.replace('"n":1', '"n":null,"m":1') for line in lines[10:20]]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    wish = Wish(("payment",), ("n",))
    score_table(
        model, tmp_path / "in.jsonl", "jsonl", tmp_path / "out.jsonl", wish,
        output_kind="jsonl", job="x", chunk_rows=10,
    )  # fmt: skip
    found = pl.read_ndjson(tmp_path / "out.jsonl")
    assert found["payment"].to_list() == table["payment"][:40].to_list()
    assert found["n"].to_list() == [*range(10), *[None] * 10, *range(20, 40)]


def frames(text, rows=2, kind="csv"):
    return [chunk() for chunk in chunks(io.BytesIO(text), kind, rows)]


def test_chunks_of_a_csv_keep_every_row_and_respect_quotes(tmp_path):
    text = b'\xef\xbb\xbfa;b\r\n1;"x\ny"\r\n2;"say ""hi"""\r\n3; z \r\nNA;\r\n'
    assert pl.concat(frames(text)).rows() == [("1", "x\ny"), ("2", 'say "hi"'), ("3", "z"), (None, None)]
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(text))
    assert pl.concat(chunk() for chunk in chunks(path, "csv", 1)).height == 4
    path.write_bytes(gzip.compress(text * 100)[:-30])
    with pytest.raises(ValueError, match="damaged gzip"):
        _ = [chunk() for chunk in chunks(path, "csv", 1)]
    rows = frames(b'{"a":1,"b":null}\n{"a":2.5,"b":"x"}\n{"b":"y"}\n', kind="jsonl")
    assert [frame.height for frame in rows] == [2, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b"a,b\n1,2\n3,4\n5\n", r"the input, line 4 has 1 value, the header has 2"),
        (b"a,a\n1,2\n", "'a' names two columns"),
        (b"a,b\n\xff,2\n", "line 2, byte 5 of the file: 0xff is not utf-8"),
        (b"1,2\n3,4\n", "only numbers"),
    ],
)
def test_a_broken_csv_says_where(text, message):
    with pytest.raises(ValueError, match=message):
        frames(text)


def test_a_header_without_rows_and_broken_files_are_refused(model, tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="no rows"):
        score_table(model, tmp_path / "in.csv", "csv", tmp_path / "o.csv", Wish(), output_kind="csv", job="x")
    (tmp_path / "in.parquet").write_text("nothing")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        score_table(
            model, tmp_path / "in.parquet", "parquet", tmp_path / "o.csv", Wish(), output_kind="csv", job="x"
        )
    with pytest.raises(ValueError, match="line 1: not valid JSON"):
        frames(b"{\n", kind="jsonl")


@pytest.fixture
def folder_of_parts(table, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, start in enumerate(range(0, 3000, 500)):
        table[start : start + 500].write_parquet(folder / f"day-{number}.parquet")
    table[:0].write_parquet(folder / "day-9.parquet")
    return folder


def test_a_folder_gives_one_output_part_per_input_part(model, model_path, table, folder_of_parts, tmp_path):
    inputs = parts_of(str(folder_of_parts))
    out = tmp_path / "scored"
    outcome = score_parts(model_path, inputs, out, Wish(("payment",), budget=10), chunk_rows=200, n_jobs=2)
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in inputs)
    found = pl.concat(pl.read_parquet(path) for path in sorted(out.iterdir()))
    np.testing.assert_array_equal(found["score"], model.score(table))
    assert found["alert"].sum() == outcome.alerts == 10
    one = tmp_path / "top.csv"
    score_parts(model_path, inputs, one, Wish(("payment",), top=4), chunk_rows=200, n_jobs=2)
    best = table["payment"].gather(np.argsort(-model.score(table), kind="stable")[:4])
    assert pl.read_csv(one)["payment"].to_list() == best.to_list()
    with pytest.raises(ValueError, match="one output file"):
        score_parts(model_path, inputs, out, Wish(top=4), chunk_rows=200, n_jobs=2)


def test_what_is_a_folder_of_parts(folder_of_parts, tmp_path):
    assert len(parts_of(f"{folder_of_parts}/day-*.parquet")) == 7
    with pytest.raises(FileNotFoundError, match="no Parquet files"):
        parts_of(f"{tmp_path}/*.nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no Parquet files"):
        parts_of(str(tmp_path / "empty"))
    (folder_of_parts / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match="nothing else"):
        parts_of(f"{folder_of_parts}/*")
