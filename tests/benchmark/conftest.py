import pytest
from small_cells import make_small_plan


@pytest.fixture
def small_plan():
    return make_small_plan()
