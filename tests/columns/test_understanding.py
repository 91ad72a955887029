"""Columns as people write them: generated numbers and dates are read back, doubt is named, and score reads like fit."""

import datetime as dt
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dplan import LogisticBaseline
from dplan.columns import moments
from dplan.columns.dates import Date
from dplan.columns.deciding import understand, understand_frame
from dplan.columns.given import parse_column, read_columns
from dplan.columns.numbers import Number
from dplan.exceptions import CellError
from dplan.tables import TablePreparer, fit_table, from_table
from dplan.tables.chunks import MISSING
from dplan.tables.input import Input


def understood(cells, name="a", given=None, **options):
    """Return the values of one column and its meaning."""
    table, meanings = understand([pl.Series(name, cells, dtype=pl.String)], given or {}, MISSING, **options)
    return table.to_series().to_list(), meanings[name]


# Numbers


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1.234,56", "12,50", "-3,00"], [1234.56, 12.5, -3.0]),
        (["1,234.56", "12.50", "3"], [1234.56, 12.5, 3.0]),
        (["12,50 €", "1.200,00 €", "€ 3,00"], [12.5, 1200.0, 3.0]),
        (["$1,234.50", "-$3.00", "($2.00)"], [1234.5, -3.0, -2.0]),
        (["76 %", "5%", "100 %"], [76.0, 5.0, 100.0]),
        (["(1,5)", "2,5", "3,5-"], [-1.5, 2.5, -3.5]),
        (["12 kg", "7,5 kg"], [12.0, 7.5]),
        (["1 234,5", "1\u202f234\u202f567,5", "3,25"], [1234.5, 1234567.5, 3.25]),
        (["1'234.50", "1’000", "3.25"], [1234.5, 1000.0, 3.25]),
        (["−5", "3"], [-5.0, 3.0]),
        (["EUR 12.50", "EUR 3.00"], [12.5, 3.0]),
        (["12,34,567.50", "1,000"], [1234567.5, 1000.0]),
        (["1e3", "2.5E-1"], [1000.0, 0.25]),
        (["1.234.567", "12"], [1234567.0, 12.0]),
    ],
)
def test_numbers_are_read_as_people_write_them(cells, values):
    found, meaning = understood([*cells, None])
    assert (found, meaning.type, meaning.sure) == ([*values, None], "number", True)


@pytest.mark.parametrize(
    ("cells", "first", "sure"),
    [
        (["3.582", "12.100", "950"], 3582.0, True),  # smaller numbers have no point
        (["3.582", "12.100", "0.950"], 3.582, True),  # no thousand begins with 0
        (["3.582", "12.100", "1950"], 3.582, True),  # thousands are not grouped
        (["3.582", "12.1"], 3.582, True),
        (["3,582", "12,100"], 3582.0, False),
        (["3.582", "12.100"], 3.582, False),
        (["$3,582", "$12,100", "1950"], 3582.0, False),  # an amount with three decimals is less likely
        (["3.582 €", "12.100 €", "1950"], 3582.0, False),
        (["$3,582", "$12,100", "950"], 3582.0, True),
    ],
)
def test_three_digits_after_a_point_are_decided_over_the_column(cells, first, sure):
    found, meaning = understood(cells)
    assert (found[0], meaning.sure) == (first, sure)
    assert sure or "ambiguous: '3" in meaning.why


def test_other_columns_decide_what_one_column_leaves_open():
    ambiguous = pl.Series("a", ["3.582", "12.100"])
    for other, first in (
        (["1,5", "2,25"], 3582.0),
        (["1.5", "2.25"], 3.582),
        (["31.1.2024", "1.2.2024"], 3582.0),
    ):
        table, meanings = understand([ambiguous, pl.Series("b", other)], {}, MISSING)
        assert table["a"][0] == first
        assert not meanings["a"].sure
        assert "other columns" in meanings["a"].why


