"""What is said and drawn about each type: typical values, conditions that a row meets, distributions."""

import dataclasses
import datetime as dt

import numpy as np
import polars as pl
import pytest

from dplan.columns import TYPES
from dplan.columns.cycles import CYCLES
from dplan.columns.dates import Date
from dplan.columns.flags import Filled, Flag
from dplan.columns.frequencies import Frequency
from dplan.columns.preparer import TablePreparer
from dplan.columns.texts import Category

N = 200
MORNING = dt.datetime(2024, 1, 1, 9)  # a Monday
TABLE = pl.DataFrame(
    {
        "paid": [MORNING + dt.timedelta(days=i, minutes=7 * i % 60) for i in range(N)],
        "ordered": [dt.date(2023, 12, 22) + dt.timedelta(days=i - i % 4) for i in range(N)],
        "amount": [float(i % 50) for i in range(N)],
        "card": ["a", "a", "a", "b"] * 50,
        "new": [False, False, True, False] * 50,
        "note": [None, "x", None, None] * 50,
        "shop": [f"s{min(int(i**0.6), 20)}" for i in range(N)],
    }
)


@pytest.fixture(scope="module")
def parts():
    """Return a function from the name of a column to the column and the features of all rows."""
    preparer = TablePreparer(meanings={"shop": Frequency(), "note": Filled()}).fit(TABLE)
    features, groups = preparer.transform(TABLE), preparer.feature_groups()

    def found(name):
        j = TABLE.columns.index(name)
        return preparer.columns_[j], features[:, groups == j]

    return found


TYPICAL = {
    "paid": "09:02–09:56",
    "ordered": "Mon, Tue, Wed, Thu, Fri, Sat; -13–-10 days since paid",
    "amount": "2–47",
    "card": "'a' (75 %), 'b' (25 %)",
    "new": "false (75 %)",
    "note": "false (75 %)",
    "shop": "values of at least 2 % of rows",
}


@pytest.mark.parametrize(("name", "text"), TYPICAL.items())
def test_typical_values_in_words(name, text, parts):
    column, features = parts(name)
    assert column.typical(features).text == text


# Of the first row: operator, value, how many of all rows and of the first ten meet it.
CONDITIONS = {
    "paid": [
        ("between", "07:30 and 10:30", 200, 10),
        ("on", "Mon", 29, 2),
        ("on", "day 1 of the month", 7, 1),
    ],
    "ordered": [
        ("on", "Fri", 32, 4),
        ("on", "day 22 of the month", 8, 4),
        ("at most", "10 days before paid", 4, 1),
        ("at least", "10 days before paid", 200, 10),
    ],
    "amount": [("≥", "0", 200, 10), ("≤", "0", 4, 1), ("between", "0 and 4", 20, 5)],
    "card": [("=", "'a'", 150, 8)],
    "new": [("=", "false", 150, 8)],
    "shop": [("=", "'s0'", 1, 1)],
}


@pytest.mark.parametrize(("name", "expected"), CONDITIONS.items())
def test_conditions_that_a_row_meets(name, expected, parts):
    column, features = parts(name)
    met = column.conditions(TABLE[name][0], features[0], features, features[:10])
    assert [(c[0], c[1], int(c[2].sum()), int(c[3].sum())) for c in met] == expected


HISTOGRAMS = {
    "paid": (
        "0–3 h 3–6 h 6–9 h 9–12 h 12–15 h 15–18 h 18–21 h 21–24 h",
        [0, 0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 0],
    ),
    "ordered": (
        "Mon Tue Wed Thu Fri Sat Sun",
        [0.14, 0.14, 0.14, 0.14, 0.16, 0.14, 0.14],
        [0, 0.4, 0, 0, 0.4, 0.2, 0],
    ),
    "card": ("a b", [0.75, 0.25], [0.8, 0.2]),
    "new": ("false true", [0.75, 0.25], [0.8, 0.2]),
    "note": ("false true", [0.75, 0.25], [0.7, 0.3]),
    "shop": (
        "s3 s1 s2 s20 s0 s18 s19 14 other levels and new ones",
        [0.02, 0.015, 0.015, 0.26, 0.005, 0.06, 0.06, 0.565],
        [0.3, 0.3, 0.3, 0, 0.1, 0, 0, 0],
    ),
}


