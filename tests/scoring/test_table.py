"""Scoring in chunks: the same rows however it is cut, interrupted or resumed."""

import csv
import errno
import gzip
import io
import itertools
import os

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

from dplan import IForest, LogisticBaseline
from dplan.cli.main import main
from dplan.exceptions import NonFiniteScoreError
from dplan.tables import TableModel, fit_table, from_table
from dplan.tables.input import Input
from tests.scoring.files import Options, score_table


def scored(model_path, table, tmp_path, options=None, *, rows=100_000, kind="parquet", out="out.parquet"):
    source, target = tmp_path / f"in.{kind}", tmp_path / out
    table.write_parquet(source) if kind == "parquet" else table.write_csv(source)
    outcome = score_table(
        model_path,
        Input(source),
        target,
        options or Options(),
        output_format=target.suffix[1:],
        chunk_rows=rows,
    )
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    return (pl.read_parquet if out.endswith("parquet") else pl.read_csv)(target), outcome


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("rows", [257, 3000])
def test_the_output_does_not_depend_on_the_chunks(model, model_path, table, tmp_path, kind, rows):
    found, outcome = scored(model_path, table, tmp_path, rows=rows, kind=kind)
    assert found.columns == ["row", "payment", "score", "percentile", "alert"]
    assert found["row"].to_list() == list(range(1, 3001))
    assert found["payment"].to_list() == table["payment"].to_list()
    np.testing.assert_array_equal(found["score"], model.score(table))
    np.testing.assert_array_equal(found["alert"], model.score(table) >= model.threshold)
    assert (outcome.rows, outcome.alerts) == (3000, found["alert"].sum())


def test_budget_and_top_choose_the_highest_scores(model, model_path, table, tmp_path):
    order = np.argsort(-model.score(table), kind="stable")
    found, outcome = scored(model_path, table, tmp_path, Options(budget=25), rows=400)
    assert set(found.filter("alert")["row"] - 1) == set(order[:25])
    assert outcome.alerts == 25
    found, _ = scored(model_path, table, tmp_path, Options(top=7), rows=400)
    assert found["payment"].to_list() == table["payment"].gather(order[:7]).to_list()
    found, outcome = scored(model_path, table, tmp_path, Options(threshold=-100.0))
    assert outcome.alerts == 3000


def test_equal_scores_never_exceed_the_budget(model_path, table, tmp_path):
    same = pl.concat([table[:1]] * 50)
    found, outcome = scored(model_path, same, tmp_path, Options(budget=3), rows=10)
    assert np.flatnonzero(found["alert"]).tolist() == [0, 1, 2]
    assert outcome.alerts == 3


@pytest.mark.parametrize("options", [{"budget": 9}, {"top": 9}, {"threshold": 1.0}, {}])
def test_alerts_and_top_rows_have_reasons_and_no_others(model, model_path, table, tmp_path, options):
    found, _ = scored(model_path, table, tmp_path, Options(explain=True, **options), rows=500)
    alerts = found if "top" in options else found.filter("alert")
    assert alerts.height
    assert (alerts["reasons"] != "").all()
    if "top" not in options:
        assert (found.filter(~pl.col("alert"))["reasons"] == "").all()
    row = table.filter(pl.col("payment") == alerts["payment"][0])
    assert model.reasons(row)[0] == alerts["reasons"][0]


def test_rows_are_explained_after_it_is_decided_which_are_shown(model_path, table, tmp_path, monkeypatch):
    explained = []
    real = TableModel.why
    monkeypatch.setattr(
        TableModel,
        "why",
        lambda self, rows, **known: explained.append(rows.height) or real(self, rows, **known),
    )
    scored(model_path, table, tmp_path, Options(budget=9, explain=True), rows=100)
    assert sum(explained) == 9
    explained.clear()
    scored(model_path, table, tmp_path, Options(top=4, budget=9, explain=True), rows=100)
    assert sum(explained) == 4