def test_other_columns_overrule_longer_numbers_without_a_separator():
    price, weight = pl.Series("a", ["3,582", "12,100", "1950"]), pl.Series("b", ["1.5", "2.25", "3"])
    table, meanings = understand([price, weight], {}, MISSING)
    assert (table["a"].to_list(), meanings["a"].sure) == ([3582, 12100, 1950], False)
    assert "other columns have a decimal point, but '1950' has no thousands separator" in meanings["a"].why
    # The unit alone does not overrule what the other columns say.
    table, meanings = understand(
        [pl.Series("a", ["1,459 €", "1,509 €", "1950 €"]), pl.Series("b", ["1,5", "2,25", "3"])], {}, MISSING
    )
    assert (table["a"].to_list(), meanings["a"].sure) == ([1.459, 1.509, 1950], True)


def test_a_late_value_settles_the_whole_column():
    found, meaning = understood(["3.582", "12.100"] * 5_000 + ["1.5"])
    assert (found[0], found[-1], meaning.sure) == (3.582, 1.5, True)
    found, meaning = understood(["03/04/2024"] * 9_999 + ["12/31/2024"])
    assert (found[0], meaning.order) == (dt.date(2024, 3, 4), "mdy")


def test_different_units_are_not_mixed():
    _, meaning = understood(["12 €", "7 $", "5 €"])
    assert (meaning.type, meaning.sure) == ("category", False)
    assert "different units ('€' and '$')" in meaning.why
    assert understood(["12 €", "7 $"], given={"a": {"kind": "number"}})[0] == [12.0, 7.0]


@pytest.mark.parametrize(
    "cells", [["A1", "B2"], ["Level 3", "Level 4"], ["v1.2", "v1.3"], ["TX-1", "TX-2"], ["12,34", "1.2.3"]]
)
def test_codes_are_not_numbers(cells):
    assert understood(cells)[1].type == "category"


def test_a_bad_number_is_named_with_its_row():
    with pytest.raises(
        CellError, match=r"row 3, column 'a': 'twelve' is not a number, but 2 of 3 values are"
    ):
        understood(["1,5", "2", "twelve"])
    assert understood(["1,5", "2", "twelve"], problems=[])[0] == [1.5, 2.0, None]


LOCALES = {  # decimal, thousands, group sizes from the right
    "en_US": (".", ","), "de_DE": (",", "."), "fr_FR": (",", "\u202f"), "de_CH": (".", "’"), "es_ES": (",", "."),
    "pl_PL": (",", "\u00a0"), "en_IN": (".", ","), "sv_SE": (",", " "), "it_CH": (".", "'"), "pt_BR": (",", "."),
}  # fmt: skip


def written(number, locale, decimals):
    """Return a number as a locale writes it."""
    decimal, thousands = LOCALES[locale]
    whole, _, rest = f"{abs(number):.{decimals}f}".partition(".")
    if locale == "en_IN" and len(whole) > 3:
        head, tail = whole[:-3], whole[-3:]
        pairs = [head[max(0, i - 2) : i] for i in range(len(head), 0, -2)][::-1]
        grouped = thousands.join([*pairs, tail])
    else:
        grouped = f"{int(whole):,}".replace(",", thousands)
    return "-" * (number < 0) + grouped + (decimal + rest if rest else "")


@st.composite
def number_columns(draw):
    """Return numbers, and their text in some locale, with a unit, missing values and duplicates."""
    locale, decimals = draw(st.sampled_from(list(LOCALES))), draw(st.integers(1, 2))
    whole = st.one_of(st.integers(-999, 999), st.integers(-(10**9), 10**9))
    values = draw(st.lists(whole, min_size=2, max_size=12))
    values = [value / 10**decimals for value in values]
    before, after = draw(
        st.sampled_from([("", ""), ("", " €"), ("", "%"), ("", " kg"), ("$", ""), ("CHF ", "")])
    )
    signed = [("-" * (v < 0)) + before + written(abs(v), locale, decimals) + after for v in values]
    gaps = draw(st.lists(st.sampled_from([None, None, "", "NA"]), min_size=len(values), max_size=len(values)))
    assume(any(gap is None for gap in gaps))
    cells = [text if gap is None else gap for text, gap in zip(signed, gaps, strict=True)]
    return [v if gap is None else None for v, gap in zip(values, gaps, strict=True)], cells


@settings(max_examples=100, deadline=None)
@given(number_columns())
def test_numbers_of_ten_locales_are_read_back(column):
    values, cells = column
    assert understood(cells)[0] == values


# Dates, times, durations


