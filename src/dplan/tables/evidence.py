"""Why a row is anomalous: for each column that raises its score, the value and what makes it count.

A value outside the typical range, or a rare level, speaks for itself. A value inside it does not, so the reason is the
first of these that applies:

1. it is more common among known anomalies than among unlabelled rows;
2. together with the value of another column, it is, or the combination is rare;
3. a similar known anomaly has it too;
4. how many unlabelled rows have it or, for a number, at least or at most as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s
from dplan.columns.column import Column
from dplan.columns.formatting import cell
from dplan.columns.records import SAME, Condition, Typical
from dplan.explain.explanation import Explanation
from dplan.tables.reasons import CLOSE, Like, Reason, Why
from dplan.tables.words import general_class

__all__ = ["Evidence"]

_WORTH_READING = 0.05  # of the difference between the row's score and the background's
_LIFT, _GAIN = 1.5, 0.05  # how much more common among known anomalies is worth saying
_RARE, _RARER = 0.02, 1 / 3  # a combination: how rare, and how much rarer than by chance
_MIN_EXPECTED = 5  # rows with a combination, if it were by chance
_UNCOMMON = 0.15  # share of unlabelled rows with a value that is worth saying
_OTHERS, _ALIKE = 5, 3  # columns tried in combinations, and named of a similar anomaly
_MIN_CLASS_ROWS = 5  # known anomalies of a class that is named


class _Row(NamedTuple):
    """A row: its prepared features, and the values of the columns that raise its score, the strongest first."""

    features: Float32s
    values: Mapping[int, Any]
    conditions: dict[int, list[Condition]]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a model knows about its training rows, to justify the score of a row.

    Attributes
    ----------
    columns : sequence of Column
        The prepared columns.
    starts : ndarray of int
        The first feature of each column.
    background, known : ndarray of float32
        Prepared unlabelled rows and known anomalies.
    classes : ndarray of int
        Classes of the known anomalies, counted from 1.
    class_names : sequence of str
        The names of the classes.
    names : sequence of str
        What the known anomalies are called, such as their ids; may be empty.
    """

    columns: Sequence[Column]
    starts: NDArray[np.int64]
    background: Float32s
    known: Float32s
    classes: NDArray[np.int64]
    class_names: Sequence[str]
    names: Sequence[str]

    def reasons(
        self, table: pl.DataFrame, prepared: Float32s, explanation: Explanation, k: int
    ) -> list[list[Reason]]:
        """Return the reasons for each row's score: up to k columns that raise it most, the strongest first."""
        reasons = []
        for i, order in enumerate(explanation.strongest(k + _OTHERS)):
            effects = explanation.effects[i]
            gains = effects[order]
            least = _WORTH_READING * (explanation.scores[i] - explanation.baseline)
            raising = order[gains > 0].tolist()
            strong = order[:k][(gains[:k] > 0) & (gains[:k] >= least)].tolist() if least > 0 else []
            row = _Row(prepared[i], {j: cell(table, self.columns[j].name, i) for j in raising}, {})
            found = {j: self._reason(j, row) for j in strong}
            # A common value that nothing is known about is worth a line only if there is no other reason.
            if not any(found.values()):
                found = {j: self._share(j, row) for j in strong[:1]}
            # Other columns may lower the score, so a share of the whole difference could exceed 1.
            total = float(effects[effects > 0].sum())
            reasons.append(
                [
                    replace(reason, effect=float(effects[j]), share=float(effects[j]) / total)
                    for j, reason in found.items()
                    if reason is not None
                ]
            )
        return reasons

    def _reason(self, j: int, row: _Row) -> Reason | None:
        if _is_missing(row.values[j]):
            return self._because("missing", j, row)
        own = self._conditions(j, row)
        if not own:
            return self._because("unseen", j, row)
        if not self.typical[j].includes(row.features[self._own(j)]):
            return self._because("unusual", j, row)
        return (
            self._common_among_known(j, row, own)
            or self._combination(j, row, own)
            or self._similar(j, row)
            or self._share(j, row, at_most=_UNCOMMON)
        )

    def _because(self, why: Why, j: int, row: _Row, condition: str = "", **fields: Any) -> Reason:
        column = self.columns[j]
        value = column.format(row.values[j])
        return Reason(column.name, value, why, self.typical[j].text, condition, **fields)

    def _common_among_known(self, j: int, row: _Row, own: list[Condition]) -> Reason | None:
        found = max(map(self._compared, own), key=lambda one: one.weight, default=None)
        if found is None or not _worth_saying(found.known_share, found.share, found.n_known):
            return None
        return self._because("known", j, row, found.condition.text, **found.fields)

    def _combination(self, j: int, row: _Row, own: list[Condition]) -> Reason | None:
        """Return the combination with another column that is most common among known anomalies, or rarest."""
        theirs = [
            (self.columns[other].name, condition)
            for other in row.values
            if other != j and not _is_missing(row.values[other])
            for condition in self._conditions(other, row)
        ]
        if not theirs:
            return None

        def reason(mine: int, its: int, **fields: Any) -> Reason:
            other, condition = theirs[its]
            fields |= {"other": other, "other_condition": condition.text}
            return self._because("combination", j, row, own[mine].text, **fields)

        # As numbers, so that a product of matrices counts the rows of all combinations.
        rest, rest_of_theirs, known, known_of_theirs = (
            np.array(masks, dtype=np.float32)
            for masks in (
                [one.rest for one in own],
                [one.rest for _, one in theirs],
                [one.known for one in own],
                [one.known for _, one in theirs],
            )
        )
        together = rest @ rest_of_theirs.T / rest.shape[1]
        best: tuple[float, Reason | None] = (0.0, None)
        for who, members in self._groups:
            n_known = int(members.sum())
            if n_known == 0:
                continue
            joint = known[:, members] @ known_of_theirs[:, members].T / n_known
            alone = _lift(known_of_theirs[:, members].mean(axis=1), rest_of_theirs.mean(axis=1))
            weights = np.where(
                _worth_saying(joint, together, n_known) & (_lift(joint, together) >= _LIFT * alone),
                joint * np.log(_lift(joint, together)),
                0.0,
            )
            mine, its = map(int, np.unravel_index(int(weights.argmax()), weights.shape))
            if weights[mine, its] > best[0]:
                found = _Compared(
                    own[mine], float(together[mine, its]), float(joint[mine, its]), n_known, who
                )
                best = float(weights[mine, its]), reason(mine, its, **found.fields)
        if best[1]:
            return best[1]
        by_chance = np.outer(rest.mean(axis=1), rest_of_theirs.mean(axis=1))
        rare = (together <= np.minimum(_RARE, _RARER * by_chance)) & (
            by_chance * rest.shape[1] >= _MIN_EXPECTED
        )
        mine, its = map(
            int, np.unravel_index(int(np.where(rare, by_chance - together, 0.0).argmax()), rare.shape)
        )
        return reason(mine, its, rest_share=float(together[mine, its])) if rare[mine, its] else None

    def _similar(self, j: int, row: _Row) -> Reason | None:
        """Return the known anomaly that has this value too, and most of the others that raise the score."""
        others = [other for other in row.values if other != j and not _is_missing(row.values[other])]
        if len(self.known) == 0 or len(self.names) != len(self.known):
            return None
        likeness = [self._alike(other, row) for other in (j, *others)]
        # A row of the training table is not a reason for itself.
        another = (np.abs(self.known - row.features) > SAME).any(axis=1)
        counts = np.where(likeness[0].close & another, sum(one.close for one in likeness), 0)
        best = int(counts.argmax())
        if counts[best] < min(2, len(likeness)):
            return None
        alike = [(one.name, bool(one.same[best])) for one in likeness if one.close[best]]
        return self._because("like", j, row, like=Like(self.names[best], tuple(alike[:_ALIKE])))

    def _share(self, j: int, row: _Row, at_most: float = 1.0) -> Reason | None:
        """Return how many unlabelled rows have the value, or nothing if there are too many."""
        rarest = min(self._conditions(j, row), key=lambda one: one.rest.mean())
        share = float(rarest.rest.mean())
        return None if share > at_most else self._because("common", j, row, rarest.text, rest_share=share)

    @cached_property
    def typical(self) -> list[Typical]:
        """The typical values of each column."""
        pairs = zip(self.columns, self.starts, strict=True)
        return [c.typical(self.background[:, start : start + c.width]) for c, start in pairs]

    @cached_property
    def _groups(self) -> list[tuple[str, NDArray[np.bool_]]]:
        """All known anomalies and, if there are several classes, those of each."""
        every = np.ones(len(self.known), dtype=bool)
        if len(self.class_names) == 1 and not self.class_names[0].isdigit():
            return [(_known(self.class_names[0]), every)]
        found = [("known anomalies", every)]
        if len(self.class_names) > 1:
            of_class = [(name, self.classes == k) for k, name in enumerate(self.class_names, start=1)]
            of_class = [(name, own) for name, own in of_class if own.sum() >= _MIN_CLASS_ROWS]
            found += [(_known(name, " without a class"), own) for name, own in of_class]
        return found

    def _compared(self, condition: Condition) -> _Compared:
        """Compare known anomalies with background rows; of several classes, take the one that differs most."""
        rest = float(condition.rest.mean())
        found = [
            _Compared(condition, rest, float(condition.known[own].mean()), int(own.sum()), name)
            for name, own in self._groups
            if own.any()
        ]
        return max(found, key=lambda one: one.weight, default=_Compared(condition, rest, 0.0, 0, ""))

    def _conditions(self, j: int, row: _Row) -> list[Condition]:
        if j not in row.conditions:
            own = self._own(j)
            row.conditions[j] = self.columns[j].conditions(
                row.values[j], row.features[own], self.background[:, own], self.known[:, own]
            )
        return row.conditions[j]

    def _alike(self, j: int, row: _Row) -> _Likeness:
        own = self._own(j)
        known, features = self.known[:, own], row.features[own]
        same: NDArray[np.bool_] = np.all(np.abs(known - features) <= SAME, axis=1)
        return _Likeness(self.columns[j].name, same, self.columns[j].is_close(features, known, within=CLOSE))

    def _own(self, j: int) -> slice:
        """Return the features of a column."""
        return slice(int(self.starts[j]), int(self.starts[j]) + self.columns[j].width)