def test_chosen_columns_are_kept(model_path, table, tmp_path):
    found, _ = scored(model_path, table, tmp_path, Options(("country", "items")))
    assert found.columns == ["row", "payment", "country", "items", "score", "percentile", "alert"]
    assert_frame_equal(found.select("country", "items"), table.select("country", "items"))
    with pytest.raises(ValueError, match="cannot keep column 'colour'"):
        scored(model_path, table, tmp_path, Options(("colour",)))
    assert not list(tmp_path.glob(".*"))


def test_columns_named_like_ours_are_kept_and_ours_make_way(table, tmp_path):
    theirs = table.rename({"payment": "row"}).with_columns(
        score=pl.lit("theirs"), reasons=pl.lit(1.5), dplan_score=pl.lit(7), alert=pl.lit("x")
    )
    own = from_table(
        theirs, label="verdict", anomaly=["fraud"], id=["row", "score", "reasons", "dplan_score"]
    )
    model = fit_table(own, IForest(random_state=0), estimate=False)
    model.save(tmp_path / "m.dplan")
    found, _ = scored(tmp_path / "m.dplan", theirs, tmp_path, Options(("alert",), budget=3, explain=True))
    kept = ["row", "score", "reasons", "dplan_score", "alert"]
    ours = ["dplan_dplan_score", "percentile", "dplan_alert", "dplan_reasons"]
    assert found.columns == ["dplan_row", *kept, *ours]
    found_in_order = found.sort("dplan_row")
    assert_frame_equal(found_in_order.select(kept), theirs.select(kept))
    np.testing.assert_array_equal(found_in_order["dplan_dplan_score"], model.score(theirs))
    assert (found.filter("dplan_alert")["dplan_reasons"] != "").sum() == 3


def test_a_type_that_the_output_cannot_hold_is_refused_before_any_scoring(
    model, model_path, table, tmp_path, monkeypatch
):
    kind, calls = type(model.detector), []
    score = kind.anomaly_score
    monkeypatch.setattr(kind, "anomaly_score", lambda *given: calls.append(given) or score(*given))
    listed = table.with_columns(tags=pl.lit([["a", "b"]]))
    with pytest.raises(ValueError, match="'tags' of type List"):
        scored(model_path, listed, tmp_path, Options(("tags",)), out="out.csv")
    assert not (tmp_path / "out.csv").exists()
    assert calls == []
    scored(model_path, listed, tmp_path, out="out.csv")
    assert calls


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_score_that_is_not_finite_is_an_error_that_names_the_row(table, tmp_path):
    model = fit_table(from_table(table, label="verdict", anomaly=["fraud"], id="payment"), LogisticBaseline())
    largest = int(table["amount"].arg_max())
    worst = table["amount"].max()
    model.detector.coef_ = np.zeros_like(model.detector.coef_)
    model.detector.coef_[0] = 1.7e38  # finite in float32, as the amounts are
    table = table.with_columns(
        pl.when(pl.col("amount") == worst).then(worst * 3).otherwise(0.0).alias("amount")
    )
    with pytest.raises(NonFiniteScoreError) as found:
        model.score(table)
    assert found.value.row == largest
    model.save(tmp_path / "m.dplan")
    with pytest.raises(ValueError, match=rf"in.parquet: row {largest + 1:,} has the score inf"):
        scored(tmp_path / "m.dplan", table, tmp_path, rows=100)
    assert not (tmp_path / "out.parquet").exists()