@pytest.mark.parametrize(("name", "expected"), HISTOGRAMS.items())
def test_distributions_of_all_rows_and_of_the_first_ten(name, expected, parts):
    column, features = parts(name)
    labels, _, shares = column.histogram([features, features[:10]])
    assert " ".join(labels) == expected[0]
    np.testing.assert_allclose(shares, expected[1:], atol=1e-9)


def bars(*given):
    return {"bars": [list(bar) for bar in given]}


PICTURES = {
    "card": bars(("a", 0.75, True), ("b", 0.25, False)),
    "new": bars(("false", 0.75, True), ("true", 0.25, False)),
    "shop": bars(
        ("s20", 0.26, False), ("s18", 0.06, False), ("s19", 0.06, False), ("s16", 0.055, False), ("s0", 0.005, True)
    ),
    "amount": {"bins": [1, *[0.667] * 22, 1], "at": 0, "typical": [0.0408, 0.9592], "ends": ["0", "49"]},
    "ordered": {"bins": [0.875] * 4 + [1] + [0.875] * 2, "at": 0.6429, "typical": None, "ends": ["Mon", "Sun"]},
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), PICTURES.items())
def test_pictures_of_the_first_row(name, expected, parts):
    column, features = parts(name)
    assert column.picture(features, features[0], missing=False) == expected


WORDS = {
    "paid": ("09:00, Mon, day 1", "date: hour, weekday, day"),
    "ordered": ("Fri, day 22", "date: weekday, day, since"),
    "amount": ("0", "number, 0 to 49"),
    "card": ("a", "2 levels: a, b"),
    "new": ("false", "flag, 0 to 1"),
    "shop": (
        "s0",
        "21 levels by frequency, 21 of them with a feature of their own: 's20', 's18', 's19', 's16', 's17', "
        "'s13', 's14', 's15', …",
    ),
}


@pytest.mark.parametrize(("name", "expected"), WORDS.items())
def test_columns_and_prepared_values_in_words(name, expected, parts):
    column, features = parts(name)
    assert (column.restored(features[0]), column.summary()) == expected
    assert not column.is_new(features[0])


def test_what_a_request_may_have_in_each_column(parts):
    text = ["string", "null"]
    assert [parts(name)[0].schema()["type"] for name in ("paid", "ordered", "card", "shop")] == [text] * 4
    assert parts("amount")[0].schema()["type"] == ["number", "null"]
    assert parts("new")[0].schema()["type"] == ["boolean", "null"]
    assert parts("note")[0].schema()["type"] == ["string", "number", "boolean", "null"]  # false is a value
    assert parts("card")[0].schema()["examples"] == ["a", "b"]
    assert parts("shop")[0].schema()["examples"] == ["s20", "s18", "s19"]


def repeated(*counts):
    return np.repeat(np.arange(len(counts)), counts)


@pytest.mark.parametrize(
    ("cycle", "places", "text"),
    [
        ("hour", [1430, 10, 5] * 10, "23:50–00:10"),  # a night shift is one range
        ("hour", range(1440), "01:11–22:47"),
        ("weekday", repeated(10, 10, 10, 10, 10), "Mon, Tue, Wed, Thu, Fri"),
        ("weekday", repeated(17, 1, 1, 1), "Mon"),  # 85 % are enough
        ("weekday", repeated(16, 0, 0, 0, 0, 4), "Mon, Sat"),
        ("weekday", repeated(1, 2, 2, 2, 2, 2, 2), "Tue, Wed, Thu, Fri, Sat, Sun"),
        ("weekday", [], "any weekday"),
        ("day", repeated(80, *[0] * 13, 10, *[0] * 15, 10), "1., 15."),
        ("day", repeated(10, 10, 10, 10, 10, 10, 10, 10), "1., 2., 3., 4., 5., 6., 7."),
        ("day", repeated(10, 10, 10, 10, 10, 10, 10, 10, 10), "any day"),
        ("day", [], "any day"),
    ],
)
def test_typical_places_in_a_cycle(cycle, places, text):
    assert CYCLES[cycle].typical(np.array(places, dtype=np.int64)) == text


