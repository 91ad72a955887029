"""Reasons: planted columns are named, no reason contradicts itself, values are written as in the table."""

import re

import numpy as np
import polars as pl
import pytest

from dplan import DPLANEnsemble, LogisticBaseline, TableDetector
from dplan.columns.numbers import Number
from dplan.tables import TableModel, fit_table, from_table
from dplan.tables.evidence import Evidence, _Row

RANGE = re.compile(r"`(.+?)` = (-?[\d.]+); typical (-?[\d.]+)(?:–(-?[\d.]+))?$")
LEVELS = re.compile(r"`(.+?)` = ('.*?'); typical (.*)$")


def planted(kind, n=2000, seed=0):
    """A table with anomalies in a few of its columns, of which a third is known."""
    rng = np.random.default_rng(seed)
    bad = rng.random(n) < 0.04
    n_bad = int(bad.sum())
    columns = {f"x{i}": rng.normal(50, 10, n).round(2) for i in range(6)}
    columns |= {f"level{i}": rng.choice(list("abcd"), n, p=[0.4, 0.3, 0.2, 0.1]) for i in range(2)}
    columns |= {f"logged_in{i}": rng.integers(0, 2, n) for i in range(2)}
    match kind:
        case "outside":
            columns["x1"][bad] += 60
        case "new level":
            columns["level0"][bad] = "z"
        case "outside and rare":
            columns["x1"][bad] += 50
            columns["level1"][bad] = "d"
        case "inside":
            columns["x2"][bad] = rng.normal(50, 0.3, n_bad).round(2)
            columns["logged_in0"][bad] = 0
            columns["level1"][bad] = "d"
    known = bad & (np.cumsum(bad) % 3 == 0)
    table = pl.DataFrame(
        {"id": [f"TX-{i}" for i in range(n)], **columns, "verdict": np.where(known, "fraud", "")}
    )
    return table, bad & ~known


@pytest.fixture(scope="module")
def planted_model():
    def fit(kind):
        table, anomalies = planted(kind)
        detector = DPLANEnsemble(n_agents=4, n_steps=2000, warmup_steps=1000, n_rounds=20, random_state=0)
        own = from_table(table, label="verdict", anomaly=["fraud"], id="id")
        return fit_table(own, detector, estimate=False), table, anomalies

    return fit


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("outside", ["x1"]),
        ("new level", ["level0"]),
        ("outside and rare", ["x1", "level1"]),
        ("inside", ["x2", "logged_in0", "level1"]),
    ],
)
def test_planted_columns_are_named_and_no_reason_contradicts_itself(planted_model, kind, columns):
    model, table, anomalies = planted_model(kind)
    said = model.reasons(table.filter(pl.Series(anomalies)))
    named = [all(f"`{name}`" in text for name in columns) for text in said]
    assert np.mean(named) >= 0.95, said[named.index(False)]
    highest = table[np.argsort(-model.score(table))[:200]]
    reasons = [reason for text in [*said, *model.reasons(highest)] for reason in text.split(" | ") if reason]
    assert len(reasons) > 200
    assert not [reason for reason in reasons if contradicts(reason)]
    if kind == "inside":
        assert "`logged_in0` = 0: 100 % of known fraud, " in " | ".join(said)


def contradicts(reason):
    """Whether a reason gives a typical range or list that includes the value."""
    if found := RANGE.search(reason):
        value, low, high = (float(text) for text in (found[2], found[3], found[4] or found[3]))
        return low <= value <= high
    found = LEVELS.search(reason)
    return bool(found) and f"{found[2]} (" in found[3]


def test_the_check_for_contradictions_can_fail():
    assert contradicts("`logged_in` = 0; typical 0–1")
    assert contradicts("`level` = 'a'; typical 'a' (90 %)")
    assert not contradicts("`logged_in` = 2; typical 0–1")


def made_row(features, values):
    return _Row(features, values, {})


def evidence(background, known, *columns, class_names=("fraud",), classes=None, names=None):
    """Evidence over columns of which each is one feature."""
    background, known = (
        np.array(rows, dtype=np.float32).reshape(-1, len(columns)) for rows in (background, known)
    )
    classes = np.ones(len(known), dtype=np.int64) if classes is None else np.array(classes)
    names = [f"TX-{i}" for i in range(len(known))] if names is None else names
    return Evidence(columns, np.arange(len(columns)), background, known, classes, class_names, names)


A, B = (Number(name=name, maximum=100.0, fill=(0.5,)) for name in "ab")


