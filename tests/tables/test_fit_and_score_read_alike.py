"""Whatever ``fit`` accepts, ``score`` accepts, and reads it as ``fit`` did: over generated tables in every form."""

import datetime as dt
import gzip

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dplan import LogisticBaseline
from dplan.tables import fit_table, from_table
from dplan.tables.input import Input

DATES = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%Y/%m/%d", "%d.%m.%y")
TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", "T%H:%M:%SZ", "T%H:%M:%S.%f", "T%H:%M:%S+02:00")
ACCEPTED = ("is not a number, but", "no feature columns left", "is not finite")
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=6)
NASTY = st.sampled_from(
    ['say "hi"', "a,b", "a;b", "tab\tx", "line\nbreak", "line\r\nbreak", " x ", "NA", "Ü", '"', "'"]
)


@st.composite
def columns(draw, n):
    """Return a column as the texts that stand in a file."""
    kind = draw(st.sampled_from(["whole", "fraction", "flag", "date", "time", "text", "code"]))
    if kind == "date":
        form = draw(st.sampled_from(DATES)) + draw(st.sampled_from(TIMES))
        cells = [day.strftime(form) for day in draw(st.lists(_days(), min_size=n, max_size=n))]
    else:
        strategy = {
            "whole": st.integers(-(10**12), 10**12).map(str),
            "fraction": st.floats(allow_nan=False, allow_infinity=False).map(repr),
            "flag": st.sampled_from(["true", "false", "True", "FALSE"]),
            "time": st.times().map(lambda time: time.strftime("%H:%M:%S")),
            "text": st.one_of(WORDS, NASTY),
            "code": st.sampled_from(["007", "A1", "B2", "x"]),
        }[kind]
        cells = draw(st.lists(strategy, min_size=n, max_size=n))
    gaps = draw(st.lists(st.sampled_from([None, None, None, "", "NA", " ", "?"]), min_size=n, max_size=n))
    blank = draw(st.sampled_from(["", "", " "]))
    return [blank + cell + blank if gap is None else gap for cell, gap in zip(cells, gaps, strict=True)]


def _days():
    return st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2068, 12, 31))


def quoted(cell, separator, always):
    if always or cell == "" or any(sign in cell for sign in f'"\n\r{separator}'):
        return '"' + cell.replace('"', '""') + '"'
    return cell


@st.composite
def files(draw):
    """Return the name and the bytes of a table with a label, and how to read it."""
    n = draw(st.integers(4, 9))
    cells = [draw(columns(n)) for _ in range(draw(st.integers(1, 3)))]
    separator = draw(st.sampled_from(",;\t|"))
    always, end = draw(st.booleans()), draw(st.sampled_from(["\n", "\r\n"]))
    lines = [["l", *(f"cölumn {j}" for j in range(len(cells)))]]
    lines += [[str(int(row == 0)), *(column[row] for column in cells)] for row in range(n)]
    text = "".join(separator.join(quoted(c, separator, always) for c in line) + end for line in lines)
    text += draw(st.sampled_from(["", end, end * 2]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
    data = text.encode(encoding)
    name = "t.tsv" if separator == "\t" else draw(st.sampled_from(["t.csv", "t.txt"]))
    if draw(st.booleans()):
        name, data = name + ".gz", gzip.compress(data)
    return name, data, "utf-16" if encoding == "utf-16" else "utf-8"


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(files(), st.integers(1, 10))
def test_score_reads_what_fit_read(tmp_path_factory, file, rows):
    name, data, encoding = file
    path = tmp_path_factory.mktemp("t") / name
    path.write_bytes(data)
    try:
        own = from_table(path, "l", encoding=encoding)
        model = fit_table(own, LogisticBaseline(random_state=0), estimate=False)
    except ValueError as error:
        # Tables that cannot be fitted, for reasons that are no matter of reading files.
        if any(reason in str(error) for reason in ACCEPTED):
            return
        raise
    found = [chunk() for chunk in Input(path).like(model).chunks(rows)]
    assert [frame.height for frame in found[:-1]] == [rows] * (len(found) - 1)
    expected = model.prepare(own.features)
    np.testing.assert_array_equal(np.concatenate([model.prepare(frame) for frame in found]), expected)


@pytest.mark.parametrize(
    "cell", ["14.01.2024", "09/09/2024", "2024-01-31T12:30:05+0200", "7:30", "2024.01.31 12:30"]
)
def test_dates_of_other_forms_are_read_by_both(tmp_path, cell):
    path = tmp_path / "t.csv"
    path.write_text("l,day\n" + f"0,{cell}\n" * 5 + f"1,{cell}\n")
    own = from_table(path, "l")
    assert own.kinds() == {"date": ["day"]}
    model = fit_table(own, LogisticBaseline(), estimate=False)
    (chunk,) = Input(path).chunks()
    np.testing.assert_array_equal(model.prepare(chunk()), model.prepare(own.features))


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_a_model_of_typed_numbers_reads_a_file_with_decimal_commas(tmp_path, rows):
    """The whole file decides, so that "1.234" is not 1.234 in one chunk and 1234 in the next."""
    paid = [1234.0, 12.5, 7.25, 4000.0, 3.5] * 20
    table = pl.DataFrame({"paid": paid, "n": range(100), "fraud": [0, 0, 0, 1, 0, 0, 1, 0, 0, 0] * 10})
    model = fit_table(from_table(table, label="fraud"), LogisticBaseline(), estimate=False)
    german = {1234.0: "1.234", 12.5: "12,5", 7.25: "7,25", 4000.0: "4.000,00", 3.5: "3,50"}
    lines = [f"{german[value]};{n}" for n, value in enumerate(paid)]
    path = tmp_path / "t.csv"
    path.write_text("paid;n\n" + "\n".join(lines) + "\n")
    found = [model.score(chunk()) for chunk in Input(path).like(model).chunks(rows)]
    np.testing.assert_array_equal(np.concatenate(found), model.score(table))
    np.testing.assert_array_equal(model.score(path), model.score(table))
    path.write_text("paid;n\n" + "\n".join(lines).replace("3,50", "three") + "\n")
    with pytest.raises(ValueError, match=r"t.csv, line 6, column 'paid': 'three' is not a number"):
        model.score(path)