def test_formulas_are_neutralised_in_csv_and_only_there(model_path, table, tmp_path):
    cells = [
        "=1+2",
        "+49",
        "-x",
        "@sum",
        "\tx",
        "plain",
        "a=b",
        "1-2",
        "\n=1",
        " =1",
        "\r+1",
        "-5.25",
        "＝1",
        None,
    ]
    texts = pl.Series("note", cells)
    risky = table[: len(cells)].with_columns(
        texts,
        texts.alias("=head"),
        texts.alias("\n@head"),
        texts.cast(pl.Categorical).alias("category"),
        texts.cast(pl.Enum(texts.drop_nulls())).alias("enum"),
    )
    options = Options(("note", "=head", "\n@head", "category", "enum", "amount"))
    expected = [
        "'=1+2", "'+49", "'-x", "'@sum", "'\tx", "plain", "a=b", "1-2", "'\n=1", "' =1", "'\r+1", "-5.25", "'＝1", None,
    ]  # fmt: skip
    for out, separator in (("out.csv", ","), ("out.tsv", "\t")):
        source, target = tmp_path / "in.parquet", tmp_path / out
        risky.write_parquet(source)
        score_table(model_path, Input(source), target, options, output_format=out[4:])
        with target.open(newline="") as file:
            found = list(csv.DictReader(file, delimiter=separator))
        for name in ("note", "'=head", "'\n@head", "category", "enum"):
            assert [row[name] or None for row in found] == expected
    found, _ = scored(model_path, risky, tmp_path, options)
    assert found["note"].to_list() == found["category"].to_list() == cells


@pytest.fixture
def interrupted(monkeypatch):
    """Make the scoring of chunks, or the explaining of rows, fail after some times."""
    from dplan.scoring.parts import Parts

    def after(times, name="score"):
        calls, real = [], getattr(Parts, name)

        def failing(*args):
            calls.append(1)
            if len(calls) > times:
                raise KeyboardInterrupt
            return real(*args)

        monkeypatch.setattr(Parts, name, failing)

        def again():
            monkeypatch.setattr(Parts, name, real)

        return again

    return after


def test_an_interrupted_run_continues_with_what_is_the_same(model_path, table, tmp_path, interrupted):
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    table.write_parquet(source)

    def run(model=model_path, rows=300, **options):
        return score_table(
            model, Input(source), target, Options(**options), output_format="parquet", chunk_rows=rows
        )

    def stop(**options):
        again = interrupted(3)
        with pytest.raises(KeyboardInterrupt):
            run(**options)
        again()

    stop()
    assert not target.exists()
    assert run().resumed == 3
    assert pl.read_parquet(target).height == 3000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]
    stop()
    assert run(budget=5).resumed == 3  # the same scores, decided otherwise
    other = tmp_path / "other.dplan"
    fit_table(
        from_table(table, label="verdict", anomaly=["fraud"], id="payment"), IForest(), estimate=False
    ).save(other)
    for changed in ({"model": other}, {"keep": ("country",)}, {"rows": 299}, {"budget": 5, "explain": True}):
        stop()
        assert run(**changed).resumed == 0


