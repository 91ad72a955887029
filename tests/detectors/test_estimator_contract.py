"""scikit-learn's estimator checks for every detector."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dplan import DPLANEnsemble
from tests.detectors.quick import QUICK


def expected_failures(estimator):
    """Return the checks that a detector fails on purpose."""
    if not isinstance(estimator, DPLANEnsemble):
        return {}
    # Rows that it keeps as neighbours score lower than new rows like them. The threshold is right for new rows.
    reason = "contamination is a share of rows like the training rows, not of the training rows themselves"
    return {"check_outliers_train": reason, "check_outliers_fit_predict": reason}


@pytest.mark.any_processor
@pytest.mark.filterwarnings("ignore::dplan.NoLabelsWarning")
@parametrize_with_checks(list(QUICK.values()), expected_failed_checks=expected_failures)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
