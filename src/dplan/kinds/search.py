"""The search for a rule that describes a kind: a beam over conditions on at most three columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan.arrays import highest_first
from dplan.kinds.conditions import Bounds, Candidate, Listed
from dplan.kinds.measures import objective
from dplan.rules.rule import MOST_CONDITIONS, Condition, Rule

__all__ = ["Found", "Rows", "rule_of", "search"]

_WIDTH = 8
_MUST_GAIN = 1.03  # by which another condition must raise the objective


@dataclass(frozen=True)
class Rows:
    """The rows that a rule is made from, and how many rows of the table each of them stands for.

    Attributes
    ----------
    kind, ordinary, others : ndarray of bool
        Which of them are alerts of the kind, rows that are not alerts, and alerts of other kinds.
    alert_weight, ordinary_weight : float
        The rows of the table for each alert here, and for each other row.
    """

    kind: NDArray[np.bool_]
    ordinary: NDArray[np.bool_]
    others: NDArray[np.bool_]
    alert_weight: float = 1.0
    ordinary_weight: float = 1.0

    def objective(self, masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return how well rules describe the kind, given which rows each matches."""
        # Counts are exact in any order of adding, so that the result does not depend on the processor.
        parts = np.stack([self.kind, self.ordinary, self.others], axis=1).astype(np.float32)
        kind, ordinary, others = (masks.astype(np.float32) @ parts).astype(np.float64).T
        found: NDArray[np.float64] = objective(
            kind * self.alert_weight,
            ordinary * self.ordinary_weight,
            others * self.alert_weight,
            max(1, int(self.kind.sum())) * self.alert_weight,
        )
        return found

    def part(self, which: NDArray[np.bool_]) -> Rows:
        """Return some of the rows; coverage still refers to all of the kind."""
        return Rows(
            self.kind[which],
            self.ordinary[which],
            self.others[which],
            self.alert_weight,
            self.ordinary_weight,
        )


class Found(NamedTuple):
    """The conditions of a rule, and how well it describes its kind."""

    conditions: tuple[Candidate, ...]
    objective: float


class _State(NamedTuple):
    chosen: tuple[int, ...]
    met: NDArray[np.bool_]
    objective: float


def search(candidates: Sequence[Candidate], rows: Rows) -> Found | None:
    """Return the best rule; None if no condition is better than none.

    Parameters
    ----------
    candidates : sequence of Candidate
        Conditions to choose from. Two bounds of one column are one condition of a rule.
    rows : Rows
        The rows to describe, which the candidates refer to.
    """
    if not candidates or not rows.kind.any():
        return None
    masks = np.stack([candidate.mask() for candidate in candidates])
    numbers = {name: i for i, name in enumerate(dict.fromkeys(found.column for found in candidates))}
    column = np.array([numbers[candidate.column] for candidate in candidates])
    # A column may have a lower and an upper bound, or one condition of another form.
    side = np.array([1 + found.upper if isinstance(found, Bounds) else 3 for found in candidates])
    everything = np.ones(masks.shape[1], dtype=np.bool_)
    best = _State((), everything, float(rows.objective(everything[None])[0]))
    beam, n_kind = [best], int(rows.kind.sum())
    while beam:
        reached: dict[tuple[int, ...], _State] = {}
        for state in beam:
            allowed = _allowed(state.chosen, column, side)
            # Rows that the rule does not match any more are not looked at again.
            found = np.zeros(len(candidates))
            own = _objective(rows, masks[allowed][:, state.met], state.met, n_kind)
            found[allowed] = own
            better = np.flatnonzero(found > state.objective * _MUST_GAIN)
            for number in better[highest_first(found[better])[:_WIDTH]].tolist():
                chosen = tuple(sorted((*state.chosen, number)))
                if chosen not in reached:
                    reached[chosen] = _State(chosen, state.met & masks[number], float(found[number]))
        beam = sorted(reached.values(), key=lambda state: (-state.objective, state.chosen))[:_WIDTH]
        if beam and beam[0].objective > best.objective:
            best = beam[0]
    return Found(tuple(candidates[number] for number in best.chosen), best.objective) if best.chosen else None


def _objective(
    rows: Rows, masks: NDArray[np.bool_], met: NDArray[np.bool_], n_kind: int
) -> NDArray[np.float64]:
    some = rows.part(met)
    own = int(some.kind.sum())
    return some.objective(masks) * (own / n_kind) if own else np.zeros(len(masks))


def _allowed(
    chosen: tuple[int, ...], column: NDArray[np.int64], side: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which conditions can be added: on a new column if there is room, or the other bound of a column."""
    used = [int(column[number]) for number in chosen]
    allowed = np.full(len(column), len(set(used)) < MOST_CONDITIONS)
    for own in set(used):
        there = {int(side[number]) for number in chosen if column[number] == own}
        same = column == own
        allowed[same] = False
        if there in ({1}, {2}):
            allowed |= same & (side == 3 - min(there))
    return allowed


def rule_of(found: Sequence[Candidate]) -> Rule:
    """Return conditions as a rule; two bounds of a column become an interval."""
    conditions: dict[str, Condition] = {}
    for candidate in found:
        if isinstance(candidate, Listed):
            conditions[candidate.column] = candidate.condition
            continue
        other = conditions.get(candidate.column)
        low, high = (None, None) if other is None else (other.at_least, other.at_most)
        value = candidate.of.value(candidate.bound)
        low, high = (low, value) if candidate.upper else (value, high)
        conditions[candidate.column] = Condition(candidate.column, candidate.of.type, low, high)
    return Rule(tuple(conditions.values()))
