"""Rows of requests, read and scored together, against `dplan score` on a file of the same rows."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplan import LogisticBaseline
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
