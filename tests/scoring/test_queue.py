"""From alerts to verdicts and back: the queue survives a spreadsheet, and the model learns from it."""

import csv
import io

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from dplan import DPLANEnsemble, LogisticBaseline
from dplan.cli.main import main
from dplan.scoring import queue_file
from dplan.tables import TableModel, fit_table, from_table, read_queue
from dplan.tables.review_queue import ROW, RowCode, is_queue
from dplan.tables.row_keys import row_keys
from dplan.tables.words import Words
from tests.tables.payments import payments

FEW = {"n_agents": 1, "n_steps": 2000, "warmup_steps": 500, "n_rounds": 20, "n_trees": 20, "random_state": 0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the path of a model of payments, and of new payments with umlauts, commas and formulas in a column."""
    folder = tmp_path_factory.mktemp("review")
    own = from_table(payments(), label="verdict", anomaly=["fraud"], id="payment")
    fit_table(own, DPLANEnsemble(**FEW), estimate=False).save(folder / "m.dplan")
    new = payments(800, seed=3).with_columns(
        payment=pl.format("n{}", pl.int_range(pl.len())), note=pl.lit('Köln, "=1+2";\n€')
    )
    new.drop("verdict").write_csv(folder / "new.csv")
    return folder


def run(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def queue(trained):
    path = trained / "queue.csv"
    told = run("score", trained / "new.csv", "-m", trained / "m.dplan", "--review", path, "--review-rows", 24)
    assert f"dplan update {trained / 'm.dplan'} {path}" in told
    return path


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def filled_in(queue, target, verdicts, *, encoding="utf-8", separator=",", change=lambda name, cell: cell):
    """Write a queue with verdicts, as a spreadsheet might."""
    rows = rows_of(queue)
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator)
    writer.writerow(rows[0])
    for row, verdict in zip(rows, verdicts, strict=False):
        writer.writerow([verdict if name == "verdict" else change(name, cell) for name, cell in row.items()])
    target.write_bytes(text.getvalue().encode(encoding, errors="replace"))
    return target


@pytest.mark.parametrize(
    ("options", "separator", "decimal"), [((), ";", "."), (("--separator", "|", "--decimal", ","), "|", ",")]
)
def test_the_queue_is_written_like_the_table(trained, queue, tmp_path, options, separator, decimal):
    new = pl.read_csv(trained / "new.csv")
    new.write_csv(tmp_path / "neu.csv", separator=";")
    path = tmp_path / "queue.csv"
    run(
        "score",
        tmp_path / "neu.csv",
        "-m",
        trained / "m.dplan",
        "--review",
        path,
        "--review-rows",
        24,
        *options,
    )
    text = io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")
    rows = list(csv.DictReader(text, delimiter=separator))
    expected = rows_of(queue)
    assert [row["payment"] for row in rows] == [row["payment"] for row in expected]
    assert [row["score"] for row in rows] == [row["score"].replace(".", decimal) for row in expected]
    assert is_queue(path)


def test_the_queue_has_the_rows_with_all_their_columns_and_reasons(trained, queue):
    rows = rows_of(queue)
    assert len(rows) == 24
    assert list(rows[0])[:4] == ["verdict", "score", "percentile", "reasons"]
    assert {"payment", "amount", "items", "day", "country", "note", ROW} < set(rows[0])
    assert all(row["verdict"] == "" and row["reasons"] for row in rows)
    assert sum(row["country"] == "XX" for row in rows) >= 6
    scores = [float(row["score"]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert is_queue(queue)
    assert not is_queue(trained / "new.csv")


@pytest.mark.parametrize(
    ("encoding", "separator"), [("utf-8", ","), ("cp1252", ";"), ("utf-16", "\t"), ("utf-8-sig", ";")]
)
def test_a_spreadsheet_may_change_everything_but_the_verdict(trained, queue, tmp_path, encoding, separator):
    model = TableModel.load(trained / "m.dplan")

    def mangled(name, cell):
        return cell if name == ROW else cell.replace(".", ",")[:3]

    verdicts = ["Fraud", "ok ", "", "NORMAL", "yes", "?", "no", "fraud", "ok", "ok", "ok", "false alarm"]
    path = filled_in(
        queue, tmp_path / "q.csv", verdicts, encoding=encoding, separator=separator, change=mangled
    )
    found = read_queue(model, path)
    assert found.y.tolist() == [1, -1, -1, 1, -1, 1, -1, -1, -1, -1]
    assert found.classes == ("unlabelled", "fraud")
    table = pl.read_csv(trained / "new.csv", try_parse_dates=True)
    pairs = zip(rows_of(queue), verdicts, strict=False)
    named = [row["payment"] for row, verdict in pairs if verdict not in ("", "?")]
    places = [int(name[1:]) for name in named]
    np.testing.assert_array_equal(found.rows, model.prepare(table)[places])


def test_update_takes_the_queue_back_and_tells_what_changed(trained, queue, tmp_path):
    rows = rows_of(queue)
    verdicts = ["fraud" if row["country"] == "XX" else "ok" for row in rows]
    path, new = filled_in(queue, tmp_path / "q.csv", verdicts, separator=";"), tmp_path / "new.dplan"
    told = run("update", trained / "m.dplan", path, "-o", new)
    n_finds = verdicts.count("fraud")
    assert f"24 rows: {n_finds} fraud, {24 - n_finds} checked normal, 0 unlabelled" in told
    assert (
        f"The model now knows {30 + n_finds} fraud, {24 - n_finds} checked normal, 2,970 unlabelled" in told
    )
    assert "anomalies in the old ranking and" in told
    model = TableModel.load(new)
    assert model.summary.checked_normal == 24 - n_finds == len(model.checked_normal)
    # What has a verdict is not asked about again.
    again = tmp_path / "again.csv"
    run("score", trained / "new.csv", "-m", new, "--review", again, "--review-rows", 12)
    assert not {row["payment"] for row in rows} & {row["payment"] for row in rows_of(again)}


def test_only_finds_only_false_alarms_one_row_and_a_changed_mind(trained, queue, tmp_path):
    model, path = trained / "m.dplan", tmp_path / "m.dplan"

    def known(*verdicts, of=model):
        run(
            "update",
            of,
            filled_in(queue, tmp_path / "q.csv", verdicts),
            "-o",
            path,
            "--no-estimate",
            "--overwrite",
        )
        loaded = TableModel.load(path)
        n_checked = 0 if loaded.checked_normal is None else len(loaded.checked_normal)
        return len(loaded.known_anomalies) - 30, n_checked

    assert known(*["fraud"] * 12) == (12, 0)
    assert known(*["ok"] * 12) == (0, 12)
    assert known("ok") == (0, 1)
    assert known("fraud", of=path) == (1, 0)  # the later verdict wins
    assert known("", "ok", of=path) == (1, 1)
    assert TableModel.load(path).summary.labels["fraud"] == 31
    # Also within one file.
    q = filled_in(queue, tmp_path / "q.csv", ["fraud"])
    lines = q.read_text(encoding="utf-8")
    header = lines.index("\n") + 1
    q.write_text(lines + lines[header:].replace("fraud", "ok", 1), encoding="utf-8")
    run("update", model, q, "-o", path, "--overwrite")
    assert TableModel.load(path).summary.checked_normal == 1
    assert TableModel.load(path).summary.labels["fraud"] == 30


def test_the_values_of_the_training_are_remembered(tmp_path):
    table = payments(600).with_columns(
        verdict=pl.when(pl.int_range(pl.len()) % 7 == 3).then(pl.lit("Geprüft")).otherwise("verdict")
    )
    table.write_csv(tmp_path / "t.csv")
    settings = [f"{name}={value}" for name, value in FEW.items() if name != "random_state"]
    options = [option for setting in settings for option in ("--set", setting)]
    told = run(
        "fit", tmp_path / "t.csv", "--label", "verdict", "--anomaly", "fraud", "--normal", "geprüft",
        "--id", "payment", "-o", tmp_path / "m.dplan", *options,
    )  # fmt: skip
    assert "5 fraud, 86 checked normal, 509 unlabelled" in told
    assert "'geprüft' matched 86 rows ('Geprüft' 86)" in told
    assert "5 known anomalies are too few to tell" in told
    table[:200].write_csv(tmp_path / "june.csv")
    told = run("update", tmp_path / "m.dplan", tmp_path / "june.csv", "--no-estimate")
    assert "200 rows: 2 fraud, 29 checked normal, 169 unlabelled" in told
    assert "The model now knows 5 fraud, 86 checked normal" in told  # the same rows, by their ids
    only_normal = table.filter(pl.col("verdict") == "Geprüft")[:1]
    only_normal.write_csv(tmp_path / "one.csv")
    assert "1 rows: 0 fraud, 1 checked normal" in run("update", tmp_path / "m.dplan", tmp_path / "one.csv")
    wrong = CliRunner().invoke(
        main, ["update", str(tmp_path / "m.dplan"), str(tmp_path / "one.csv"), "--anomaly", "theft"]
    )
    assert wrong.exit_code == 1
    assert "has no value 'theft'" in wrong.output or "contains no verdict" in wrong.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace("row1-", "row1-x", 1),
            "row 2: the cell in column 'dplan_row' was changed",
        ),
        (
            lambda text: text.replace("fraud", "perhaps", 1),
            "row 2, column 'verdict': unknown label 'perhaps'",
        ),
        (lambda text: text.replace("fraud", "", 1), "contains no verdict"),
        (lambda text: text.replace("verdict", "Urteil", 1), "has no column 'verdict'"),
    ],
)
def test_damage_is_named(trained, queue, tmp_path, change, message):
    model = TableModel.load(trained / "m.dplan")
    path = filled_in(queue, tmp_path / "q.csv", ["fraud"])
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_queue(model, path)


def test_rows_of_another_model_and_bombs_are_rejected(trained):
    model = TableModel.load(trained / "m.dplan")
    row = model.background[0]
    key, decoded = RowCode(model).decode(RowCode(model).encode("00" * 8, row))
    assert key == "00" * 8
    np.testing.assert_array_equal(decoded, row)
    other = fit_table(
        from_table(payments(400, seed=9), label="verdict", anomaly=["fraud"]),
        DPLANEnsemble(**FEW),
        estimate=False,
    )
    with pytest.raises(ValueError, match="scored by another model"):
        RowCode(other).decode(RowCode(model).encode("00" * 8, row))
    with pytest.raises(ValueError, match="scored by another model"):
        RowCode(model).decode(RowCode(model).encode("00" * 8, np.zeros(10_000_000, dtype=np.float32)))
    with pytest.raises(ValueError, match="not finite"):
        RowCode(model).decode(RowCode(model).encode("00" * 8, np.full_like(row, np.nan)))


def test_more_classes_and_other_words(trained, queue, tmp_path):
    model = TableModel.load(trained / "m.dplan")
    path = filled_in(queue, tmp_path / "q.csv", ["Theft", "fraud", "harmless"])
    found = read_queue(model, path, words=Words(("theft",), ("harmless",)))
    assert found.classes == ("unlabelled", "fraud", "theft")
    assert found.y.tolist() == [2, 1, -1]


def test_rows_are_recognised_by_their_ids_or_else_by_their_values():
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    by_id = row_keys(pl.DataFrame({"a": ["007", " x", None], "b": [1, 2, None]}), rows)
    assert by_id[:2] == row_keys(pl.DataFrame({"a": ["7", "x "], "b": [1.0, 2.0]}), rows[::-1][:2])
    assert len(set(by_id)) == 3
    assert by_id[2] == row_keys(pl.DataFrame(), rows)[2]  # a row without an id
    assert row_keys(pl.DataFrame(), rows) == row_keys(pl.DataFrame(), rows.copy())


def as_sheets(queue, target, verdicts, *, sheet="Review", title=False, drop=()):
    """Write a queue with verdicts into a workbook that somebody else uses too."""
    xlsxwriter = pytest.importorskip("xlsxwriter")
    frame = (
        pl.DataFrame(rows_of(queue)).head(len(verdicts)).with_columns(verdict=pl.Series(verdicts)).drop(drop)
    )
    with xlsxwriter.Workbook(target) as book:
        pl.DataFrame({"to do": ["call the bank"]}).write_excel(book, worksheet="Notes")
        frame.write_excel(book, worksheet=sheet, position="A3" if title else "A1")
        if title:
            book.get_worksheet_by_name(sheet).write("A1", "Alerts of May")
    return target


ANSWERS = ["fraud", "ok", "no", "0", "", "fraud", "false", "unsure"]


@pytest.mark.parametrize("title", [False, True])
def test_a_queue_may_be_on_any_sheet(trained, queue, tmp_path, title):
    path = as_sheets(queue, tmp_path / "q.xlsx", ANSWERS, title=title)
    assert is_queue(path)
    found = read_queue(TableModel.load(trained / "m.dplan"), path)
    assert found.y.tolist() == [1, -1, -1, -1, 1, -1]
    model = TableModel.load(trained / "m.dplan")
    assert read_queue(model, path, sheet="Review").y.tolist() == found.y.tolist()
    with pytest.raises(
        ValueError, match=r"has no sheet 'Reviews'; did you mean 'Review'\? Its sheets are 'Notes'"
    ):
        read_queue(model, path, sheet="Reviews")
    bad = as_sheets(queue, tmp_path / "bad.xlsx", ["fraud", "perhaps"], title=title)
    with pytest.raises(
        ValueError, match=rf"row {5 if title else 3}, column 'verdict': unknown label 'perhaps'"
    ):
        read_queue(model, bad)


def test_a_queue_on_two_sheets_is_refused(trained, queue, tmp_path):
    xlsxwriter = pytest.importorskip("xlsxwriter")
    with xlsxwriter.Workbook(tmp_path / "q.xlsx") as book:
        for sheet in ("Ann", "Bob"):
            pl.DataFrame(rows_of(queue)).write_excel(book, worksheet=sheet)
    with pytest.raises(ValueError, match=r"has review rows on several sheets: 'Ann', 'Bob' \(--sheet\)"):
        read_queue(TableModel.load(trained / "m.dplan"), tmp_path / "q.xlsx")


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_verdicts_of_a_queue_that_has_lost_its_last_column_are_not_lost(trained, queue, tmp_path, kind):
    """Somebody deleted the column of codes, or copied the others: the rows are found by their cells."""
    path = tmp_path / f"q.{kind}"
    if kind == "xlsx":
        as_sheets(queue, path, ANSWERS, drop=ROW)
        options = ["--sheet", "Review"]
    else:
        frame = pl.DataFrame(rows_of(filled_in(queue, tmp_path / "all.csv", ANSWERS)))
        frame.drop(ROW).write_csv(path)
        options = []
    told = run("update", trained / "m.dplan", path, "-o", tmp_path / "n.dplan", "--no-estimate", *options)
    assert "8 rows: 2 fraud, 4 checked normal, 2 unlabelled" in told
    assert TableModel.load(tmp_path / "n.dplan").summary.checked_normal == 4


def test_a_person_is_offered_her_own_words():
    table = pl.DataFrame({"amount": [*range(50), 900, 950, 960], "verdict": ["", "ok"] * 25 + ["fraud"] * 3})
    data = from_table(table, label="verdict", anomaly=["fraud"], normal=["ok"])
    queue = queue_file(fit_table(data, LogisticBaseline()), table.head(5), rows=2)
    assert queue.choices == ("fraud", "ok", "unsure")


@pytest.mark.parametrize("words", [["nein", "ja"], [0, 1]])
def test_the_only_class_without_a_name_is_called_anomaly(words, tmp_path):
    table = pl.DataFrame({"amount": [*range(50), 900, 950, 960], "bad": [words[0]] * 50 + [words[1]] * 3})
    model = fit_table(from_table(table, label="bad"), LogisticBaseline(), estimate=False)
    queue = queue_file(model, table.head(50), rows=2)
    assert queue.choices == ("anomaly", "normal", "unsure")
    filled = queue.rows.drop("reasons").with_columns(pl.Series("bad", ["anomaly", "normal"]))
    filled.write_csv(tmp_path / "queue.csv")
    assert sorted(read_queue(model, tmp_path / "queue.csv").y.tolist()) == [-1, 1]