@pytest.mark.parametrize(
    ("cells", "first", "order"),
    [
        (["14.01.2024", "3.2.2024"], dt.date(2024, 1, 14), "dmy"),
        (["09/14/2024", "9/3/2024"], dt.date(2024, 9, 14), "mdy"),
        (["14/09/2024 07:30", "3/9/2024 08:15"], dt.datetime(2024, 9, 14, 7, 30), "dmy"),
        (["9/14/2024 3:05 PM", "9/3/2024 11:00 AM"], dt.datetime(2024, 9, 14, 15, 5), "mdy"),
        (["2024-01-31T12:00:00+02:00"], dt.datetime(2024, 1, 31, 10), "ymd"),
        (["2024-01-31 12:00:00.5Z"], dt.datetime(2024, 1, 31, 12, 0, 0, 500_000), "ymd"),
        (["14-Jan-2024", "3-Feb-2024"], dt.date(2024, 1, 14), "ymd"),
        (["14. Januar 2024", "3. März 2024"], dt.date(2024, 1, 14), "ymd"),
        (["Jan 14, 2024", "February 3, 2024"], dt.date(2024, 1, 14), "ymd"),
        (["14.01.24", "31.12.99"], dt.date(2024, 1, 14), "dmy"),
        ([f"2024{m:02}{d:02}" for m in (1, 2) for d in range(1, 29)], dt.date(2024, 1, 1), "ymd"),
    ],
)
def test_dates_are_read_as_people_write_them(cells, first, order):
    found, meaning = understood([*cells, None])
    assert (found[0], found[-1], meaning.type, meaning.order) == (first, None, "date", order)
    assert meaning.sure


@pytest.mark.parametrize("pattern", ["_NAMED", "_CLOCK_WITH_POINTS"])
def test_a_text_of_megabytes_is_no_date_after_its_first_letters(pattern):
    """One cell of a request would keep all other requests waiting."""
    _, most = re._parser.parse(getattr(moments, pattern).pattern).getwidth()
    assert most < 200


def test_ambiguous_dates_are_named_and_follow_other_columns():
    found, meaning = understood(["09/08/2024", "03/04/2024"])
    assert (found[0], meaning.sure) == (dt.date(2024, 8, 9), False)
    assert "ambiguous: '09/08/2024' is read day first" in meaning.why
    columns = [pl.Series("a", ["09/08/2024"] * 2), pl.Series("b", ["12/31/2024", "1/2/2024"])]
    table, meanings = understand(columns, {}, MISSING)
    assert table["a"][0] == dt.date(2024, 9, 8)
    assert "month first, as in other columns" in meanings["a"].why


def test_a_bad_date_is_named_with_its_row():
    with pytest.raises(
        CellError, match=r"row 3, column 'a': '31.02.2024' is not a date, but 2 of 3 values are"
    ):
        understood(["14.01.2024", "15.01.2024", "31.02.2024"])


FORMATS = {
    "%Y-%m-%d": "ymd", "%d.%m.%Y": "dmy", "%m/%d/%Y": "mdy", "%d/%m/%Y %H:%M": "dmy", "%Y-%m-%dT%H:%M:%S+00:00": "ymd",
    "%d.%m.%y": "dmy", "%m/%d/%Y %I:%M %p": "mdy", "%d %b %Y": "ymd", "%Y/%m/%d %H:%M:%S": "ymd",
}  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2068, 12, 31)), min_size=1, max_size=8),
    st.sampled_from(list(FORMATS)),
)
def test_dates_of_all_formats_are_read_back(moments, form):
    # A 31st leaves no doubt which number is the month.
    moments = [dt.datetime(2024, 1, 31, 13, 30), *moments, *moments[:1]]
    cells = [moment.strftime(form) for moment in moments]
    found, meaning = understood([*cells, ""])
    expected = [dt.datetime.strptime(cell, form).replace(tzinfo=None) for cell in cells]
    read = [dt.datetime.combine(d, dt.time()) if type(d) is dt.date else d for d in found[:-1]]
    assert (read, meaning.order) == (expected, FORMATS[form])


