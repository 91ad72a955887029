"""Exceptions and warnings of this package.

::

    DplanError
    ├── ModelFileError      (also a ValueError)
    ├── NonFiniteScoreError (also a ValueError)
    ├── CellError           (also a ValueError)
    ├── ConfigurationError  (also a ValueError)
    ├── DownloadError       (also an OSError)
    ├── VerdictLogError     (also an OSError)
    └── JournalError        (also an OSError)
        └── FolderInUseError
    NoLabelsWarning         (a UserWarning)

Other errors are those of Python and scikit-learn: ValueError for invalid values, TypeError for wrong types,
NotFittedError.
"""

from dplan.text import shown


class DplanError(Exception):
    """Base class of the errors of this package."""


class ModelFileError(DplanError, ValueError):
    """A file is not a dplan model file, is damaged, or was written by a newer version of this package."""


class NonFiniteScoreError(DplanError, ValueError):
    """The score of a row is infinite or not a number.

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
        return f"row {self.row + 1:,} has the score {self.score}; the model is damaged or was fitted on extreme values"

    def after(self, rows: int) -> "NonFiniteScoreError":
        """Return the same error for a table with this many rows before the chunk."""
        return NonFiniteScoreError(self.row + rows, self.score)


class CellError(DplanError, ValueError):
    """A cell of a table cannot be used.

    Attributes
    ----------
    column : str
        Its column.
    row : int
        Its row in the frame, counted from 0.
    problem : str
        What is wrong, and what to do.
    place : str
        File and line of the row if they are known, otherwise its number, counted from 1.
    rows : tuple of int
        All rows whose cell in this column cannot be used, as far as they are known; `row` is the first one.
    """

    def __init__(
        self, column: str, row: int, problem: str, place: str = "", rows: tuple[int, ...] = ()
    ) -> None:
        super().__init__(column, row, problem, place, rows)
        self.column, self.row, self.problem, self.rows = column, row, problem, rows or (row,)
        self.place = place or f"row {row + 1}"

    def __str__(self) -> str:
        return f"{self.place}, column {shown(self.column)}: {self.problem}"

    def at(self, place: str) -> "CellError":
        """Return the same error with the place in the file."""
        return CellError(self.column, self.row, self.problem, place, self.rows)


class ConfigurationError(DplanError, ValueError):
    """Benchmark results were produced with different settings, or with another version of the code or the data."""


class DownloadError(DplanError, OSError):
    """A data set could not be downloaded, or the download is not the published file."""


class VerdictLogError(DplanError, OSError):
    """A log of verdicts cannot be read or written."""


class JournalError(DplanError, OSError):
    """A journal of benchmark results cannot be read or written."""


class FolderInUseError(JournalError):
    """Another benchmark run is writing to the same folder."""


class NoLabelsWarning(UserWarning):
    """No row, or every row, is labelled: the detector falls back to an unsupervised ranking."""
