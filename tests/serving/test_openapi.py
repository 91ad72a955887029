"""The OpenAPI document, and requests made up from it: whatever is sent, the answer is a score or a reason."""

import copy
import json
import random
import socket
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from dplan.serving import protocols
from dplan.serving.rows import RequestReader
from tests.serving.bodies import by_column, tensors


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
    reader = RequestReader(model, 10_000)

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
            rows = reader.read(
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


ROW = {"amount": 1, "items": 1, "day": "2024-01-01", "new_customer": True, "country": "DE"}
GOOD = [
    ("/score", [ROW]),
    ("/score", {"rows": [ROW, ROW]}),
    ("/score", {"columns": by_column([ROW])}),
    ("/explain", [ROW]),
    ("/invocations", {"dataframe_records": [ROW]}),
    ("/invocations", {"dataframe_split": {"columns": list(ROW), "data": [list(ROW.values())] * 2}}),
    ("/invocations", {"instances": [ROW]}),
    ("/invocations", {"inputs": by_column([ROW])}),
    ("/v2/models/payments/infer", {"id": "7", "inputs": tensors([ROW]), "outputs": [{"name": "score"}]}),
]
ODD = [
    *(
        None,
        True,
        0,
        -1,
        2**63,
        10**40,
        1e308,
        5e-324,
        "",
        "a",
        "2024-13-01",
        "9" * 400,
        "\x00",
        "\u202e",
        [],
        {},
    ),
    *([[]], [None], {"": None}, [[1], 2], {"name": "a"}, [1] * 300, {"a": {"b": {"c": []}}}),
]


def altered(body, rng):
    """Replace, remove or repeat one part of a body, however deep."""
    places = []
    nodes = [body]
    for node in nodes:
        inner = list(node.items() if isinstance(node, dict) else enumerate(node))
        places += [(node, key) for key, _ in inner]
        nodes += [value for _, value in inner if isinstance(value, dict | list)]
    node, key = rng.choice(places)
    how = rng.choice(["replace", "replace", "remove", "rename", "repeat"])
    if how == "replace":
        node[key] = copy.deepcopy(rng.choice(ODD))
    elif how == "remove":
        del node[key]
    elif isinstance(node, list):
        node += copy.deepcopy([node[key]] * rng.choice([1, 100]))
    else:
        node[rng.choice(["", "a", "name", "columns", "score", "inputs"])] = (
            node.pop(key) if how == "rename" else node[key]
        )
    return body


@pytest.mark.parametrize("n", [60, pytest.param(3000, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("path", "body"), GOOD)
def test_altered_requests_get_a_score_or_a_reason(path, body, n, serving):
    assert serving.ask(path, body)[0] == 200
    rng = random.Random(0)
    counts = Counter()
    before = serving.memory()
    for _ in range(n):
        request = altered(copy.deepcopy(body), rng)
        if rng.random() < 0.3 and request:
            request = altered(request, rng)
        status, found, _ = serving.ask(path, request)
        assert status == 200 or (400 <= status < 500 and len(found["error"]) > 5), (status, request)
        counts[status] += 1
    print(f"\n{path}: {dict(counts)}, {serving.memory() - before:+.1f} MB")  # noqa: T201
    assert counts[200] > 0
    assert counts[422] > 0
    assert serving.memory() < before + 50


@pytest.mark.parametrize("n", [60, pytest.param(1500, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("path", "body"), GOOD)
def test_random_bytes_are_refused(path, body, n, serving):
    rng = random.Random(0)
    good = json.dumps(body).encode()
    before = serving.memory()
    for number in range(n):
        request = bytearray(rng.randbytes(rng.randrange(200)) if number % 2 else good)
        if number % 2 == 0:  # a good body with a byte that cannot be there
            request[rng.randrange(len(request))] = rng.choice(b"\x00\x01\x1f\x80\xff")
        status, found, _ = serving.ask(path, bytes(request))
        assert 400 <= status < 500, bytes(request)
        assert len(found["error"]) > 5
    assert serving.memory() < before + 50


@pytest.mark.parametrize("n", [20, pytest.param(500, marks=pytest.mark.soak)])
def test_what_is_not_http_is_refused(n, serving):
    rng = random.Random(1)
    for _ in range(n):
        with socket.create_connection(("127.0.0.1", serving.port), timeout=120) as connection:
            connection.sendall(b"\x01" + rng.randbytes(50) + b"\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    assert serving.ask("/ping")[0] == 200
