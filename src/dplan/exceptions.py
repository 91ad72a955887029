"""Exceptions and warnings of this package.

::

    DplanError
    ├── ModelFileError      (also a ValueError)
    ├── NonFiniteScoreError (also a ValueError)
    ├── CellError           (also a ValueError)
    ├── DownloadError       (also an OSError)
    └── VerdictLogError     (also an OSError)
    NoLabelsWarning         (a UserWarning)
    └── ManyAnomaliesWarning

Other errors are those of Python and scikit-learn: ValueError for invalid values, TypeError for wrong types,
NotFittedError.
"""

from dplan.text import shown


def needs(what: str, *packages: str) -> ImportError:
    """Return the error about a feature whose packages are not installed, with the command that installs them.

    Examples
    --------
    >>> print(needs("reading DuckDB files", "duckdb"))
    reading DuckDB files needs duckdb; run  pip install duckdb
    """
    return ImportError(f"{what} needs {', '.join(packages)}; run  pip install {' '.join(packages)}")


class DplanError(Exception):
    """Base class of the errors of this package.

    Examples
    --------
    >>> import dplan
    >>> try:
    ...     dplan.load(b"not a model")
    ... except dplan.DplanError as error:
    ...     type(error).__name__
    'ModelFileError'
    """


class ModelFileError(DplanError, ValueError):
    """A file is not a dplan model file, is damaged, or was written by a newer version of this package.

    Examples
    --------
    >>> import dplan
    >>> dplan.load(b"not a model")
    Traceback (most recent call last):
        ...
    dplan.exceptions.ModelFileError: the model is not a dplan model file
    """


class NonFiniteScoreError(DplanError, ValueError):
    """The score of a row is infinite or not a number.

    Attributes
    ----------
    row : int
        Position of the row, from 0.
    score : float
        Its score.

    Examples
    --------
    >>> error = NonFiniteScoreError(2, float("inf"))
    >>> error.row, error.after(1_000).row
    (2, 1002)
    >>> print(error)
    row 3 has the score inf; the model is damaged or was fitted on extreme values
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

    Examples
    --------
    >>> error = CellError("amount", 6, "'ten' is not a number")
    >>> print(error)
    row 7, column 'amount': 'ten' is not a number
    >>> print(error.at("t.csv, line 8"))
    t.csv, line 8, column 'amount': 'ten' is not a number
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


class DownloadError(DplanError, OSError):
    """A data set could not be downloaded, or the download is not the published file.

    Examples
    --------
    >>> issubclass(DownloadError, OSError)
    True
    """


class VerdictLogError(DplanError, OSError):
    """A log of verdicts cannot be read or written.

    Examples
    --------
    >>> issubclass(VerdictLogError, OSError)
    True
    """


class NoLabelsWarning(UserWarning):
    """No row, or every row, is labelled: the detector falls back to an unsupervised ranking.

    Examples
    --------
    >>> import warnings
    >>> from dplan import LogisticBaseline
    >>> with warnings.catch_warnings(record=True, action="always") as found:
    ...     detector = LogisticBaseline().fit([[0], [1], [9]])
    >>> found[0].category.__name__
    'NoLabelsWarning'
    """


class ManyAnomaliesWarning(NoLabelsWarning):
    """More than half of the rows are labelled as anomalies, which most likely means something else.

    Examples
    --------
    >>> import warnings
    >>> from dplan import LogisticBaseline, TableDetector
    >>> with warnings.catch_warnings(record=True, action="always") as found:
    ...     detector = TableDetector(LogisticBaseline()).fit([[k * k] for k in range(30)], [1] * 20 + [0] * 10)
    >>> found[0].category.__name__
    'ManyAnomaliesWarning'
    """
