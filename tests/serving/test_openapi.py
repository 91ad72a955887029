"""The OpenAPI document, and requests made up from it: whatever is sent, the answer is a score or a reason."""

import random
import socket

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from dplan.serving import protocols
from dplan.serving.rows import Layout


@pytest.fixture(scope="module")
def document(serving):
    return schemathesis.openapi.from_url(f"{serving.url}/openapi.json")


def test_the_document_has_the_columns_of_the_model(serving, model):
    _, found, _ = serving.ask("/openapi.json")
    row = found["components"]["schemas"]["payments.Row"]
    assert row["required"] == model.columns
    assert row["properties"]["amount"]["type"] == ["number", "null"]
    assert row["properties"]["new_customer"]["type"] == ["boolean", "null"]
    assert row["properties"]["country"]["examples"] == ["DE", "FR", "PL"]
    for path, operations in found["paths"].items():
        for method in operations:
            assert serving.ask(path, b"" if method == "post" else None)[0] in (200, 400)


BODIES = {
    "/score": protocols.plain,
    "/explain": protocols.plain,
    "/invocations": protocols.invocation,
    "/v2/models/payments/infer": lambda body: protocols.Tensors(body).table,
}


@pytest.mark.parametrize("n", [25, pytest.param(1500, marks=pytest.mark.soak)])
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("path", BODIES)
def test_made_up_requests_get_a_score_or_a_reason(path, mode, n, document, serving, model):
    counts = dict.fromkeys(("scored", "refused"), 0)
    layout = Layout(model, 10_000)

    @settings(
        max_examples=n, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(document[path]["POST"].as_strategy(generation_mode=mode))
    def check(case):
        response = case.call()
        if response.status_code == 200:
            # More is accepted than the document says, such as numbers as text, but only what the model can read.
            body = response.request.body
            rows = layout.read(
                BODIES[path](protocols.json_of(body if isinstance(body, bytes) else body.encode()))
            )
            assert rows.height > 0
            counts["scored"] += 1
        else:
            assert 400 <= response.status_code < 500, response.text
            assert len(response.json()["error"]) > 5
            counts["refused"] += 1

    check()
    print(f"\n{path}, {mode}: {counts}")  # noqa: T201
    if mode == GenerationMode.NEGATIVE:
        assert counts["refused"] > 0.8 * n


@pytest.mark.parametrize("n", [300, pytest.param(5000, marks=pytest.mark.soak)])
def test_random_bytes_are_refused(n, serving):
    rng = random.Random(0)
    good = b'[{"amount": 1, "items": 1, "day": "2024-01-01", "new_customer": true, "country": "DE"}]'
    for number in range(n):
        body = bytearray(rng.randbytes(rng.randrange(200)) if number % 2 else good)
        if number % 2 == 0:  # a good body with a byte that cannot be there
            body[rng.randrange(len(body))] = rng.choice(b"\x00\x01\x1f\x80\xff")
        status, found, _ = serving.ask("/score", bytes(body))
        assert 400 <= status < 500, bytes(body)
        assert len(found["error"]) > 5


@pytest.mark.parametrize("n", [20, pytest.param(500, marks=pytest.mark.soak)])
def test_what_is_not_http_is_refused(n, serving):
    rng = random.Random(1)
    for _ in range(n):
        with socket.create_connection(("127.0.0.1", serving.port), timeout=30) as connection:
            connection.sendall(b"\x01" + rng.randbytes(50) + b"\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    assert serving.ask("/ping")[0] == 200