def test_a_value_that_known_anomalies_have_more_often():
    rest = [[0], [1]] * 50
    for known, said in (([[0]] * 24 + [[1]], "96 % of"), ([[0]] * 4, "4 of 4")):
        reason = evidence(rest, known, A)._reason(0, made_row(np.float32([0]), {0: 0})).text()
        assert reason == f"`a` = 0: {said} known fraud, 50 % of the rest"
    by_chance = evidence(rest, [[0]] * 3 + [[1]], A)._reason(0, made_row(np.float32([0]), {0: 0}))
    assert by_chance is None
    many = np.linspace(0, 1, 1001)[:, None]
    high = evidence(many, np.linspace(0.8, 0.94, 50)[:, None], A)
    assert high._reason(0, made_row(np.float32([0.8]), {0: 80})).text() == (
        "`a` = 80; ≥ 80: 100 % of known fraud, 20 % of the rest"
    )
    middle = evidence(many, np.full((50, 1), 0.5), A)
    assert middle._reason(0, made_row(np.float32([0.5]), {0: 50})).text() == (
        "`a` = 50; between 45 and 55: 100 % of known fraud, 10 % of the rest"
    )


def test_of_several_classes_the_one_that_has_the_value_is_named():
    rest = [[0], [1]] * 50
    known = [[0]] * 30 + [[1]] * 30
    found = evidence(rest, known, A, class_names=["dos", "probe"], classes=[1] * 30 + [2] * 30)
    assert (
        found._reason(0, made_row(np.float32([0]), {0: 0})).text()
        == "`a` = 0: 100 % of known dos, 50 % of the rest"
    )
    for name in ("1", "anomaly"):
        one = evidence(rest, [[0]] * 30, A, class_names=[name])
        assert one._reason(0, made_row(np.float32([0]), {0: 0})).text() == (
            "`a` = 0: 100 % of known anomalies, 50 % of the rest"
        )
    found = evidence(rest, known, A, class_names=["anomaly", "probe"], classes=[1] * 30 + [2] * 30)
    assert found._reason(0, made_row(np.float32([0]), {0: 0})).text() == (
        "`a` = 0: 100 % of known anomalies without a class, 50 % of the rest"
    )


def test_two_columns_that_count_together():
    rest = [[0, 1], [1, 0]] * 100
    together = evidence(rest, [[0, 0], [1, 1]] * 15, A, B)
    row = made_row(np.float32([1, 1]), {0: 100, 1: 100})
    assert together._reason(0, row).text() == "`a` = 100 and `b` = 100: 50 % of known fraud, 0 % of the rest"
    nothing_known = evidence(rest, [], A, B)
    row = made_row(np.float32([1, 1]), {0: 100, 1: 100})
    assert nothing_known._reason(0, row).text() == "`a` = 100 and `b` = 100: 0 % of unlabelled rows"


def test_the_most_similar_known_anomaly_and_its_absence():
    rng = np.random.default_rng(0)
    rest = rng.random((500, 2))
    known = np.column_stack([np.linspace(0.1, 0.9, 30), np.linspace(0.9, 0.1, 30)]).astype(np.float32)
    row = made_row(known[20] * np.float32([1, 1.02]), {0: 65.2, 1: 35.5})
    found = evidence(rest, known, A, B)
    assert found._similar(0, row).text() == "`a` = 65.2; like TX-20: same `a`, `b` within 5 %"
    assert found._similar(0, made_row(known[20], {0: 65.2, 1: 34.8})) is None  # the row itself
    unnamed = evidence(rest, known, A, B, names=[])  # as in files of older versions
    assert unnamed._similar(0, row) is None
    alone = evidence(rest, [], A, B)._reason(0, row).text()
    assert re.fullmatch(r"`a` = 65.2; (between \S+ and|≥|≤) \S+: \d+ % of unlabelled rows", alone)


def test_a_reason_has_its_parts_as_fields():
    rest = [[0, 1], [1, 0]] * 100
    row = made_row(np.float32([1, 1]), {0: 100, 1: 100})
    found = evidence(rest, [[0, 0], [1, 1]] * 15, A, B)._reason(0, row)
    assert (found.column, found.value, found.why, found.other) == ("a", "100", "combination", "b")
    assert (found.condition, found.other_condition, found.typical) == ("= 100", "= 100", "0–100")
    assert (found.known, found.n_known, found.known_share, found.rest_share) == ("known fraud", 30, 0.5, 0.0)
    assert found.note() == "and `b` = 100: 50 % of known fraud, 0 % of the rest"


