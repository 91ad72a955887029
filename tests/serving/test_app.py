"""The service against what `dplan score` says, in every protocol; limits, and errors that name the problem."""

import json
import resource
import shutil
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import polars as pl
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serving.bodies import by_column, tensors
from tests.serving.process import Running, until


def metric(running, name, **labels):
    _, text, _ = running.ask("/metrics")
    samples = [s for family in text_string_to_metric_families(text.decode()) for s in family.samples]
    return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())


FORMS = {
    "array": lambda rows: ("/score", rows),
    "rows": lambda rows: ("/score", {"rows": rows}),
    "columns": lambda rows: ("/score", {"columns": by_column(rows)}),
    "by name": lambda rows: ("/models/payments/score", rows),
    "explain": lambda rows: ("/explain", rows),
}


@pytest.mark.parametrize("form", FORMS)
def test_served_scores_are_those_of_dplan_score_to_the_last_bit(form, serving, rows, expected):
    path, body = FORMS[form](rows[:100])
    status, found, _ = serving.ask(path, body)
    assert status == 200
    assert found["score"] == expected["score"][:100].to_list()
    assert found["percentile"] == expected["percentile"][:100].to_list()
    assert found["alert"] == expected["alert"][:100].to_list()
    assert 0 < sum(found["alert"]) < 100


@pytest.mark.parametrize("form", ["array", "columns"])
def test_large_requests_get_the_same_scores_at_the_same_time(form, serving, rows, expected):
    path, body = FORMS[form](rows * 20)
    assert len(json.dumps(body)) > 1 << 15
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: serving.ask(path, body), range(16)))
    for status, found, _ in answers:
        assert status == 200
        for name in ("score", "percentile", "alert"):
            assert found[name] == expected[name].to_list() * 20


def test_a_large_request_is_told_its_bad_row(serving, rows):
    status, found, _ = serving.ask("/score", [*rows * 20, {**GOOD, "amount": {}}])
    assert status == 422
    assert f"row {len(rows) * 20 + 1}" in found["error"]


@pytest.mark.parametrize(
    "body",
    [
        lambda rows: {"dataframe_records": rows},
        lambda rows: {"instances": rows},
        lambda rows: {"inputs": by_column(rows)},
        lambda rows: {
            "dataframe_split": {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}
        },
    ],
)
def test_mlflow_and_sagemaker_clients_get_the_same_scores(body, serving, rows, expected):
    status, found, _ = serving.ask("/invocations", body(rows))
    assert status == 200
    assert found["predictions"] == expected.select("score", "percentile", "alert").to_dicts()


def test_csv_is_read_as_dplan_score_reads_it(serving, rows, expected):
    body = pl.DataFrame(rows).write_csv(null_value="NA").encode()
    for path in ("/score", "/invocations"):
        status, found, _ = serving.ask(path, body, headers={"Content-Type": "text/csv; charset=utf-8"})
        assert status == 200
        scores = found["score"] if path == "/score" else [row["score"] for row in found["predictions"]]
        assert scores == expected["score"].to_list()


def test_the_open_inference_protocol(serving, rows, expected):
    status, server, _ = serving.ask("/v2")
    assert (status, server["name"]) == (200, "dplan")
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/payments/ready", "/ping"):
        assert serving.ask(path)[0] == 200
    _, about, _ = serving.ask("/v2/models/payments")
    kinds = {tensor["name"]: tensor["datatype"] for tensor in about["inputs"]}
    assert kinds == {
        "amount": "FP64",
        "items": "FP64",
        "day": "BYTES",
        "new_customer": "BOOL",
        "country": "BYTES",
    }
    status, found, _ = serving.ask("/v2/models/payments/infer", {"id": "7", "inputs": tensors(rows)})
    assert status == 200
    assert (found["id"], found["model_name"]) == ("7", "payments")
    outputs = {tensor["name"]: tensor for tensor in found["outputs"]}
    assert outputs["score"] == {
        "name": "score", "datatype": "FP64", "shape": [len(rows)], "data": expected["score"].to_list()
    }  # fmt: skip
    assert outputs["alert"]["data"] == expected["alert"].to_list()
    nested = [{**t, "shape": [2, 1], "data": [[v] for v in t["data"][:2]]} for t in tensors(rows)]
    wanted = {"inputs": nested, "outputs": [{"name": "score"}]}
    _, found, _ = serving.ask("/v2/models/payments/infer", wanted)
    assert [t["name"] for t in found["outputs"]] == ["score"]
    assert found["outputs"][0]["data"] == expected["score"][:2].to_list()


def test_the_reasons_are_those_of_dplan_score(serving, rows, expected):
    alerts = expected.with_row_index().filter("alert")[:20]
    status, found, _ = serving.ask("/explain", [rows[i] for i in alerts["index"]])
    assert status == 200
    assert found["reasons"] == alerts["reasons"].to_list()
    assert all(found["reasons"])


