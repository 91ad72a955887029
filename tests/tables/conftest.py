import pytest
from payments import payments, payments_model


@pytest.fixture(scope="session")
def table():
    return payments()


@pytest.fixture(scope="session")
def model():
    return payments_model()


@pytest.fixture(scope="session")
def model_path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "payments.dplan"
    model.save(path)
    return path
