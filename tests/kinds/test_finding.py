"""Kinds of alerts: their groups, names and rules, and what is said of them."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest

import dplan
from dplan.kinds import finding
from dplan.kinds.conditions import candidates
from dplan.kinds.grouping import groups
from dplan.kinds.measures import objective, wilson
from dplan.kinds.page import kinds_page
from dplan.kinds.rounding import readable, shortest
from dplan.kinds.search import Rows, rule_of, search
from dplan.kinds.table import half_of
from dplan.rules.file import RuleFile, with_types
from tests.kinds.alarms import alarms, alarms_model


@pytest.fixture(scope="module")
def found():
    return dplan.kinds(alarms_model(), alarms(), budget=90, n_kinds=3)


def test_each_kind_is_one_kind_of_fraud(found):
    truth = alarms()["truth"].to_numpy()
    classes = [set(truth[group.alerts.rows]) for group in found.groups]
    assert sorted(map(sorted, classes)) == [["abroad"], ["many"], ["night"]]


def test_kinds_have_names_rules_and_bounds(found):
    assert {kind.name for kind in found.rules.kinds} == {"like abroad", "like many", "like night"}
    for kind in found.rules.kinds:
        assert kind.rule is not None
        assert len(kind.rule.conditions) <= 3
        measured = kind.about["measured"]
        assert measured["alerts"] == measured["matched"] > 0
        assert 0 < measured["precision_at_least"] < 1
        assert kind.about["sentence"].startswith(f"{kind.about['alerts']} alerts {kind.name}: `")


def test_rules_select_what_was_measured(found):
    """Precision is what counting the rows of the other half by hand gives."""
    table = alarms()
    values = with_types(table, found.rules.columns)
    half = found.table.measuring
    for kind in found.rules.kinds:
        met = values.select(kind.rule.expression()).to_series().to_numpy()
        measured = kind.about["measured"]
        assert measured["rows"] == half.sum()
        assert measured["matched"] == (met & half).sum()
        assert measured["alerts"] == (met & half & found.table.alert).sum()


def test_the_same_table_gives_the_same_kinds_in_any_order(found):
    again = dplan.kinds(alarms_model(), alarms(), budget=90, n_kinds=3)
    assert again.rules == found.rules == alarms_model().kinds(alarms(), budget=90, n_kinds=3).rules
    order = np.random.default_rng(0).permutation(3000)
    shuffled = dplan.kinds(alarms_model(), alarms()[order], budget=90, n_kinds=3)
    assert {kind.rule for kind in shuffled.rules.kinds} == {kind.rule for kind in found.rules.kinds}


def test_copies_of_a_row_are_in_one_half():
    rows = np.random.default_rng(0).random((500, 4)).astype(np.float32)
    half = half_of(np.concatenate([rows, rows]))
    assert (half[:500] == half[500:]).all()
    assert 200 < half[:500].sum() < 300


def test_too_few_alerts_are_said_to_be_too_few():
    with pytest.raises(
        ValueError, match=r"29 of 3,000 rows are alerts, and kinds need at least 30; set a budget"
    ):
        dplan.kinds(alarms_model(), alarms(), budget=29)


def test_no_rule_is_about_names_that_differ_in_case_alone():
    """DuckDB and SQLite would take the other column, without a word."""
    table = alarms().with_columns(verdict=pl.col("truth").replace("normal", "")).rename({"items": "HOUR"})
    anomaly = ["abroad", "night", "many"]
    own = dplan.tables.from_table(table.drop("truth"), label="verdict", anomaly=anomaly, id="payment")
    model = dplan.tables.fit_table(own, dplan.LogisticBaseline(), estimate=False)
    found = dplan.kinds(model, table, budget=90, n_kinds=3)
    assert found.rules.columns
    assert not {"hour", "HOUR"} & {*found.rules.columns}


def test_alerts_without_a_pattern_have_no_rule():
    rng = np.random.default_rng(0)
    values = pl.DataFrame({"a": rng.random(400), "b": rng.random(400)})
    kind = rng.random(400) < 0.1
    assert finding.rule_for(values, {"a": "float", "b": "float"}, Rows(kind, ~kind, kind & False)) is None


def test_rules_see_only_the_half_that_makes_them(found, monkeypatch):
    """If the values of the other half are spoilt after scoring, the rules stay as they are."""
    seen = []
    make = finding.rule_for

    def watched(values, types, rows):
        seen.append(values)
        return make(values, types, rows)

    monkeypatch.setattr(finding, "rule_for", watched)
    dplan.kinds(alarms_model(), alarms(), budget=90, n_kinds=3)
    table = alarms()
    measuring = set(
        map(tuple, table.filter(pl.Series(found.table.measuring)).select("amount", "items", "day").rows())
    )
    for values in seen:
        assert (
            values.height
            == 90
            - found.table.alert[found.table.measuring].sum()
            + (~found.table.measuring & ~found.table.alert).sum()
        )
        assert not measuring & set(values.select("amount", "items", "day").rows())


def test_a_sample_stands_for_many_alerts(monkeypatch):
    """Memory is bounded: no more rows are explained, kept with their values or searched than the limits say."""
    monkeypatch.setattr(finding, "MOST_ALERTS", 60)
    monkeypatch.setattr(finding, "_ORDINARY", 200)
    taken, explained = [], []
    take, explain = finding.ScoredTable.take, type(alarms_model()).explain

    def counted(self, which):
        taken.append(len(which))
        return take(self, which)

    def count_explained(self, table, prepared=None, scores=None, **rest):
        explained.append(len(prepared))
        return explain(self, table, prepared, scores, **rest)

    monkeypatch.setattr(finding.ScoredTable, "take", counted)
    monkeypatch.setattr(type(alarms_model()), "explain", count_explained)
    found = dplan.kinds(alarms_model(), alarms(12_000), budget=360, n_kinds=3)
    assert taken == [60, 200]
    assert max(explained) <= 200
    assert sum(kind.about["alerts"] for kind in found.rules.kinds) == 360
    assert found.rules.kinds[0].about["sentence"].startswith("about ")
    measured = found.rules.kinds[0].about["measured"]
    assert measured["rows"] == found.table.measuring.sum() > 5_000  # precision is counted on all rows


def test_json_is_what_rules_read_and_sql_needs(tmp_path, found):
    dplan.kinds(alarms_model(), alarms(), tmp_path / "k.json", budget=90, n_kinds=3)
    assert RuleFile.load(tmp_path / "k.json") == RuleFile.from_json(
        json.loads(json.dumps(found.rules.to_json()))
    )
    dplan.kinds(
        alarms_model(), alarms(), tmp_path / "k.sql", budget=90, n_kinds=3, dialect="sqlite", sql_table="pay"
    )
    assert (tmp_path / "k.sql").read_text("utf-8").count('FROM "pay" AS t') == 3
    with pytest.raises(ValueError, match=r"name the output \.html, \.json or \.sql"):
        dplan.kinds(alarms_model(), alarms(), tmp_path / "k.csv")


def test_bounds_agree_with_another_implementation():
    for hits, n in ((0, 5), (3, 7), (80, 80), (1, 1000)):
        other = binomtest(hits, n).proportion_ci(0.9, "wilson")
        assert wilson(hits, n) == pytest.approx(other.low, abs=1e-9)
        assert wilson(hits, n, upper=True) == pytest.approx(other.high, abs=1e-9)


def test_groups_are_few_and_the_largest_comes_first():
    rng = np.random.default_rng(0)
    for n in (30, 44, 45, 200):
        labels = groups(rng.random((n, 5)))
        sizes = np.bincount(labels)
        assert 3 <= len(sizes) <= max(3, min(8, n // 15))
        assert (np.diff(sizes) <= 0).all()
    assert len(np.bincount(groups(rng.random((100, 5)), 2))) == 2


def test_an_interval_on_one_column_is_one_condition():
    rng = np.random.default_rng(0)
    values = pl.DataFrame({"x": rng.random(2000), **{f"n{i}": rng.random(2000) for i in range(4)}})
    kind = ((values["x"] > 0.4) & (values["x"] < 0.45)).to_numpy()
    rows = Rows(kind, ~kind, kind & False)
    choices = [c for name in values.columns for c in candidates(values[name], "float", kind, ~kind)]
    exact = search(choices, rows)
    rule = rule_of(readable(exact, rows).conditions)
    assert [condition.column for condition in rule.conditions] == ["x"]
    assert (rule.conditions[0].at_least, rule.conditions[0].at_most) == (0.4, 0.45)


def test_numbers_are_shortened_only_where_rows_hardly_notice():
    numbers = np.array([*np.linspace(0, 0.1233, 500), *np.linspace(0.1237, 1, 500)])
    values = pl.DataFrame({"x": numbers})
    kind = numbers >= 0.1235
    rows = Rows(kind, ~kind, kind & False)
    found = search(list(candidates(values["x"], "float", kind, ~kind)), rows)
    shorter = readable(found, rows)
    assert shorter.objective >= 0.99 * found.objective
    assert len(str(shorter.conditions[0].bound)) < len(str(found.conditions[0].bound))


@pytest.mark.parametrize("seed", range(20))
def test_the_shortest_number_is_within_the_gap(seed):
    rng = np.random.default_rng(seed)
    inside, outside = rng.normal(size=2) * 10.0 ** rng.integers(-9, 9)
    bound = shortest(float(inside), float(outside))
    assert min(inside, outside) <= bound <= max(inside, outside)
    assert bound != outside
    assert len(repr(bound)) <= len(repr(float(inside)))


def test_dates_missing_values_and_flags_can_be_conditions():
    rng = np.random.default_rng(0)
    n = 1000
    kind = np.arange(n) < 100
    days = pl.Series("day", np.where(kind, rng.integers(19_800, 19_830, n), rng.integers(19_000, 19_700, n)))
    flag = pl.Series("flag", np.where(kind, True, rng.random(n) < 0.02))
    gap = pl.Series("gap", np.where(kind, np.nan, rng.random(n)), nan_to_null=True)
    moment = (days * 86_400_000_000 + 1).cast(pl.Datetime("us")).alias("moment")
    rows = Rows(kind, ~kind, kind & False)
    for series, type_, words in (
        (days.cast(pl.Date), "date", "at least 2024"),
        (flag, "flag", "= true"),
        (gap, "float", "is missing"),
        (moment, "timestamp", "at least 2024"),
    ):
        rule = finding.rule_for(series.to_frame(), {series.name: type_}, rows)
        assert rule is not None
        assert str(rule).startswith(f"`{series.name}` {words}")
        met = series.to_frame().select(rule.expression()).to_series().to_numpy()
        assert met[kind].all()


def test_other_alerts_count_a_quarter():
    assert objective(10, 0, 4, 10) == pytest.approx(wilson(10, 11))


def test_a_kind_without_the_name_of_a_class_says_how_many_of_its_alerts_resemble_one(found, monkeypatch):
    """With known anomalies that are few or alike, a kind may miss the name of its class."""
    n_alerts = found.n_alerts
    near = np.arange(n_alerts) // 3 % 3 == 0  # a third of each kind
    monkeypatch.setattr(finding, "likeness", lambda model, effects: {"heat": near})
    kinds = dplan.kinds(alarms_model(), alarms(), budget=n_alerts, n_kinds=3)
    assert {kind.about["class"] for kind in kinds.rules.kinds} == {None}
    assert sum(group.resembling["heat"] for group in kinds.groups) == near.sum()
    for group in kinds.groups:
        said = f" {group.resembling['heat']} of these alerts resemble known heat."
        assert group.kind.about["sentence"].endswith(said)
        assert said in kinds_page(kinds, model_name="m", table_name="t")


def test_a_weak_rule_is_marked_where_kinds_are_listed(found):
    weak = {"rows": 9, "matched": 9, "alerts": 3, "kind": 11, "kind_matched": 2, "level": 0.95}
    bounds = {
        "precision_at_least": 0.14,
        "precision_at_most": 0.6,
        "coverage_at_least": 0.1,
        "coverage_at_most": 1,
    }
    group = found.groups[0]
    about = {**group.kind.about, "measured": {**weak, **bounds}}
    other = replace(found, groups=[replace(group, kind=replace(group.kind, about=about)), *found.groups[1:]])
    other = replace(other, rules=replace(found.rules, kinds=tuple(group.kind for group in other.groups)))
    page = kinds_page(other, model_name="m", table_name="t")
    assert page.count("too weak to rely on") == 2  # in the table, and where the rule is described
    assert "too weak" not in kinds_page(found, model_name="m", table_name="t")