def test_times_and_durations():
    assert understood(["7:30", "23:59:59"])[0] == [dt.time(7, 30), dt.time(23, 59, 59)]
    found, meaning = understood(["26:30:00", "1:30:00"])
    assert (found, meaning.type) == ([95_400.0, 5_400.0], "duration")
    assert understood(["1h 30min", "45 min", "PT2H"])[0] == [5_400.0, 2_700.0, 7_200.0]


# Words, parts, ids, free text


@pytest.mark.parametrize(
    "words", [("Ja", "nein"), ("yes", "NO"), ("oui", "non"), ("tak", "nie"), ("да", "нет"), ("t", "f")]
)
def test_yes_and_no_in_several_languages(words):
    assert understood([*words, None])[0] == [True, False, None]


def test_structured_text_is_reduced_to_what_rows_share():
    found, meaning = understood(["DE89 3704 0044 0532 0130 00", "FR7630006000011234567890189"])
    assert (found, meaning.part) == (["DE", "FR"], "country")
    found, meaning = understood(["Ann@Example.org", "bob@x.de"])
    assert (found, meaning.part) == (["example.org", "x.de"], "domain")
    assert understood(["https://www.a.org/x", "http://b.org"])[0] == ["a.org", "b.org"]


def test_ids_are_distinguished_from_quantities_and_free_text():
    n = 400
    rng = np.random.default_rng(0)
    kinds = {
        "TX": ([f"TX-{i:05}" for i in range(n)], "id"),
        "uuid": ([f"{i:08x}-0000-4000-8000-000000000000" for i in range(n)], "id"),
        "row": ([str(i) for i in range(n)], "id"),
        "account": ([str(x) for x in rng.integers(10**9, 10**10, n)], "id"),
        "customer_id": ([str(x) for x in rng.permutation(90_000)[:n] + 500], "id"),
        "cents": ([str(x) for x in rng.permutation(90_000)[:n]], "number"),  # all different, but a quantity
        "case": ([str(x) for x in rng.permutation(5_000)[:n]], "id"),  # quantities so close would repeat
        "odd rows": ([str(i) for i in range(1, 2 * n, 2)], "id"),
        "amount": ([str(x) for x in [*range(n - 2), 900, 950]], "number"),  # ids have no such gaps
        "price": ([f"{x:.2f}" for x in rng.lognormal(3, 1, n)], "number"),
        "branch": ([f"{x:04}" for x in rng.integers(1, 60, n)], "category"),
        "city": ([["New York", "Rio", "Bad Homburg"][x] for x in rng.integers(0, 3, n)], "category"),
        "note": ([f"rent of flat {i} " + "please pay " * (i % 3) for i in range(n)], "free text"),
    }
    table, meanings = understand([pl.Series(name, cells) for name, (cells, _) in kinds.items()], {}, MISSING)
    assert {name: meaning.type for name, meaning in meanings.items()} == {
        name: kind for name, (_, kind) in kinds.items()
    }
    prepared = TablePreparer(meanings=meanings).fit(table)
    unused = {column.name for column in prepared.columns_ if column.kind == "dropped"}
    assert unused == {"TX", "uuid", "row", "account", "customer_id", "case", "odd rows", "note"}


def test_a_nearly_empty_column_tells_whether_it_is_filled():
    found, meaning = understood([""] * 498 + ["14.01.2024", "x"])
    assert (sum(found), meaning.type) == (2, "filled")
    assert "2 of 500 rows" in meaning.why
    column = TablePreparer(meanings={"a": meaning}).fit(pl.DataFrame({"a": found}))
    new = pl.DataFrame({"a": pl.Series([None, "anything"], dtype=pl.String)})
    assert column.transform(new).ravel().tolist() == [0, 1]


def test_quoted_digits_stay_text():
    columns = [pl.Series("zip", ["10115", "20095"]), pl.Series("paid", ["12,50 €", "3 €"])]
    table, _ = understand(columns, {}, None)
    assert table.rows() == [("10115", 12.5), ("20095", 3.0)]


# Overruling


