"""Kinds of alerts as a notebook shows them."""

import html
from dataclasses import replace

import numpy as np
import polars as pl

import dplan
from dplan.tables import fit_table, from_table
from tests.kinds.alarms import alarms, alarms_model
from tests.notebook.test_alerts import HOSTILE, check


def test_kinds_survive_a_notebook_that_is_not_trusted():
    found = dplan.kinds(alarms_model(), alarms(), budget=90, n_kinds=3)
    text = found._repr_html_()
    check(text, 10_000)
    for group in found.groups:
        measured = group.kind.about["measured"]
        assert f">{group.kind.name}<" in text
        assert f">{measured['alerts']} of {measured['matched']} rows<" in text
    assert "3 kinds of 90 alerts" in text
    assert repr(found) == str(found) == "\n".join(group.kind.about["sentence"] for group in found.groups)


def test_a_kind_without_a_rule_says_so_and_no_kinds_say_why():
    found = dplan.kinds(alarms_model(), alarms(), budget=90, n_kinds=3)
    first = found.groups[0]
    about = {**first.kind.about, "measured": None}
    bare = replace(found, groups=[replace(first, kind=replace(first.kind, rule=None, about=about))])
    assert "no rule with up to three conditions" in bare._repr_html_()
    check(bare._repr_html_(), 4_000)
    none = replace(found, groups=[])
    assert "there must be at least 30" in none._repr_html_()
    assert "there must be at least 30" in repr(none)


def test_names_and_values_are_escaped_and_bounded():
    rng = np.random.default_rng(0)
    n, odd = 900, np.arange(900) % 20 == 0
    table = pl.DataFrame(
        {
            HOSTILE: rng.random(n) + 9 * odd,
            f"{HOSTILE}text" * 9: np.where(odd, HOSTILE * 20, "usual"),
            "verdict": np.where(odd & (rng.random(n) < 0.5), HOSTILE, ""),
        }
    )
    own = from_table(table, label="verdict", anomaly=[HOSTILE])
    model = fit_table(own, dplan.LogisticBaseline(), estimate=False)
    found = model.kinds(table, budget=45, n_kinds=1)
    text = found._repr_html_()
    assert found.groups[0].kind.rule is not None
    check(text, 5_000)
    assert "<img" not in text
    assert "\u202e" not in text
    assert "<img" in html.unescape(text)
