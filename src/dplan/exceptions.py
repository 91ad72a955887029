"""What this package warns about under a name of its own.

Errors are Python's and scikit-learn's: ValueError for bad values, TypeError for wrong types, NotFittedError.
"""


class NoLabelsWarning(UserWarning):
    """No row is labelled, or every row: a detector that learns from labels falls back to an unsupervised ranking."""