def test_people_overrule_what_values_suggest(tmp_path):
    assert (
        understood(["3.582", "12.100"], given=dict([parse_column("a=number,decimal=comma")]))[0][0] == 3582.0
    )
    assert (
        understood(["3.582", "12.100"], given=dict([parse_column("a=number,thousands=point")]))[0][0]
        == 3582.0
    )
    assert understood(["09/08/2024"], given=dict([parse_column("a=date,month-first")]))[0] == [
        dt.date(2024, 9, 8)
    ]
    assert understood(["1", "2"], given=dict([parse_column("a=category")]))[0] == ["1", "2"]
    file = tmp_path / "columns.toml"
    file.write_text('["due on"]\nkind = "date"\norder = "month-first"\nsince = "a=b"\n[x]\nkind = "drop"\n')
    assert read_columns(file) == {
        "due on": {"kind": "date", "since": "a=b", "order": "mdy"},
        "x": {"kind": "drop"},
    }
    assert parse_column("a=b=number,unit=€") == ("a=b", {"kind": "number", "unit": "€"})


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("amount", "expected NAME=kind"),
        ("amount=money", "unknown kind 'money'; choose from flag, number, date"),
        ("amount=number,decimal=dot", "decimal is one of comma, point, not 'dot'"),
        ("day=date,decimal=comma", "date has no option 'decimal'; choose from since=…, year-first"),
        ("amount=number,decimal=comma,thousands=comma", "cannot be the same"),
    ],
)
def test_a_wrong_column_option_is_explained(text, match):
    with pytest.raises(ValueError, match=match):
        parse_column(text)


MONTHS = {
    "English": "January February March April May June July August September October November December",
    "German": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "Austrian": "Jänner Februar März April Mai Juni Juli August September Oktober November Dezember",
    "French": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "Italian": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "Spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "Portuguese": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "Dutch": "januari februari maart april mei juni juli augustus september oktober november december",
    "Swedish": "januari februari mars april maj juni juli augusti september oktober november december",
}


@pytest.mark.parametrize("language", MONTHS)
def test_months_have_names_in_several_languages(language):
    names = MONTHS[language].split()
    days = [dt.date(2024, month, 17) for month in range(1, 13)]
    values, meaning = understood([f"17 {name} 2024" for name in names])
    assert (values, meaning.type) == (days, "date")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[amount]\nunit = '€'\n", r"columns.toml: \[amount\] needs a kind, such as kind = \"number\""),
        ("amount = 3\n", r"columns.toml: \[amount\] needs a kind"),
        ("[amount\n", "columns.toml is not a TOML file"),
        ("[amount]\nkind = 'money'\n", r"columns.toml, \[amount\].*unknown kind 'money'"),
    ],
)
def test_a_wrong_file_of_columns_is_explained(text, match, tmp_path):
    (tmp_path / "columns.toml").write_text(text)
    with pytest.raises(ValueError, match=match):
        read_columns(tmp_path / "columns.toml")


def test_a_type_that_typed_values_cannot_have_is_refused():
    columns = {
        "n": pl.Series("n", [1, 2]),
        "flag": pl.Series("flag", [True, None]),
        "day": pl.Series("day", [dt.date(2024, 1, 31)]),
        "card": pl.Series("card", ["a@b.org"], dtype=pl.Categorical),
    }
    for name, kind, words in (
        ("n", "date", "has the type Int64, so it cannot be read as date"),
        ("n", "category", "cannot be read as category"),
        ("flag", "number", "has the type Boolean, so it cannot be read as number"),
        ("day", "duration", "cannot be read as duration"),
        ("card", "domain", "cannot be read as domain"),
    ):
        with pytest.raises(ValueError, match=f"column '{name}' .*{words}"):
            understand([columns[name]], {name: {"kind": kind}}, None, typed=True)
    for name, kind in (
        ("n", "number"),
        ("n", "duration"),
        ("day", "date"),
        ("card", "text"),
        ("n", "filled"),
    ):
        understand([columns[name]], {name: {"kind": kind}}, None, typed=True)
    table, _ = understand([columns["n"]], {}, None, aside=["n"], typed=True)  # an id stays as it is
    assert table["n"].to_list() == [1, 2]


# Stored in the model