def test_content_replaced_with_the_old_name_size_and_time_is_scored_anew(
    model_path, table, tmp_path, interrupted
):
    source, target = tmp_path / "in.csv", tmp_path / "out.parquet"

    def run():
        return score_table(
            model_path, Input(source), target, Options(), output_format="parquet", chunk_rows=300
        )

    for other in (table.reverse(), table[:1500].vstack(table[1500:].reverse())):
        table.write_csv(source)
        before = source.stat()
        again = interrupted(7)
        with pytest.raises(KeyboardInterrupt):
            run()
        again()
        other.write_csv(source)
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (source.stat().st_size, source.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        outcome = run()
        assert pl.read_parquet(target)["payment"].to_list() == other["payment"].to_list()
        assert outcome.resumed == (5 if other["payment"][0] == table["payment"][0] else 0)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("how", ["replaced", "rewritten in place", "removed"])
def test_a_table_that_changes_while_it_is_read_is_an_error(kind, how, model_path, table, tmp_path):
    source, target, other = tmp_path / f"in.{kind}", tmp_path / "out.parquet", tmp_path / "other"
    for frame, path in ((table, source), (table.reverse(), other)):
        frame.write_parquet(path) if kind == "parquet" else frame.write_csv(path)

    def change(stage, done, total):
        if done == 3:
            if how == "replaced":
                os.utime(other, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
                other.replace(source)
            elif how == "removed":
                source.unlink()
            else:
                time = source.stat().st_mtime_ns
                source.write_bytes(other.read_bytes())
                os.utime(source, ns=(time, time))

    def run(progress):
        return score_table(
            model_path,
            Input(source),
            target,
            Options(),
            output_format="parquet",
            chunk_rows=200,
            progress=progress,
        )

    with pytest.raises(ValueError, match=r"has (changed|been deleted) while it was being read"):
        run(change)
    assert not target.exists()
    if how != "removed":
        run(lambda *_: None)
        assert pl.read_parquet(target)["payment"].to_list() == table["payment"].reverse().to_list()


def test_an_interrupted_explanation_continues_and_gives_the_same_bytes(
    model_path, table, tmp_path, interrupted
):
    table.write_csv(tmp_path / "in.csv")
    explained = []

    def run(name):
        return score_table(
            model_path, Input(tmp_path / "in.csv"), tmp_path / name, Options(budget=40, explain=True),
            output_format="csv", chunk_rows=200, progress=lambda *told: explained.append(told),
        )  # fmt: skip

    assert run("undisturbed.csv").damaged == 0
    again = interrupted(2, "explain")
    with pytest.raises(KeyboardInterrupt):
        run("out.csv")
    again()
    assert len(list((tmp_path / ".out.csv.parts").glob("explained-*"))) == 2
    assert run("out.csv").resumed == 15
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "undisturbed.csv").read_bytes()
    assert [path.name for path in tmp_path.glob(".*")] == []


def _truncated(content):
    return content[: len(content) // 2]


def _one_bit_changed(content):
    return content[:40] + bytes([content[40] ^ 1]) + content[41:]


@pytest.mark.parametrize("kind", ["part", "rows", "mistakes", "explained", "note"])
def test_a_damaged_part_is_made_again(kind, model_path, table, tmp_path, interrupted):
    text = pl.when(payment="p00007").then(pl.lit("many")).otherwise(pl.col("amount").cast(pl.String))
    worse = table[:400].with_columns(amount=text)
    worse.write_csv(tmp_path / "in.csv")

    def run(name):
        options = Options(budget=40, explain=True, on_error="skip")
        return score_table(
            model_path,
            Input(tmp_path / "in.csv"),
            tmp_path / name,
            options,
            output_format="csv",
            chunk_rows=100,
        )

    assert run("undisturbed.csv").damaged == 0
    again = interrupted(2, "explain")
    with pytest.raises(KeyboardInterrupt):
        run("out.csv")
    again()
    damages = (_truncated, _one_bit_changed, lambda _: b"")
    files = sorted((tmp_path / ".out.csv.parts").glob(f"{kind}-*"))
    assert files
    for path, damaged in zip(files, itertools.cycle(damages), strict=False):
        path.write_bytes(damaged(path.read_bytes()))
    assert run("out.csv").damaged > 0
    for one, other in (("out.csv", "undisturbed.csv"), ("out.errors.csv", "undisturbed.errors.csv")):
        assert (tmp_path / one).read_bytes() == (tmp_path / other).read_bytes()


def test_two_runs_cannot_write_one_output(model_path, table, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_csv(source)

    def run(progress=lambda *_: None):
        return score_table(
            model_path,
            Input(source),
            target,
            Options(),
            output_format="csv",
            chunk_rows=500,
            progress=progress,
        )

    def second(stage, done, total):
        # Hidden files are being written, and are renamed when they are complete.
        before = set((tmp_path / ".out.csv.parts").glob("[!.]*"))
        with pytest.raises(
            BlockingIOError, match=rf"another run is writing to .*out.csv: process {os.getpid()} on"
        ):
            run()
        assert before <= set((tmp_path / ".out.csv.parts").iterdir())

    assert run(second).rows == 3000
    assert pl.read_csv(target).height == 3000


@pytest.mark.parametrize("link", ["the path", "a hard link", "a symbolic link", "the model"])
def test_an_input_is_never_the_output(link, model_path, table, tmp_path):
    source, model, target = tmp_path / "in.csv", tmp_path / "m.csv", tmp_path / "out.csv"
    table.write_csv(source)
    model.write_bytes(model_path.read_bytes())
    if link == "a hard link":
        target.hardlink_to(source)
    elif link == "a symbolic link":
        target.symlink_to(source)
    else:
        target = source if link == "the path" else model
    before = {path: path.read_bytes() for path in (source, model)}
    with pytest.raises(ValueError, match="is also an input"):
        score_table(model, Input(source), target, Options(), output_format="csv")
    assert {path: path.read_bytes() for path in (source, model)} == before
    assert not list(tmp_path.glob(".*"))


def test_json_lines_may_change_their_number_type_from_chunk_to_chunk(model_path, table, tmp_path):
    numbered = table[:40].with_columns(n=pl.int_range(40).cast(pl.Float64))
    lines = numbered.write_ndjson().splitlines()
    lines[:10] = [line.replace('.0,"', ',"').replace(".0}", "}") for line in lines[:10]]
    lines[10:20] = [line.replace('"n":1', '"n":null,"m":1') for line in lines[10:20]]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    score_table(
        model_path, Input(tmp_path / "in.jsonl"), tmp_path / "out.jsonl", Options(("n",)),
        output_format="jsonl", chunk_rows=10,
    )  # fmt: skip
    found = pl.read_ndjson(tmp_path / "out.jsonl")
    assert found["payment"].to_list() == table["payment"][:40].to_list()
    assert found["n"].to_list() == [*range(10), *[None] * 10, *range(20, 40)]


def frames(text, rows=2, kind="csv"):
    return [chunk() for chunk in Input(io.BytesIO(text), kind).chunks(rows)]


def test_chunks_of_a_csv_keep_every_row_and_respect_quotes(tmp_path):
    text = b'\xef\xbb\xbfa;b\r\n1;"x\ny"\r\n2;"say ""hi"""\r\n3; z \r\nNA;\r\n'
    assert pl.concat(frames(text)).rows() == [("1", "x\ny"), ("2", 'say "hi"'), ("3", "z"), (None, None)]
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(text))
    assert pl.concat(chunk() for chunk in Input(path).chunks(1)).height == 4
    path.write_bytes(gzip.compress(text * 100)[:-30])
    with pytest.raises(ValueError, match="damaged gzip"):
        _ = [chunk() for chunk in Input(path).chunks(1)]
    rows = frames(b'{"a":1,"b":null}\n{"a":2.5,"b":"x"}\n{"b":"y"}\n', kind="jsonl")
    assert [frame.height for frame in rows] == [2, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b"a,b\n1,2\n3,4\n5\n", r"the input, line 4 has 1 value, expected 2"),
        (b"a,a\n1,2\n", "duplicate column name 'a'"),
        (b"a,\xc3\xa9\n\xff,2\n", "line 2, byte 6 of the file: 0xff is not valid utf-8"),
        (b"1,2\n3,4\n", "only numbers"),
    ],
)
def test_a_broken_csv_says_where(text, message):
    with pytest.raises(ValueError, match=message):
        frames(text)


