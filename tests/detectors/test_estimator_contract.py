"""scikit-learn's own suite over every detector."""

import pytest
from quick import QUICK
from sklearn.utils.estimator_checks import parametrize_with_checks


@pytest.mark.filterwarnings("ignore::dplan.NoLabelsWarning")
@parametrize_with_checks(list(QUICK.values()))
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
