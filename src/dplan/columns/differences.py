"""What was unusual about transformed rows: missing values, unseen levels, values outside the training range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["TransformReport"]

_NOTED_SHARE = 0.01  # of the rows: less is expected, as anomalies are rare


@dataclass(frozen=True)
class TransformReport:
    """Missing values and unseen levels found by a transform. Reports of several tables can be added.

    Attributes
    ----------
    rows : int
        Transformed rows.
    missing : dict
        Column → number of missing values, which are replaced by the mean of the training rows.
    unseen : dict
        Column → number of values with a level unseen in training, which are encoded as zeros.
    retyped : dict
        Column that was text in the training rows → its kind now.
    outside : dict
        Column → number of values that are further outside the range of the training rows than that range is wide.

    Examples
    --------
    >>> report = TransformReport(2, {"a": 2}, {"b": 1}) + TransformReport(1, {"a": 1}, {})
    >>> report.useless()
    {'a': 'all values are missing'}
    """

    rows: int
    missing: dict[str, int]
    unseen: dict[str, int]
    retyped: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: TransformReport) -> TransformReport:
        missing, unseen, outside = (
            {name: one.get(name, 0) + two.get(name, 0) for name in {**one, **two}}
            for one, two in (
                (self.missing, other.missing),
                (self.unseen, other.unseen),
                (self.outside, other.outside),
            )
        )
        retyped = {**self.retyped, **other.retyped}
        return TransformReport(self.rows + other.rows, missing, unseen, retyped, outside)

    def useless(self) -> dict[str, str]:
        """Return the columns without information about these rows, with the reasons."""
        found = {}
        for name in {**self.missing, **self.unseen, **self.retyped}:
            n_missing, n_unseen = self.missing.get(name, 0), self.unseen.get(name, 0)
            if name in self.retyped:
                found[name] = f"was text in training, is a {self.retyped[name]} column now"
            elif n_missing == self.rows:
                found[name] = "all values are missing"
            elif n_missing + n_unseen == self.rows:
                found[name] = "no value occurred in training"
        return found

    def differences(self) -> dict[str, str]:
        """Return the columns that differ clearly from the training rows, with the reasons.

        Examples
        --------
        >>> TransformReport(200, {}, {"b": 50}, outside={"a": 4}).differences()
        {'b': '25 % of values did not occur in training', 'a': '2 % of values far outside the training range'}
        """
        found = self.useless()
        for counts, what in (
            (self.unseen, "of values did not occur in training"),
            (self.outside, "of values far outside the training range"),
        ):
            for name, n in counts.items():
                if name not in found and n >= _NOTED_SHARE * self.rows:
                    found[name] = f"{100 * n / self.rows:.0f} % {what}"
        return found
