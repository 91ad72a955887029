"""What this package warns about and raises under a name of its own.

All other errors are Python's and scikit-learn's: ValueError for bad values, TypeError for wrong types,
NotFittedError.
"""


class NoLabelsWarning(UserWarning):
    """No row is labelled, or every row: a detector that learns from labels falls back to an unsupervised ranking."""


class ModelFileError(ValueError):
    """A file is no model file, is damaged, or was written by a newer version of this package."""


class NonFiniteScoreError(ValueError):
    """A model gives a row a score that is infinite or not a number.

    Attributes
    ----------
    row : int
        Position of the row, from 0.
    score : float
        Its score.
    """

    def __init__(self, row: int, score: float) -> None:
        super().__init__(row, score)
        self.row, self.score = row, score

    def __str__(self) -> str:
        return f"row {self.row + 1:,} gets the score {self.score}: the model is damaged or was fitted on absurd values"

    def after(self, rows: int) -> "NonFiniteScoreError":
        """Return the error for a table in which so many rows come before."""
        return NonFiniteScoreError(self.row + rows, self.score)
