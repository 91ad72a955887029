"""The log of verdicts: whatever happens to the file or between windows, replaying gives the acknowledged labels."""

import json
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplan.exceptions import VerdictLogError
from dplan.review.log import Standing, VerdictLog, read_log
from dplan.tables.row_keys import Key

ROWS = ["a", "b", "c", "<script>", "\u202e", "line\nbreak"]


def verdict(row, decision="normal", name="", window="w"):
    return {
        "kind": "verdict", "row": [row], "digest": "d", "number": 0, "model": "m", "round": 0, "score": 1.5, "rank": 1,
        "reasons": [], "verdict": decision, "class": name, "who": "me", "window": window, "seconds": 0.5, "together": 1,
    }  # fmt: skip


def undo(*numbers):
    return {"kind": "undo", "of": list(numbers), "who": "me", "window": "w"}


def labels(verdicts):
    return {key.ids[0]: (record["verdict"], record["class"]) for key, record in verdicts.current.items()}


operations = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(ROWS), st.sampled_from(["anomaly", "normal", "unsure"])),
        st.integers(0, 30),
    ),
    max_size=25,
)


@given(operations)
@settings(deadline=None)
def test_replaying_equals_a_plain_history_of_each_row(steps):
    verdicts, history, given_at = Standing(), {row: [] for row in ROWS}, {}
    for n, step in enumerate(steps, start=1):
        if isinstance(step, int):
            verdicts.add({**undo(step), "n": n})
            if step in given_at:
                row, decision = given_at.pop(step)
                history[row].remove((step, decision))
        else:
            row, decision = step
            verdicts.add({**verdict(row, decision), "n": n})
            given_at[n] = (row, decision)
            history[row].append((n, decision))
    expected = {row: (given[-1][1], "") for row, given in history.items() if given}
    assert labels(verdicts) == expected
    last = [record["n"] for record in verdicts.current.values()]
    assert last == sorted(last)


@given(st.lists(st.sampled_from(ROWS), min_size=1, max_size=8), st.data())
@settings(deadline=None, max_examples=50)
def test_a_log_cut_anywhere_has_all_whole_lines_and_takes_more(tmp_path_factory, rows, data):
    path = tmp_path_factory.mktemp("log") / "v.jsonl"
    with VerdictLog(path) as log:
        for row in rows:
            log.append(verdict(row))
    text = path.read_bytes()
    cut = data.draw(st.integers(0, len(text)))
    path.write_bytes(text[:cut])
    whole = text[:cut].count(b"\n")
    assert [record["row"][0] for record in read_log(path)] == rows[:whole]
    with VerdictLog(path) as log:
        log.append(verdict("next"))
    assert [record["row"][0] for record in read_log(path)] == [*rows[:whole], "next"]


def test_lines_are_on_disk_in_order_when_many_threads_write(tmp_path):
    path = tmp_path / "v.jsonl"
    with VerdictLog(path) as log:

        def write(window):
            for i in range(20):
                (saved,) = log.append(verdict(f"{window}-{i}", window=window))
                assert read_log(path)[saved["n"] - 1]["row"] == [f"{window}-{i}"]

        threads = [threading.Thread(target=write, args=(str(w),)) for w in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = read_log(path)
    assert [record["n"] for record in records] == list(range(1, 81))
    assert len(Standing(records).current) == 80


def test_one_log_has_one_writer(tmp_path):
    with VerdictLog(tmp_path / "v.jsonl") as log:
        with pytest.raises(VerdictLogError, match="another review is writing"):
            VerdictLog(tmp_path / "v.jsonl")
        log.append(verdict("a"))
    VerdictLog(tmp_path / "v.jsonl").close()


def test_another_name_of_a_log_has_the_same_writer(tmp_path):
    with VerdictLog(tmp_path / "v.jsonl") as log:
        (tmp_path / "hard.jsonl").hardlink_to(tmp_path / "v.jsonl")
        with pytest.raises(VerdictLogError, match="another review is writing"):
            VerdictLog(tmp_path / "hard.jsonl")
        log.append(verdict("a"))
    VerdictLog(tmp_path / "hard.jsonl").close()


@pytest.mark.parametrize("n_lines", [0, 1, 2, 3])
def test_a_verdict_about_several_rows_counts_as_a_whole_or_not_at_all(n_lines, tmp_path):
    path = tmp_path / "v.jsonl"
    group = [{**verdict(row), "together": 3} for row in "bcd"]
    with VerdictLog(path) as log:
        log.append(verdict("a"))
        log.append(*group)
        log.append(*group)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: 4 + n_lines]) + b'{"n"')  # a crash wrote a part of the last verdict
    whole = 7 if n_lines == 3 else 4
    assert len(read_log(path)) == whole
    with VerdictLog(path) as log:
        log.append(verdict("e"))
    assert [record["row"][0] for record in read_log(path)] == [*"abcdbcd"[:whole], "e"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"null", "unknown kind None"),
        (b'{"kind": "verdict", "n": 2, "time": "t"}', "'row' is missing"),
        (
            json.dumps({**verdict("a"), "n": 2, "time": "t", "verdict": "maybe"}).encode(),
            "'verdict' must be anomaly, normal or unsure, but it is 'maybe'",
        ),
        (
            json.dumps({**verdict("a"), "n": 2, "time": "t", "row": [7]}).encode(),
            "'row' must be a list of texts",
        ),
        (json.dumps({**undo([]), "n": 2, "time": "t"}).encode(), "'of' must be a list of line numbers"),
        (json.dumps({**verdict("a"), "n": 3, "time": "t"}).encode(), "it has the number 3"),
        (json.dumps({**verdict("a"), "n": True, "time": "t"}).encode(), "'n' must be a whole number"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, problem):
    path = tmp_path / "v.jsonl"
    with VerdictLog(path) as log:
        log.append(verdict("a"))
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(VerdictLogError, match=f"line 2 .*{problem}"):
        read_log(path)
    with pytest.raises(VerdictLogError, match=f"line 2 .*{problem}"):
        VerdictLog(path)
    with pytest.raises(VerdictLogError, match="line 2"):  # the failed attempt did not keep the file locked
        VerdictLog(path)