def test_values_of_unexpected_types_are_read_as_in_json_lines(serving, rows, expected):
    odd = [{**row, "items": str(row["items"])} for row in rows[:50]]
    assert serving.ask("/score", odd)[1]["score"] == expected["score"][:50].to_list()
    without = [{k: v for k, v in row.items() if v is not None} for row in rows]
    assert any(len(row) < len(rows[0]) for row in without)
    assert serving.ask("/score", without)[1]["score"] == expected["score"].to_list()


def test_requests_that_arrive_together_are_scored_together_and_apart(serving, rows, expected):
    before = metric(serving, "dplan_batch_rows_count"), metric(serving, "dplan_rows_total", model="payments")
    bad = {**rows[0], "day": "yesterday"}

    def ask(number):
        if number % 10 == 7:
            return serving.ask("/score", [rows[1], bad])
        return serving.ask("/score", rows[number : number + 1])

    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(ask, range(300)))
    for number, (status, found, _) in enumerate(answers):
        if number % 10 == 7:
            assert status == 422
            assert "row 2, column 'day': 'yesterday' is not a date" in found["error"]
        else:
            assert status == 200
            assert found["score"] == [expected["score"][number]]
    assert metric(serving, "dplan_rows_total", model="payments") - before[1] == 270
    assert metric(serving, "dplan_batch_rows_count") - before[0] < 300


GOOD = {"amount": 1, "items": 1, "day": "2024-01-01", "new_customer": True, "country": "DE"}
LINE = json.dumps(GOOD).encode()


@pytest.mark.parametrize(
    ("path", "body", "status", "problem"),
    [
        ("/score", b"", 400, "the body is empty"),
        ("/score", b"[{", 400, "not valid JSON"),
        ("/score", b'[{"amount": NaN}]', 400, "write null for a missing value"),
        ("/score", b"amount,items\n1,2\n", 400, "for CSV, send the header  Content-Type: text/csv"),
        ("/score", b'"\xff\xfe"', 400, "not valid JSON"),
        ("/score", b"[" * 100_000, 400, "not valid JSON"),
        ("/score", 7, 400, "expected an array of rows"),
        ("/score", {"columns": [1]}, 400, "expected an array of rows"),
        ("/score", [], 422, "no rows"),
        ("/score", {"columns": {}}, 422, "no rows"),
        ("/score", [7], 422, "row 1 is a number"),
        ("/score", [{"amont": 1, **{k: v for k, v in GOOD.items() if k != "amount"}}], 422, "did you mean 'amont'?"),
        ("/score", {"columns": {**{k: [v] for k, v in GOOD.items()}, "items": [1, 2]}}, 422, "different lengths"),
        ("/score", {"columns": {**{k: [v] for k, v in GOOD.items()}, "items": 1}}, 422, "'items' is a number"),
        ("/score", [{**GOOD, "amount": "a lot"}], 422, "row 1, column 'amount': 'a lot' is not a number"),
        ("/score", [GOOD, {**GOOD, "amount": [1]}], 422, "row 2, column 'amount': expected one value, got an array"),
        ("/score", [GOOD, {**GOOD, "amount": "x"}], 422, "'amount'"),
        ("/score", LINE.join([b"[", b"]"]).replace(b": 1,", b": 1e999,"), 400, "infinity"),
        ("/score", [{**GOOD, "day": 7}], 422, "'day' is a number column"),
        ("/score", [{**GOOD, "day": "soon"}], 422, "row 1, column 'day': 'soon' is not a date"),
        ("/explain", [GOOD] * 101, 413, "the limit is 100"),
        ("/score", [GOOD] * 10_001, 413, "more than 10,000 rows"),
        ("/score", b"[%b]" % b",".join([b"{}"] * 5_000_000), 413, "too many for 10,000 rows"),
        ("/invocations", b"[%b" % b"[],".join([b"["] * 1_000_000), 413, "too many for 10,000 rows"),
        ("/score", b" " * 16_000_001, 413, "larger than 16,000,000 bytes"),
        ("/models/other/score", [GOOD], 404, "no model called 'other'"),
        ("/nothing", [GOOD], 404, "Not Found; see /openapi.json for the paths"),
        ("/metrics", [GOOD], 405, "Method Not Allowed; use GET"),
        ("/score", None, 405, "Method Not Allowed; use POST"),
        ("/invocations", [GOOD], 400, "dataframe_split"),
        ("/invocations", {"dataframe_split": {"columns": ["a"], "data": [[1, 2]]}}, 400, "row 1 is not an array of 1"),
        ("/invocations", {"dataframe_split": {"columns": ["a", "a"], "data": [[1, 2]]}}, 400, "different strings"),
        ("/v2/models/payments/infer", {}, 400, 'expected {"inputs"'),
        ("/v2/models/payments/infer", {"inputs": [{"name": "a"}]}, 400, "input 'a': expected a name"),
        ("/v2/models/payments/infer", {"inputs": tensors([GOOD])[:2]}, 422, "missing columns 'day'"),
        ("/v2/models/payments/infer", {"inputs": tensors([GOOD]) * 2}, 400, "two inputs called"),
        ("/v2/models/payments/infer", {"inputs": [{**tensors([GOOD])[0], "shape": [2]}]}, 400, "1 values do not have"),
        ("/v2/models/payments/infer", {"inputs": [{**tensors([GOOD])[0], "datatype": "F"}]}, 400, "unknown datatype"),
        ("/v2/models/payments/infer", {"inputs": tensors([GOOD]), "outputs": ["x"]}, 400, "unknown output 'x'"),
        (
            "/v2/models/payments/infer",
            {"inputs": tensors([GOOD]), "outputs": ["score", "alert", {"name": "score"}]},
            400,
            "two outputs called 'score'",
        ),
    ],
)  # fmt: skip
def test_a_bad_request_is_told_what_is_wrong(path, body, status, problem, serving):
    found = serving.ask(path, body)
    assert found[0] == status, found[1]
    assert problem in found[1]["error"]
    assert found[1].keys() == {"error"}