def test_effects_and_shares_of_reasons_are_those_of_the_explanation(model, table):
    fraud = table.filter(pl.col("country") == "XX")[:20]
    effects = model.explain(fraud).effects
    for own, reasons in zip(effects, model.why(fraud), strict=True):
        assert reasons
        for reason in reasons:
            effect = own[model.columns.index(reason.column)]
            assert (reason.effect, reason.share) == (effect, effect / own[own > 0].sum())


def test_missing_and_new_values_are_called_so(model, table):
    fraud = table.filter(pl.col("country") == "XX", pl.col("amount").is_not_null())[:20]
    new = " | ".join(model.reasons(fraud.with_columns(country=pl.lit("QQ"))))
    assert "`country` = 'QQ', not seen in training; typical " in new
    missing = model.evidence._reason(0, made_row(np.zeros(9, dtype=np.float32), {0: None}))
    assert missing.why == "missing"
    assert "is missing; typical" in missing.text()


def test_values_are_written_as_in_the_table():
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"amount": np.append(rng.integers(10_000, 20_000, 300), [912_345, 923_456])})
    detector = TableDetector(LogisticBaseline()).fit(table, np.repeat([0, 1], [300, 2]))
    for found in (912_345, 912_345.0, 912_345.25):
        (said,) = detector.reasons(pl.DataFrame({"amount": [found]}))
        assert re.fullmatch(rf"`amount` = {found:.12g}; typical 1\d{{4}}–1\d{{4}}", said)
    (said,) = detector.reasons(pl.DataFrame({"amount": ["912345.50"]}))
    assert said.startswith("`amount` = 912345.50; typical")
    (said,) = detector.reasons(pl.DataFrame({"amount": pl.Series([912_345.1], dtype=pl.Float32)}))
    assert said.startswith("`amount` = 912345.1; typical")


def test_known_anomalies_keep_their_names(table, tmp_path):
    own = from_table(table, label="verdict", anomaly=["fraud"], id="payment")
    model = fit_table(own, LogisticBaseline(), estimate=False)
    expected = table.filter(pl.col("verdict") == "fraud")["payment"].to_list()
    assert model.summary.known_names == tuple(expected)
    model.save(tmp_path / "m.dplan")
    assert TableModel.load(tmp_path / "m.dplan").evidence.names == tuple(expected)
    without = fit_table(
        from_table(table.drop("payment"), label="verdict", anomaly=["fraud"]), LogisticBaseline()
    )
    assert without.summary.known_names[:2] == ("training row 1", "training row 101")


def test_reasons_about_dates_name_the_hour_and_the_time_since_another_date():
    rng = np.random.default_rng(0)
    n = 2000
    bad = np.arange(n) % 25 == 0
    booked = np.datetime64("2024-01-01") + rng.integers(0, 365 * 24 * 60, n).astype("timedelta64[m]")
    booked = booked.astype("datetime64[D]") + np.where(
        bad, rng.integers(120, 200, n), rng.integers(500, 1200, n)
    ).astype("timedelta64[m]")
    since = booked - np.where(bad, 10, rng.integers(300, 3000, n)).astype("timedelta64[D]")
    table = pl.DataFrame(
        {
            "booked": booked.astype("datetime64[us]"),
            "customer": since.astype("datetime64[us]").astype("datetime64[D]"),
        }
    )
    labels = np.where(bad & (np.arange(n) % 50 == 0), "fraud", "")
    own = from_table(table.with_columns(verdict=pl.Series(labels)), label="verdict", anomaly=["fraud"])
    model = fit_table(
        own,
        DPLANEnsemble(n_agents=2, n_steps=1000, warmup_steps=500, n_rounds=10, random_state=0),
        estimate=False,
    )
    said = model.reasons(table.filter(pl.Series(bad & (labels == ""))))
    hours = [
        re.search(r"`booked` = 2024-\S+ 0(\d):\d\d:00; between 0(\d):\d\d and 0(\d):\d\d: ", text)
        for text in said
    ]
    assert np.mean([found is not None and found[2] <= found[1] <= found[3] for found in hours]) >= 0.95
    assert np.mean(["`customer`" in text for text in said]) >= 0.95
    assert re.search(
        r"; at most 10 days before booked: \d\d % of known fraud, <?1 % of the rest", " | ".join(said)
    )
