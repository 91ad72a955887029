"""scikit-learn's estimator checks for every detector, also with checked normal rows."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dplan import BoostedBaseline, DPLANEnsemble
from tests.detectors.quick import NO_COPIES, QUICK


class SomeChecked:
    """Mixed into a detector, makes some of the rows that the checks leave unlabelled checked normal rows."""

    def _run(self, train, X, labelling, rng):
        labels = labelling.labels.copy()
        labels[labelling.unlabelled[2::3]] = -1
        super()._run(train, X, labelling._replace(labels=labels), rng)


def with_checked_rows(name):
    """Return a detector with `SomeChecked`, of a class that can be pickled."""
    kind = type(QUICK[name])
    own = type(f"Checked{name}", (SomeChecked, kind), {"__module__": __name__})
    globals()[own.__name__] = own
    return own(**QUICK[name].get_params())


OF_NEW_ROWS = "contamination is a share of rows like the training rows, not of the training rows themselves"
SAID_TO_BE_NORMAL = "the rows that the check takes for outliers were said to be normal"
NAMES = [name for name in QUICK if name == type(QUICK[name]).__name__]


def expected_failures(estimator):
    """Return the checks that a detector fails on purpose."""
    checked, boosted = isinstance(estimator, SomeChecked), isinstance(estimator, BoostedBaseline)
    outliers = {}
    if boosted and checked:
        outliers = dict.fromkeys(("check_outliers_train", "check_outliers_fit_predict"), SAID_TO_BE_NORMAL)
    if isinstance(estimator, DPLANEnsemble) and checked:
        outliers = {"check_outliers_fit_predict": OF_NEW_ROWS}  # in the other check, the share is the same
    # Ten small trees give all rows of that check the same score, with any weights.
    return {**({} if boosted else NO_COPIES), **outliers}


@pytest.mark.any_processor
@pytest.mark.filterwarnings("ignore::dplan.NoLabelsWarning")
@parametrize_with_checks(
    [*QUICK.values(), *map(with_checked_rows, NAMES)], expected_failed_checks=expected_failures
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
