"""scikit-learn's own suite over every detector."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.detectors.quick import QUICK


@pytest.mark.any_processor
@pytest.mark.filterwarnings("ignore::dplan.NoLabelsWarning")
@parametrize_with_checks(list(QUICK.values()))
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