def test_score_reads_a_messy_file_as_fit_did(tmp_path):
    path = tmp_path / "t.csv"
    lines = ["l;amount;day;due;new;mail;share"]
    rng = np.random.default_rng(0)
    for i in range(300):
        amount = f"{rng.lognormal(6, 2):,.2f}".translate(str.maketrans(",.", ".,"))
        due = f"{rng.integers(1, 29):02}.{rng.integers(1, 13):02}.2024"
        new = "ja" if i % 3 else "nein"
        cells = (
            int(i < 9),
            f"{amount} €",
            f"14.01.2024 {i % 24:02}:30",
            due,
            new,
            f"a{i}@x{i % 4}.de",
            f"{i % 101} %",
        )
        lines.append(";".join(map(str, cells)))
    path.write_text("\n".join(lines), encoding="utf-8")
    own = from_table(path, "l")
    model = fit_table(own, LogisticBaseline(), estimate=False)
    model.save(tmp_path / "m.dplan")
    again = type(model).load(tmp_path / "m.dplan")
    assert again.preparation.columns_ == model.preparation.columns_
    expected = model.prepare(own.features)
    for rows in (1, 7, 300):
        found = [again.prepare(chunk()) for chunk in Input(path).chunks(rows)]
        np.testing.assert_array_equal(np.concatenate(found), expected)
    bad = pl.DataFrame({name: ["1"] for name in model.columns})
    with pytest.raises(CellError, match="'1' is not a date, day first, but the column was a date column"):
        again.prepare(bad.with_columns(new=pl.lit("ja")))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "money"},
        {"decimal": ";"},
        {"order": "dym"},
        {"sure": 1},
        {"why": None},
        {"more": 1},
        {"part": "x"},
    ],
)
def test_a_damaged_meaning_is_rejected(change):
    state = TablePreparer(meanings={"a": Number()}).fit(pl.DataFrame({"a": [1.0, 2.0]})).to_state()
    assert TablePreparer.from_state(state)
    state["columns"][0]["meaning"] |= change
    with pytest.raises(ValueError, match=r"not (the meaning of )?a column"):
        TablePreparer.from_state(state)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(number_columns(), min_size=1, max_size=3), st.sampled_from(list(FORMATS)), st.integers(1, 5))
def test_whatever_fit_accepts_score_accepts(tmp_path_factory, columns, form, rows):
    n = min(len(cells) for _, cells in columns)
    path = tmp_path_factory.mktemp("t") / "t.csv"
    days = [dt.datetime(2024, 1, 31, 5) + dt.timedelta(days=40 * i, hours=i) for i in range(n)]
    lines = ["l|day|" + "|".join(f"c{j}" for j in range(len(columns)))]
    for i in range(n):
        lines.append(
            "|".join([str(int(i == 0)), days[i].strftime(form), *(cells[i] for _, cells in columns)])
        )
    path.write_text("\n".join(lines), encoding="utf-8")
    own = from_table(path, "l")
    model = fit_table(own, LogisticBaseline(), estimate=False)
    found = [model.prepare(chunk()) for chunk in Input(path).chunks(rows)]
    np.testing.assert_array_equal(np.concatenate(found), model.prepare(own.features))


def test_times_with_points():
    found, meaning = understood(["18.00.00", "7.30.15", "19.00.00"])
    assert (found[1], meaning.type) == (dt.time(7, 30, 15), "time")
    found, meaning = understood(["18.05.2024", "07.30.15"], problems=[])
    assert meaning.type != "time"


def test_ordinals_are_not_numbers_with_units():
    values, meaning = understood(["1st class", "2nd class", "3rd class"] * 4)
    assert values[0] == "1st class"
    assert meaning.sure
    assert not understood(["1 kg", "2 lb", "3 kg"] * 4)[1].sure


def test_a_column_with_few_rows_of_numbers_is_text_even_if_most_different_values_are_numbers():
    texts = ["yes"] * 60 + ["no"] * 20 + [str(i) for i in range(20)]
    values, meaning = understood(texts)
    assert values == texts
    assert not meaning.sure
    assert meaning.why == "text such as 'yes'; only 20 of 100 values are numbers"
    with pytest.raises(ValueError, match="'yes' is not a number, but 80 of 81 values are"):
        understood([str(i) for i in range(80)] + ["yes"])


def test_a_column_of_numbers_and_many_other_texts_is_text():
    tickets = [str(i) for i in range(80)] + [f"PC {i}" for i in range(20)]
    values, meaning = understood(tickets)
    assert values == tickets
    assert not meaning.sure
    assert meaning.why == "text such as 'PC 0'; only 80 of 100 values are numbers"
    with pytest.raises(ValueError, match="'soon' is not a number, but 80 of 100 values are"):
        understood([str(i) for i in range(80)] + ["soon", "none"] * 10)