def test_broken_files_are_refused(model_path, tmp_path):
    (tmp_path / "in.parquet").write_text("nothing")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        score_table(
            model_path, Input(tmp_path / "in.parquet"), tmp_path / "o.csv", Options(), output_format="csv"
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


def score_folder(model_path, inputs, output, options=None, kind="folder"):
    return score_table(
        model_path, Input(inputs), output, options or Options(), output_format=kind, chunk_rows=200
    )


def test_a_folder_gives_one_output_part_per_input_part(model, model_path, table, folder_of_parts, tmp_path):
    inputs = Input(str(folder_of_parts)).files()
    out = tmp_path / "scored"
    outcome = score_folder(model_path, inputs, out, Options(budget=10, explain=True))
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in inputs)
    found = pl.concat(pl.read_parquet(path) for path in sorted(out.iterdir()))
    np.testing.assert_array_equal(found["score"], model.score(table))
    assert found["alert"].sum() == (found["reasons"] != "").sum() == outcome.alerts == 10
    assert_frame_equal(pl.read_parquet(out), found)
    one = tmp_path / "top.csv"
    score_folder(model_path, inputs, one, Options(top=4), kind="csv")
    best = table["payment"].gather(np.argsort(-model.score(table), kind="stable")[:4])
    assert pl.read_csv(one)["payment"].to_list() == best.to_list()
    with pytest.raises(ValueError, match="choose an output file"):
        score_folder(model_path, inputs, out, Options(top=4))


