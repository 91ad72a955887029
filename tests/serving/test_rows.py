"""Rows of requests, read and scored together, against `dplan score` on a file of the same rows."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplan import LogisticBaseline
from dplan.exceptions import CellError
from dplan.serving import protocols
from dplan.serving.rows import RequestReader, TooManyRowsError, _containers
from dplan.serving.scoring import score
from dplan.tables import fit_table, from_table
from dplan.tables.input import Input
from dplan.tables.model import TableModel
from tests.scoring.files import Options, score_table


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
    reader = RequestReader(TableModel.load(messy / "m.dplan"), 100)
    requests = [reader.read([row]) for row in rows]
    found = [float(one.score[0]) for one in score(reader, requests)]
    for row, together in zip(rows, found, strict=True):
        (messy / "row.jsonl").write_text(json.dumps(row))
        score_table(
            messy / "m.dplan",
            Input(messy / "row.jsonl"),
            messy / "out.parquet",
            Options(),
            output_format="parquet",
        )
        assert pl.read_parquet(messy / "out.parquet")["score"].to_list() == [together], row


ROW = {"payment": 7, "amount": 12.5, "items": 3, "day": "2024-03-14", "new_customer": True, "country": "FR"}
CELLS = st.one_of(
    st.sampled_from(
        [b"1e400", b'"\xff"', b'"\\ud800"', b"NaN", b"01", b"[1]", b'{"\xff": 1}', b'"\x01"', b"-0", b"-0.0"]
    ),
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["DE", "2024-01-02", "1", "", "é😀"]),
    ).map(lambda value: json.dumps(value).encode()),
)


def outcome(reader, body, decoder):
    """What a request is read as, or the error."""
    try:
        rows = reader.read(protocols.plain(protocols.json_of(body, decoder)))
    except ValueError as error:
        return type(error), str(error)
    return rows.height, rows.numbers.tobytes(), rows.texts, rows.alone is None


def test_ordinary_records_are_parsed_to_their_types_at_once(model):
    reader = RequestReader(model, 100)
    for row in (ROW, {**ROW, "amount": None, "day": None}, {k: v for k, v in ROW.items() if k != "payment"}):
        for body in ([row, ROW], {"rows": [row]}):
            assert reader.decoder.decode(json.dumps(body)) is not None
            rows = reader.read(protocols.plain(protocols.json_of(json.dumps(body).encode(), reader.decoder)))
            assert rows.alone is None


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_records_parsed_to_types_are_what_any_json_parser_reads(data, model):
    """Values of other types, missing and extra columns, columns given twice, and what is not JSON."""
    reader = RequestReader(model, 100)
    names = st.sampled_from([*ROW, "other", 'quo"te'])
    rows = []
    for _ in range(data.draw(st.integers(0, 3))):
        missing = data.draw(st.sampled_from([*[None] * 20, *ROW]))
        cells = [(name, json.dumps(value).encode()) for name, value in ROW.items() if name != missing]
        cells += data.draw(st.lists(st.tuples(names, CELLS), max_size=2))
        rows.append(b", ".join(json.dumps(name).encode() + b": " + value for name, value in cells))
    body = b"[%b]" % b", ".join(b"{%b}" % row for row in rows)
    if data.draw(st.sampled_from([False, False, False, True])):
        place = data.draw(st.integers(0, len(body) - 1))
        body = (
            body[:place]
            + data.draw(st.sampled_from([b"", b"\xff", b"\\", b'"', b",", b"[["]))
            + body[place + 1 :]
        )
    assert outcome(reader, body, reader.decoder) == outcome(reader, body, None)


def test_a_column_name_may_have_any_character():
    name = 'say "yes"\\\n'
    table = pl.DataFrame({name: [*range(100), 900, 950], "b": [1.0, 2.0] * 51, "fraud": [0] * 100 + [1, 1]})
    reader = RequestReader(
        fit_table(from_table(table, label="fraud"), LogisticBaseline(), estimate=False), 10
    )
    body = json.dumps([{name: 7, "b": 1}]).encode()
    assert reader.read(protocols.plain(protocols.json_of(body, reader.decoder))).numbers.tolist() == [
        [7.0, 1.0]
    ]


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (b"[%b]" % b",".join([b"{}"] * 2_000), True),
        (b"[%b]" % b",".join([b"[]"] * 2_000), True),
        (b'{"rows": [%b]}' % b",".join([b'{"amount": 1}'] * 2_000), True),
        (b"[" * 2_001, True),
        (b"[%b]" % b",".join([b"{}"] * 1_999), False),
        (b'[{"country": "%b"}]' % (b"{[" * 5_000), False),
        (b"[%b]" % b",".join([b"1"] * 5_000), False),
    ],
)
def test_bodies_of_too_many_rows_are_refused_before_they_are_parsed(body, refused, model):
    reader = RequestReader(model, 100)
    if refused:
        with pytest.raises(
            TooManyRowsError, match="more than 2,000 objects and arrays, too many for 100 rows"
        ):
            reader.check_size(body)
    else:
        reader.check_size(body)


TEXTS = st.text('a"\\{[]}')


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.recursive(st.none() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_objects_and_arrays_are_counted_as_a_parser_would(value):
    def count(node):
        inner = node.values() if isinstance(node, dict) else node
        return 1 + sum(map(count, inner)) if isinstance(node, dict | list) else 0

    assert _containers(json.dumps(value).encode()) == count(value)


@pytest.fixture(scope="module")
def reader():
    """Reads at most four rows of two numbers, a flag and a text; a further column does not matter."""
    n = 102
    table = pl.DataFrame(
        {
            "amount": [*range(100), 900, 950],
            "size": [1.5, 2.5] * 51,
            "new": [True, False, False] * 34,
            "card": ["a", "b", "c"] * 34,
            "same": ["x"] * n,
            "fraud": [0] * 100 + [1, 1],
        }
    )
    own = from_table(table, label="fraud", drop=["same"])
    return RequestReader(fit_table(own, LogisticBaseline(), estimate=False), 4)


ORDINARY = {"amount": 7, "size": None, "new": True, "card": "b"}


@pytest.mark.parametrize("n", [1, 4])
def test_records_and_columns_are_the_same_rows(n, reader):
    records = [{**ORDINARY, "amount": k} for k in range(n)]
    columns = {name: [record[name] for record in records] for name in ORDINARY}
    for form in (records, columns):
        rows = reader.read(form)
        assert (rows.height, rows.alone) == (n, None)
        assert rows.texts == [["b"] * n]
        np.testing.assert_array_equal(rows.numbers, [[k, np.nan, 1] for k in range(n)])
        exact = reader.read(form, exactly=True)
        assert (exact.height, exact.numbers.size, exact.texts) == (n, 0, [])
        assert exact.alone.read()["amount"].to_list() == list(range(n))
    both = reader.together([reader.read(records), reader.read(columns)])
    assert both.texts == [["b"] * 2 * n]
    assert both.numbers[:, 0].tolist() == [*range(n), *range(n)]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([], ValueError, "the request has no rows"),
        ({}, ValueError, "the request has no rows"),
        ({name: [] for name in ORDINARY}, ValueError, "the request has no rows"),
        ([ORDINARY] * 5, TooManyRowsError, "more than 4 rows; split it, or raise --max-rows"),
        ({name: [value] * 5 for name, value in ORDINARY.items()}, TooManyRowsError, "more than 4 rows"),
        ([ORDINARY, 7], ValueError, "row 2 is a number, expected an object with the columns"),
        ([ORDINARY, True], ValueError, "row 2 is a boolean, expected an object"),
        ([ORDINARY, None], ValueError, "row 2 is null, expected an object"),
        ([ORDINARY, ["a"]], ValueError, "row 2 is an array, expected an object"),
        ([{"amount": 1}], ValueError, "missing columns"),
        ({"amount": [1]}, ValueError, "missing columns"),
        ([ORDINARY, {**ORDINARY, "card": ["b"]}], CellError, "row 2, column 'card': expected one value, got an array"),
        ([ORDINARY, {**ORDINARY, "size": {}}], CellError, "row 2, column 'size': expected one value, got an object"),
        ({**ORDINARY, "amount": [1]}, ValueError, "column 'size' is null, expected an array of values"),
        ({"amount": "x"}, ValueError, "column 'amount' is a string, expected an array"),
        (
            {"amount": [1, 2], "size": [1, 2], "new": [True], "card": ["a"] * 2},
            ValueError,
            "columns have different lengths: 2 values in 'amount', 1 in 'new'",
        ),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_read_are_named(given, error, message, reader):
    with pytest.raises(error, match=message):
        reader.read(given)


@pytest.mark.parametrize("odd", [{"amount": "7"}, {"card": 5}, {"new": "yes"}])
def test_rows_of_other_types_are_read_alone(odd, reader):
    records = [ORDINARY, {**ORDINARY, **odd}]
    for form in (records, {name: [record[name] for record in records] for name in ORDINARY}):
        rows = reader.read(form)
        assert rows.height == 2
        assert rows.alone.read().height == 2
        assert rows.alone.read().columns == reader.model.columns


def test_a_csv_is_read_alone(reader):
    header = "amount,size,new,card\n"
    rows = reader.read_csv((header + "1,,true,a\n" * 4).encode())
    assert (rows.height, rows.alone.read()["card"].to_list()) == (4, ["a"] * 4)
    assert rows.alone.place(1).endswith("line 3")
    for body, message in (
        (header + "1,,true,a\n" * 5, "more than 4 rows"),
        (header, "the request has no rows"),
        ("", "the input is empty"),
        ("amount,size\n1,2\n", "missing columns"),
    ):
        with pytest.raises(ValueError, match=message):
            reader.read_csv(body.encode())


def test_a_model_of_one_column_reads_records():
    table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    own = RequestReader(fit_table(from_table(table, label="fraud"), LogisticBaseline(), estimate=False), 4)
    rows = own.read([{"amount": 7}, {"amount": None, "more": 1}])
    assert rows.alone is None
    np.testing.assert_array_equal(rows.numbers, [[7], [np.nan]])
    assert own.together([rows]).numbers is rows.numbers
