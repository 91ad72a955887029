"""What is said about a kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dplan.columns.formatting import format_share
from dplan.rules.rule import Rule
from dplan.text import visible

__all__ = ["NOTHING", "evidence", "like", "sentence", "without_rule"]

NOTHING = "like nothing labelled"
_WEAK = 0.3  # bound of the precision
_NO_RULE = "no rule with up to three conditions describes them well"


def like(name: str) -> str:
    """Return the name of a kind that is like a known class.

    Examples
    --------
    >>> like("fraud"), like("1")
    ('like fraud', 'like class 1')
    """
    return f"like {'class ' * name.isdigit()}{name}"


def sentence(
    name: str,
    n_alerts: int,
    rule: Rule | None,
    measured: Mapping[str, float] | None,
    columns: Sequence[str] = (),
    *,
    about: bool = False,
) -> str:
    """Return a kind in a few words: its name, its rule, and how often the rule was right.

    Parameters
    ----------
    name : str
        Its name.
    n_alerts : int
        The number of its alerts.
    rule, measured
        Its rule and what was measured, as in a file of rules; None if there is no good rule.
    columns : sequence of str
        The columns that raise the scores of these alerts more than those of other alerts.
    about : bool
        Whether the number of alerts is an estimate.

    Examples
    --------
    >>> sentence("like fraud", 9, None, None, ["price", "day"])
    '9 alerts like fraud: set apart by `price` and `day`; no rule with up to three conditions describes them well.'
    """
    alerts = f"{'about ' * about}{n_alerts:,} {'alerts' if n_alerts != 1 else 'alert'}"
    if rule is None or measured is None:
        return f"{alerts} {name}: {without_rule(columns)}."
    return f"{alerts} {name}: {rule}. {evidence(measured)}"


def without_rule(columns: Sequence[str]) -> str:
    """Return what is said of a kind that no rule describes: which columns set it apart, in the eyes of the detector.

    Examples
    --------
    >>> without_rule([])
    'no rule with up to three conditions describes them well'
    """
    why = " and ".join(f"`{visible(column, 60)}`" for column in columns)
    return f"set apart by {why}; {_NO_RULE}" if why else _NO_RULE


def evidence(measured: Mapping[str, float]) -> str:
    """Return in words how often a rule was right, and how many alerts of its kind it matches.

    Examples
    --------
    >>> found = {"matched": 80, "alerts": 80, "kind": 81, "kind_matched": 80, "precision_at_least": 0.967}
    >>> evidence(found)
    '80 of 80 matching rows were alerts (at least 97 %), 80 of 81 alerts of the kind match.'
    >>> evidence({"matched": 9, "alerts": 3, "kind": 11, "kind_matched": 2, "precision_at_least": 0.14})[-34:]
    ' This rule is too weak to rely on.'
    """
    matched, alerts, kind = (int(measured[name]) for name in ("matched", "alerts", "kind"))
    if matched == 0:
        return "None of the rows that were kept to measure it matches."
    rows = "matching rows were alerts" if alerts != 1 else "matching rows was an alert"
    bound = format_share(measured["precision_at_least"])
    weak = " This rule is too weak to rely on." if measured["precision_at_least"] < _WEAK else ""
    return (
        f"{alerts:,} of {matched:,} {rows} (at least {bound}), "
        f"{int(measured['kind_matched']):,} of {kind:,} alerts of the kind match.{weak}"
    )