@pytest.mark.parametrize(
    ("cycle", "place", "near", "away", "words"),
    [
        ("hour", 30, [30, 120, 0, 1380], [121, 1379, 720], ("between", "23:00 and 02:00")),
        ("hour", 720, [630, 810], [629, 811, 0], ("between", "10:30 and 13:30")),
        ("weekday", 6, [6], [5, 0], ("on", "Sun")),
        ("day", 30, [30], [29, 0], ("on", "day 31 of the month")),
    ],
)
def test_near_places_in_a_cycle(cycle, place, near, away, words):
    own = CYCLES[cycle]
    assert own.is_near(np.array(near), place).all()
    assert not own.is_near(np.array(away), place).any()
    assert own.condition(place) == words


@pytest.mark.parametrize(("cycle", "n"), [("hour", 1440), ("weekday", 7), ("day", 31)])
def test_the_last_place_of_a_cycle_is_next_to_the_first(cycle, n):
    circle = CYCLES[cycle].circle.astype(np.float64)
    steps = np.linalg.norm(np.roll(circle, -1, axis=0) - circle, axis=1)
    assert len(steps) == n
    np.testing.assert_allclose(steps, steps[0], rtol=1e-3)


def test_a_flag_says_how_often_it_is_so():
    def typical(share):
        found = Flag(name="paid", maximum=1.0, fill=(share,)).typical(np.empty((0, 1)))
        return found.text, found.low, found.high

    assert typical(0.1) == ("false (90 %)", 0.0, 0.0)
    assert typical(0.4) == ("false (60 %)", 0.0, 1.0)  # one in three is not rare
    assert typical(0.5) == ("true (50 %)", 0.0, 1.0)
    assert typical(0.9) == ("true (90 %)", 1.0, 1.0)
    paid = Flag(name="paid", maximum=1.0, fill=(0.25,))
    assert [paid.restored(np.array([value])) for value in (0.0, 1.0, 0.25)] == ["false", "true", "missing"]
    assert paid.spread(pl.Series([True, False, None, False, False])) == "25 % yes"
    missing = paid.picture(np.empty((0, 1)), np.array([0.25]), missing=True)
    assert missing == bars(("false", 0.75, False), ("true", 0.25, False))
    odd = np.array([[-1.0], [0.0], [0.25], [2.0]])  # a table with types may have other numbers later
    assert paid.histogram([odd]).shares[0].tolist() == [0.75, 0.25]


def test_rare_and_new_levels_by_frequency():
    shares = (0.5, 0.3, 0.15, 0.05)
    column = Frequency(name="shop", fill=(0.9, 0.5, 0.3), levels=("a", "b", "c", "d"), shares=shares)
    rows = column.values(pl.Series("shop", ["a", "a", "a", "b", "c", "d", "new", None]))
    features = np.empty((8, 3), dtype=np.float32)
    assert column.write({"shop": rows}, features)[:2] == (1, 1)
    assert features[:, 1:].tolist()[:7] == [[1, 0]] * 3 + [[0, 1]] + [[0, 0]] * 3
    assert features[7].tolist() == pytest.approx([0.9, 0.5, 0.3])
    first = features[:, 0]
    assert first[0] == 1
    assert 1 > first[3] > first[4] > first[5] > first[6] == 0
    words = [column.restored(own) for own in features]
    assert words == ["a"] * 3 + [
        "b",
        "a value of 15 % of rows",
        "a value of 5 % of rows",
        "missing or rare",
        words[7],
    ]
    known, background = features[4:5], features[:7]
    (met,) = column.conditions("c", features[4], background, known)
    assert (met[0], met[1]) == ("", "a value of at most 15 % of rows")
    assert (met[2].tolist(), met[3].tolist()) == ([False] * 4 + [True] * 3, [True])
    assert column.conditions("new", features[6], background, known) == []
    assert [column.is_new(own) for own in features[:7]] == [False] * 6 + [True]
    picture = bars(("a", 0.5, False), ("b", 0.3, False), ("a value of 15 % of rows", 0.15, True))
    assert column.picture(background, features[4], missing=False) == picture
    assert column.picture(background, features[4], missing=True) == bars(("a", 0.5, False), ("b", 0.3, False))
    assert column.picture(background, features[6], missing=False) == bars(
        ("a", 0.5, False), ("b", 0.3, False)
    )
    assert column.limit() == (4, 0.0)
    assert column.output_names() == ["shop", "shop=a", "shop=b"]
    assert column.counts(features[:7], []) == [[3, 1, 3]]