def test_a_bad_csv_is_told_the_line(serving):
    body = b"amount,items,day,new_customer,country\n1,1,2024-01-01,true,DE\n2,many,2024-01-01,true,DE\n"
    status, found, _ = serving.ask("/score", body, headers={"Content-Type": "text/csv"})
    assert status == 422
    assert "line 3, column 'items': 'many' is not a number" in found["error"]


def test_the_log_has_no_values_of_rows(serving):
    serving.ask("/score", [{**GOOD, "country": "Atlantis", "amount": 31337.25}])
    serving.ask("/score", [{**GOOD, "amount": "much-money"}])
    serving.ask("/score?secret=1", b"not-json-at-all")
    until(lambda: [entry["status"] for entry in serving.log[-3:]] == [200, 422, 400])
    last = serving.log[-3:]
    assert last[0].keys() == {"time", "level", "event", "endpoint", "status", "ms", "model", "rows"}
    for text in ("Atlantis", "31337", "much-money", "not-json", "secret"):
        assert text not in serving.log_text


def test_metrics_count_rows_alerts_and_percentiles(serving, rows, expected, model_path):
    names = ("dplan_rows_total", "dplan_alerts_total", "dplan_percentile_count")
    before = [metric(serving, name) for name in names]
    serving.ask("/score", rows)
    now = [metric(serving, name) for name in names]
    n_alerts = int(expected["alert"].sum())
    assert [b - a for a, b in zip(before, now, strict=True)] == [len(rows), n_alerts, len(rows)]
    assert metric(serving, "dplan_model_info", model="payments", detector="DPLAN") == 1
    assert metric(serving, "dplan_requests_total", endpoint="score", status="200") >= 1
    assert metric(serving, "dplan_request_seconds_count", endpoint="score") >= 1
    _, about, _ = serving.ask("/models")
    assert metric(serving, "dplan_model_info", digest=about["models"][0]["digest"]) == 1


def test_only_this_machine_is_answered_on_loopback(serving):
    status, found, _ = serving.ask("/ping", headers={"Host": "evil.example"})
    assert status == 421
    assert "localhost only" in found["error"]
    assert serving.ask("/ping", headers={"Host": "localhost:1"})[0] == 200
    for host in (
        "localhost:80@evil.example",
        "localhost@evil.example",
        "[::1]evil.example",
        "localhost:80:80",
        "",
    ):
        assert serving.ask("/ping", headers={"Host": host})[0] == 421, host


def test_two_host_headers_are_refused(serving):
    with socket.create_connection(("127.0.0.1", serving.port), timeout=30) as connection:
        connection.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")


@pytest.fixture(scope="module")
def strict(model_path, tmp_path_factory):
    """A server with a token and small limits."""
    options = ("--max-waiting", 10, "--max-body", 1)
    folder = tmp_path_factory.mktemp("strict")
    with Running(folder, model_path, *options, environment={"DPLAN_TOKEN": "open sesame"}) as running:
        yield running


