"""What this package warns about and raises under a name of its own.

All other errors are Python's and scikit-learn's: ValueError for bad values, TypeError for wrong types,
NotFittedError.
"""


class NoLabelsWarning(UserWarning):
    """No row is labelled, or every row: a detector that learns from labels falls back to an unsupervised ranking."""


class ModelFileError(ValueError):
    """A file is no model file, is damaged, or was written by a newer version of this package."""