def test_rows_with_other_levels_have_a_bar_of_their_own(parts):
    column, features = parts("card")
    unseen = np.zeros((10, 2), dtype=np.float32)
    labels, _, shares = column.histogram([features, unseen])
    assert labels == ["a", "b", "levels not seen in training"]
    np.testing.assert_allclose(shares, [[0.75, 0.25, 0], [0, 0, 1]])
    assert column.conditions("z", unseen[0], features, features) == []
    assert column.counts(np.concatenate([features[:4], unseen]), []) == [[3, 1, 10]]
    assert column.spread(TABLE["card"]) == "'a', 'b'"
    assert column.spread(pl.Series([*"aaabbbccdde"])).startswith("'a', 'b', ")
    assert column.spread(pl.Series([*"aaabbbccdde"])).endswith(" and 2 more")
    assert column.distance(np.array([0.25, -0.25, 0.0])) == 0.25


@pytest.mark.parametrize("type_", TYPES)
def test_a_column_is_made_by_name_and_never_changed(type_):
    with pytest.raises(TypeError, match="positional argument"):
        type_("amount")
    with pytest.raises(dataclasses.FrozenInstanceError):
        type_(name="amount").name = "size"


@pytest.mark.parametrize(
    ("order", "points", "votes"),
    [
        ("dmy", True, {"order": "dmy", "probable decimal": ","}),  # where 31.1. is a date, 1,5 is a number
        ("dmy", False, {"order": "dmy"}),
        ("mdy", True, {"order": "mdy"}),
        ("ymd", True, {}),
        ("ymd", False, {}),
    ],
)
def test_dates_say_what_is_usual_in_their_table(order, points, votes):
    assert Date(order=order, points=points).votes() == votes


def test_what_is_stored_of_a_column_has_a_place_for_everything():
    """Review queues have a digest of it, so it stays as it is."""
    reading = {
        "kind": "category", "decimal": ".", "thousands": ",", "unit": "", "order": "ymd", "part": "", "calendar": False,
        "since": "", "why": "", "sure": True,
    }  # fmt: skip
    assert Category(name="state", fill=(0.5, 0.5), levels=("CON", "FIN")).to_json() == {
        "name": "state", "kind": "text", "minimum": 0.0, "maximum": 0.0, "fill": (0.5, 0.5), "levels": ("CON", "FIN"),
        "reason": "", "parts": (), "since": "", "since_range": (0.0, 0.0), "meaning": reading,
    }  # fmt: skip


def test_levels_half_as_frequent_as_a_named_one_are_typical_too():
    def typical(*shares):
        found = Category(name="a", fill=shares, levels=tuple("abcd"[: len(shares)])).typical(np.empty((0, 4)))
        return found.text, sorted(found.levels)

    assert typical(0.6, 0.26, 0.13, 0.01) == ("'a' (60 %), 'b' (26 %)", [0, 1, 2])
    assert typical(0.6, 0.26, 0.12, 0.02) == ("'a' (60 %), 'b' (26 %)", [0, 1])
