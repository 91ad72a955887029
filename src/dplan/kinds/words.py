"""What is said about a kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dplan.columns.formatting import format_share
from dplan.rules.rule import Rule
from dplan.text import visible

__all__ = ["NOTHING", "evidence", "is_weak", "like", "resemblance", "sentence", "without_rule"]

NOTHING = "like nothing labelled"
_WEAK = 0.3  # bound of the precision
_WORTH_SAYING = 0.2  # of the alerts resemble a class
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
    resembling: Mapping[str, int] | None = None,
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
    resembling : mapping, optional
        How many of its alerts resemble the known anomalies of each class.
    about : bool
        Whether the number of alerts is an estimate.

    Examples
    --------
    >>> sentence("like fraud", 9, None, None, ["price", "day"])
    '9 alerts like fraud: set apart by `price` and `day`; no rule with up to three conditions describes them well.'
    """
    alerts = f"{'about ' * about}{n_alerts:,} {'alerts' if n_alerts != 1 else 'alert'}"
    said = (
        f"{without_rule(columns)}." if rule is None or measured is None else f"{rule}. {evidence(measured)}"
    )
    return f"{alerts} {name}: {said}{resemblance(name, n_alerts, resembling or {}, about=about)}"


def resemblance(name: str, n_alerts: int, resembling: Mapping[str, int], *, about: bool = False) -> str:
    """Return how many alerts resemble a known class, if their kind has not its name and they are many.

    Examples
    --------
    >>> resemblance("like nothing labelled", 32, {"heat": 15, "power": 2})
    ' 15 of these alerts resemble known heat.'
    >>> resemblance("like heat", 32, {"heat": 30}), resemblance("like nothing labelled", 32, {"heat": 6})
    ('', '')
    """
    most = max(resembling, key=lambda known: resembling[known], default="")
    if not name.startswith(NOTHING) or resembling.get(most, 0) < max(1, _WORTH_SAYING * n_alerts):
        return ""
    return f" {'About ' * about}{resembling[most]:,} of these alerts resemble known {like(most)[5:]}."


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
    weak = " This rule is too weak to rely on." if is_weak(measured) else ""
    return (
        f"{alerts:,} of {matched:,} {rows} (at least {bound}), "
        f"{int(measured['kind_matched']):,} of {kind:,} alerts of the kind match.{weak}"
    )


def is_weak(measured: Mapping[str, float]) -> bool:
    """Return whether a rule was right too seldom, on the rows that measured it, to rely on it."""
    return measured["precision_at_least"] < _WEAK