def test_a_token_is_asked_for(strict):
    for headers in ({}, {"Authorization": "Bearer open"}, {"Authorization": "open sesame"}):
        status, found, answer = strict.ask("/score", [GOOD], headers=headers)
        assert status == 401
        assert answer["WWW-Authenticate"] == "Bearer"
        assert "Authorization: Bearer TOKEN" in found["error"]
    assert strict.ask("/metrics")[0] == 401
    assert strict.ask("/ping")[0] == 200
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert strict.ask("/score", [GOOD], headers={"Authorization": f"{scheme} open sesame"})[0] == 200
    assert "sesame" not in strict.log_text


def test_a_client_that_stalls_is_sent_away(model_path, tmp_path):
    with (
        Running(tmp_path, model_path, "--timeout", 1) as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=120) as stalled,
    ):
        stalled.sendall(b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n[{")
        answer = stalled.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"did not arrive within 1 seconds" in answer


def test_a_body_that_hides_its_length_is_limited_too(strict):
    with socket.create_connection(("127.0.0.1", strict.port), timeout=120) as endless:
        endless.sendall(
            b"POST /score HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer open sesame\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        try:
            for _ in range(200):
                endless.sendall(b"4000\r\n" + b" " * 0x4000 + b"\r\n")
        except ConnectionError:
            pass
        answer = endless.recv(1000)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_clients_that_do_not_finish_their_headers_are_sent_away(model_path, tmp_path):
    half = b"POST /score HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
    with Running(tmp_path, model_path, "--timeout", 5) as running, ExitStack() as stack:

        def connect():
            address = ("127.0.0.1", running.port)
            return stack.enter_context(socket.create_connection(address, timeout=120))

        second = connect()
        second.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert second.recv(1000).startswith(b"HTTP/1.1 200 ")
        stalled = [connect(), connect(), connect(), second]
        for connection, sent in zip(stalled, (b"", b"\r\n", half, half), strict=True):
            connection.sendall(sent)
        for connection in stalled:
            assert b"HTTP/1.1 408 " in connection.makefile("rb").read()


def test_long_headers_are_refused(strict):
    start = b"GET /ping HTTP/1.1\r\nHost: localhost\r\nX-Long: "
    for length, status in ((60_000, b"200"), (70_000, b"431"), (5_000_000, b"431")):
        with socket.create_connection(("127.0.0.1", strict.port), timeout=30) as connection:
            try:
                connection.sendall(start + b"a" * length + b"\r\nConnection: close\r\n\r\n")
                answer = connection.recv(1000)
            except ConnectionError:  # closed before all was sent
                answer = b"HTTP/1.1 431 "
            assert answer.startswith(b"HTTP/1.1 %b " % status)


CHUNKED = b"POST /score HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


def is_closed_while_it_sends(connection, data, times, pause=0.0):
    try:
        for _ in range(times):
            connection.sendall(data)
            time.sleep(pause)
    except ConnectionError:
        return True
    return False


@pytest.mark.parametrize(
    ("begins", "goes_on"),
    [(b"0\r\nX: ", b"a"), (b"0\r\n", b"a:b\r\n"), (b"1;", b"a")],
    ids=["a trailer", "trailers", "an extension of a chunk"],
)
def test_what_belongs_to_no_body_is_limited_whoever_sends_it(begins, goes_on, strict):
    with socket.create_connection(("127.0.0.1", strict.port), timeout=120) as connection:
        connection.sendall(CHUNKED + begins)
        assert is_closed_while_it_sends(connection, goes_on * 50_000, times=200)


def test_few_requests_are_kept_until_their_turn(strict):
    one = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", strict.port), timeout=120) as connection:
        connection.sendall(one * 9 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert connection.makefile("rb").read().count(b"HTTP/1.1 401 ") == 10
    with socket.create_connection(("127.0.0.1", strict.port), timeout=120) as connection:
        assert is_closed_while_it_sends(connection, one * 1_000, times=1_000)


def test_a_client_that_was_refused_does_not_stay(model_path, tmp_path):
    token = {"DPLAN_TOKEN": "open sesame"}
    with Running(tmp_path, model_path, "--timeout", 1, environment=token) as running:
        for ends in (False, True):
            with socket.create_connection(("127.0.0.1", running.port), timeout=120) as connection:
                connection.sendall(CHUNKED)
                assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")
                if ends:
                    connection.sendall(b"0\r\n\r\n")
                    connection.makefile("rb").read()
                else:
                    assert is_closed_while_it_sends(connection, b"1\r\na\r\n", times=2_000, pause=0.05)


@pytest.mark.skipif(sys.platform == "win32", reason="limits open files")
def test_more_connections_than_files_may_be_open_leave_files_for_models(model_path, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(model_path, folder / "a.dplan")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, hard))
    try:
        running = Running(tmp_path, folder, "--timeout", 600)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with running, ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=30))
        shutil.copy(model_path, folder / "b.dplan")
        until(lambda: [e["model"] for e in running.log if e["event"] == "model loaded"] == ["a", "b"])