@pytest.mark.parametrize("content", [b"a,b\n1,2", b"no line break", b'{"n": 2, "time": "', b"\x08\0\0\n\0{}"])
def test_a_file_that_is_no_log_is_left_as_it_is(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(VerdictLogError, match="line 1 is not"):
        VerdictLog(path)
    with pytest.raises(VerdictLogError, match="line 1 is not"):
        read_log(path)
    assert path.read_bytes() == content


def test_a_missing_log_is_a_clean_error(tmp_path):
    with pytest.raises(VerdictLogError, match=r"cannot read .*No such file"):
        read_log(tmp_path / "none.jsonl")
    with pytest.raises(VerdictLogError, match="does not exist"):
        VerdictLog(tmp_path / "none" / "v.jsonl")


FULL = """
import resource, signal, sys
from dplan.exceptions import VerdictLogError
from dplan.review.log import VerdictLog
from tests.review.test_log import verdict
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = VerdictLog(sys.argv[1])
log.append(verdict("kept"))
resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
try:
    log.append(verdict("lost"))
except VerdictLogError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.append(verdict("later"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits on this system")
def test_a_full_disk_refuses_a_verdict_and_keeps_the_others(tmp_path):
    code = FULL.replace("(400, 400)", "(400, resource.RLIM_INFINITY)").replace(
        "(resource.RLIM_INFINITY, resource.RLIM_INFINITY))", "(resource.RLIM_INFINITY,) * 2)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "v.jsonl")],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "not saved: cannot write to" in run.stdout
    assert "File too large; all earlier verdicts are kept" in run.stdout
    assert [record["row"] for record in read_log(tmp_path / "v.jsonl")] == [["kept"], ["later"]]


def test_a_later_verdict_counts_and_undoing_it_brings_the_earlier_one_back(tmp_path):
    with VerdictLog(tmp_path / "v.jsonl") as log:
        log.append(verdict("a", "anomaly", "theft"))
        log.append(verdict("a", "normal"))
        assert labels(log.verdicts) == {"a": ("normal", "")}
        log.append(undo(2))
        assert labels(log.verdicts) == {"a": ("anomaly", "theft")}
        log.append(undo(1), undo(1), undo(99))
        assert labels(log.verdicts) == {}
    assert Standing(read_log(tmp_path / "v.jsonl")).current == {}
    assert Key(("a",), "d") not in log.verdicts.current


@pytest.mark.parametrize(
    "line",
    [
        {**verdict("a"), "window": ["w"]},
        {**verdict("a"), "number": True},
        verdict("a", "anomaly", "\ud800"),
        verdict("\udfff"),
        {**verdict("a"), "verdict": "maybe"},
    ],
)
def test_a_line_that_could_not_be_read_back_is_not_saved(tmp_path, line):
    with VerdictLog(tmp_path / "v.jsonl") as log:
        log.append(verdict("kept"))
        with pytest.raises(ValueError, match="not saved"):
            log.append(verdict("b"), line)
        log.append(verdict("later"))
    assert [record["row"] for record in read_log(tmp_path / "v.jsonl")] == [["kept"], ["later"]]