def test_a_folder_is_replaced_as_a_whole_and_only_if_it_is_ours(model_path, folder_of_parts, tmp_path):
    inputs, out = Input(str(folder_of_parts)).files(), tmp_path / "scored"
    score_folder(model_path, inputs, out)
    out.chmod(0o750)
    score_folder(model_path, inputs[:2], out)
    assert sorted(path.name for path in out.iterdir()) == ["day-0.parquet", "day-1.parquet"]
    assert out.stat().st_mode & 0o777 == 0o750
    for name, content in (("notes.txt", b"mine"), ("theirs.parquet", inputs[0].read_bytes())):
        (out / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"contains {name}, which was not written by dplan score"):
            score_folder(model_path, inputs, out)
        (out / name).unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "scored"]


def test_a_folder_is_never_written_into_itself(model_path, folder_of_parts, tmp_path):
    inputs = Input(str(folder_of_parts)).files()
    content = [path.read_bytes() for path in inputs]
    (tmp_path / "link").symlink_to(folder_of_parts)
    for output in (folder_of_parts, tmp_path / "link", tmp_path, inputs[0]):
        with pytest.raises((ValueError, OSError), match=r"choose another|not a folder"):
            score_folder(model_path, inputs, output)
    with pytest.raises(ValueError, match="is also an input"):
        score_folder(model_path, inputs, inputs[0], kind="parquet")
    for output in (folder_of_parts / "out.parquet", tmp_path / "link" / "out", tmp_path, folder_of_parts):
        with pytest.raises(ValueError, match="choose an"):
            Input(str(folder_of_parts)).check_output(output)
    assert [path.read_bytes() for path in inputs] == content


def test_what_is_a_folder_of_parts(folder_of_parts, tmp_path):
    assert len(Input(f"{folder_of_parts}/day-*.parquet").files()) == 7
    with pytest.raises(FileNotFoundError, match="no tables found"):
        Input(f"{tmp_path}/*.nothing").files()
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no tables found"):
        Input(str(tmp_path / "empty")).files()
    (folder_of_parts / "notes.md").write_text("x")
    assert len(Input(folder_of_parts).files()) == 7
    with pytest.raises(ValueError, match="unsupported file type"):
        Input(f"{folder_of_parts}/*").files()
    with pytest.raises(ValueError, match="the next run would read it"):
        Input(f"{folder_of_parts}/*.parquet").check_output(folder_of_parts / "scored.parquet")


def test_a_resumed_run_says_what_was_damaged(model_path, table, tmp_path, monkeypatch):
    table[:200].write_csv(tmp_path / "in.csv")
    command = ["score", str(tmp_path / "in.csv"), "-m", str(model_path), "-o", str(tmp_path / "out.csv")]

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("dplan.scoring.table._write_output", full)
        assert CliRunner().invoke(main, command).exit_code == 1
    (part,) = (tmp_path / ".out.csv.parts").glob("part-*")
    part.write_bytes(_truncated(part.read_bytes()))
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0
    assert "Warning: damaged results of an earlier run were made again (1)" in done.stderr