def test_a_few_values_of_which_some_are_numbers_are_levels():
    ages = ["2 years", "3 years", "more than 7", "new", "7 years"]
    found, meaning = understood(ages * 100)
    assert (meaning.type, meaning.sure, found[2]) == ("category", False, "more than 7")
    assert "only 300 of 500 values are numbers" in meaning.why
    for cells in (
        ages,
        [*ages[:2] * 200, "-"],
        ["1", "2", "3", "-"] * 100,
    ):  # too few rows, one accident, one word
        with pytest.raises(CellError, match="is not a number"):
            understood(cells)


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (["1h", "2h 5min", "3h"], "'1h' and '2h 5min' are durations, read in seconds"),
        (["yes", "no", "Yes"], "'yes' and 'no' mean yes or no"),
    ],
)
def test_two_examples_are_enough_of_a_reason(cells, why):
    assert understood(cells)[1].why == why


def test_a_date_that_is_given_is_read_in_the_only_possible_order():
    values, meaning = understood(["12/31/2020", "01/02/2021"], given={"a": {"kind": "date"}})
    assert values == [dt.date(2020, 12, 31), dt.date(2021, 1, 2)]
    assert (meaning.order, meaning.why, meaning.sure) == ("mdy", "as specified", True)


@pytest.mark.parametrize("options", [{"calendar": "x"}, {"since": True}, {"dmy": "x"}, {"day": True}])
def test_an_option_of_dates_has_values_of_its_own(options):
    with pytest.raises(ValueError, match="date has no option"):
        Date.settings("date", options)


def test_numbers_kept_as_text_by_a_word_for_missing_are_read_even_if_their_points_are_doubtful():
    frame = pl.DataFrame({"amount": ["1.234", "n/a", "2.345"], "items": [7, 9, 8]})
    table, meanings = understand_frame(frame, {}, MISSING)
    assert table["amount"].dtype == pl.Float64
    assert table["amount"].to_list()[1] is None
    assert meanings["amount"].type == "number"


@pytest.mark.parametrize(
    ("cells", "stored"),
    [
        (["1.5", "2.5"], True),
        (["1,5", "2,5"], True),  # as a number
        (["1 €", "2 €"], False),
        (["1h", "2h 5min"], False),
        (["yes", "no"], True),  # as a boolean
        (["DE89 3704 0044 0532 0130 00", "FR7630006000011234567890189"], False),
        (["red", "blue"], True),
    ],
)
def test_databases_have_only_some_values_as_they_are_read(cells, stored):
    assert understood(cells)[1].is_as_stored is stored


@pytest.mark.parametrize("odd", ["1O", "12a", "5 kg"])
def test_a_few_letters_after_plain_numbers_are_named(odd):
    cells = [*map(str, range(40)), odd]
    with pytest.raises(
        CellError, match=f"row 41, column 'a': '{odd}' is not a number, but 40 of 41 values are"
    ):
        understood(cells)
    frame = pl.DataFrame({"a": cells, "b": range(41)})  # a table with types: text may be meant
    table, meanings = understand_frame(frame, {}, MISSING)
    assert (table["a"].to_list(), meanings["a"].sure) == (cells, False)
    assert meanings["a"].why == f"text: '{odd}' is not a plain number, but most values are"


def test_numbers_of_houses_are_text_and_numbers_of_invoices_are_ids():
    houses = [*map(str, range(17)), "1a", "2a", "3a"]
    assert understood(houses)[0] == houses
    invoices = [*(str(7 * i % 1_000 + 20_000) for i in range(500)), "20017B"]
    assert understood(invoices)[1].type == "id"


def test_asking_for_a_type_that_the_values_have_already_changes_nothing():
    frame = pl.DataFrame({"a": [1.5, 2.5], "b": [True, False]})
    given = {"a": {"kind": "number"}, "b": {"kind": "flag"}}
    _, meanings = understand_frame(frame, given, MISSING)
    assert meanings == {}
    _, meanings = understand_frame(frame, {"a": {"kind": "filled"}}, MISSING)
    assert meanings["a"].type == "filled"
