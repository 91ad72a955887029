"""The tables of the suite ``estimates``: those of ``after-review``."""

from experiments.after_review.points import points as points