class _Compared(NamedTuple):
    """How common a condition is among known anomalies, compared with the background rows."""

    condition: Condition
    share: float
    known_share: float
    n_known: int
    who: str

    @property
    def weight(self) -> float:
        """How convincing it is: the share of known anomalies, more of it the rarer the condition is otherwise."""
        return self.known_share * float(np.log(_lift(self.known_share, self.share)))

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a reason."""
        return {
            "known": self.who,
            "n_known": self.n_known,
            "known_share": self.known_share,
            "rest_share": self.share,
        }


class _Likeness(NamedTuple):
    """The known anomalies with the same value in a column, and with a close one."""

    name: str
    same: NDArray[np.bool_]
    close: NDArray[np.bool_]


def _known(name: str, no_class: str = "") -> str:
    """Return what the known anomalies of a class are called."""
    return f"known anomalies{no_class}" if name == general_class(()) else f"known {name}"


def _lift(known: Any, rest: Any) -> Any:
    """Return how many times more common something is among known anomalies."""
    return (known + 0.001) / (rest + 0.001)


def _worth_saying(known: Any, rest: Any, n_known: int) -> Any:
    """Return whether something is so much more common among known anomalies that it is unlikely to be chance."""
    by_chance = 2 * np.sqrt(rest * (1 - rest) / max(n_known, 1))  # two standard deviations
    return (known >= _LIFT * rest) & (known >= rest + np.maximum(_GAIN, by_chance))


def _is_missing(found: Any) -> bool:
    return found is None or (isinstance(found, float) and bool(np.isnan(found)))
