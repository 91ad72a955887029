"""The log of verdicts: whatever happens to the file or between windows, replaying gives the acknowledged labels."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplan.exceptions import VerdictLogError
from dplan.review.log import Standing, VerdictLog, chosen_threshold, label_of, read_log
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


SESSION = {
    "kind": "session",
    "version": 1,
    "table": "t",
    "model": "m",
    "ids": ["id"],
    "columns": ["a"],
    "who": "me",
}
BY = {"who": "me", "window": "w"}
OTHERS = [
    SESSION,
    undo(1),
    {"kind": "refit", "round": 1, "model": "m", "seconds": 0.5, "upto": 1},
    {"kind": "threshold", "round": 0, "score": 1.5, "alerts": 0, "rows": 1, **BY},
    {"kind": "rename", "from": "", "to": "theft", **BY},
    {"kind": "mute", "rule": "r", "name": "cheap", "reason": "", "until": "", "conditions": "", **BY},
    {"kind": "unmute", "rule": "r", "name": "cheap", **BY},
]
WRONG = {
    "version": -1, "table": None, "ids": "id", "columns": [], "who": 1, "of": [-1], "round": -1, "model": 1,
    "seconds": "", "upto": 0.5, "score": None, "alerts": 1.5, "rows": 0, "from": 1, "to": 1, "rule": 1, "name": 1,
    "reason": 1, "until": 1, "conditions": 1, "window": 1, "row": ["a", 1], "digest": 1, "number": -1, "rank": -1,
    "reasons": "", "verdict": "", "class": 1, "together": 0, "kind": "other",
}  # fmt: skip


def test_every_value_of_every_line_is_checked():
    optional = {("session", "who"), ("mute", "conditions")}
    with VerdictLog(None) as log:
        for right in (verdict("a"), *OTHERS):
            wrong = [{**right, name: WRONG[name]} for name in right]
            wrong += [
                {other: right[other] for other in right if other != name}
                for name in right
                if (right["kind"], name) not in optional
            ]
            for line in (*wrong, {**right, "more": 1}):
                with pytest.raises(ValueError, match="not saved"):
                    log.append(line)
            log.append(right)
        log.append({**verdict("a"), "comment": "hm"})
        with pytest.raises(ValueError, match=r"'together' must be a number of rows, but it is 1\.5"):
            log.append({**verdict("a"), "together": 1.5})
        log.append({name: SESSION[name] for name in SESSION if name != "who"})
        assert len(log.records) == len(OTHERS) + 3


def test_a_log_goes_on_with_the_ids_of_its_last_session(tmp_path):
    with VerdictLog(tmp_path / "v.jsonl") as log:
        log.check_ids(["whatever"])
        log.append(SESSION, {**SESSION, "ids": []}, {**SESSION, "ids": ["day", "shop"]}, verdict("a"))
        log.check_ids(["day", "shop"])
        with pytest.raises(
            VerdictLogError, match=r"v\.jsonl identifies rows by --id day --id shop; use the same"
        ):
            log.check_ids(["id"])
        log.append({**SESSION, "ids": []})
        log.check_ids([])
        with pytest.raises(VerdictLogError, match="identifies rows by row numbers; use the same"):
            log.check_ids(["day", "shop"])


def test_a_class_that_is_renamed_has_its_new_name_everywhere():
    with VerdictLog(None) as log:
        log.append(
            verdict("a", "anomaly", "theft"),
            verdict("a", "anomaly", "fraud"),
            verdict("b", "anomaly", "theft"),
        )
        log.append({**OTHERS[4], "from": "theft", "to": "stolen"})
        assert labels(log.verdicts) == {"a": ("anomaly", "fraud"), "b": ("anomaly", "stolen")}
        assert [r["class"] for r in log.verdicts.standing()] == ["stolen", "fraud", "stolen"]
        log.append(undo(2))
        assert labels(log.verdicts) == {"a": ("anomaly", "stolen"), "b": ("anomaly", "stolen")}
        log.append(undo(3))
        assert [key.ids for key in log.verdicts.given()] == [("a",)]
        assert list(log.verdicts.current) == [Key(("a",), "d")]


def test_rows_are_in_the_order_of_their_latest_verdicts():
    with VerdictLog(None) as log:
        log.append(verdict("a"), verdict("b"), verdict("a", "unsure"), verdict("c"))
        assert list(labels(log.verdicts)) == ["b", "a", "c"]
        log.append(undo(3))
        assert list(labels(log.verdicts)) == ["a", "b", "c"]


def test_a_verdict_means_its_class_or_what_it_says():
    given = [
        verdict("a", "anomaly", "theft"),
        verdict("a", "anomaly"),
        verdict("a"),
        verdict("a", "unsure", "x"),
    ]
    assert [label_of(line) for line in given] == ["theft", "anomaly", "normal", "unsure"]
    assert label_of(given[1], "fraud") == "fraud"


@pytest.mark.parametrize(
    ("alerts", "rows", "threshold"),
    [
        (1, 10, 9),
        (2, 10, 8),
        (10, 10, 0),
        (20, 10, 0),
        (0, 10, 9),
        (1, 100, 9),
        (20, 100, 8),
        (1, 5, 8),
        (24, 100, 8),
    ],
)
def test_the_last_threshold_holds_for_the_same_share_of_other_rows(alerts, rows, threshold):
    earlier = {"kind": "threshold", "alerts": 5, "rows": 10}
    lines = [earlier, {"kind": "threshold", "alerts": alerts, "rows": rows}, verdict("a")]
    assert chosen_threshold(lines, np.arange(10.0)) == threshold
    assert chosen_threshold(lines[2:], np.arange(10.0)) is None


def test_zeros_after_a_power_failure_are_no_line(tmp_path):
    path = tmp_path / "v.jsonl"
    with VerdictLog(path) as log:
        log.append(verdict("a"), verdict("b"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"n": 3, "time' + bytes(50))
    assert len(read_log(path)) == 2
    path.write_bytes(whole + b'{"n": 2, "time' + bytes(50))
    with pytest.raises(VerdictLogError, match="line 3 is not a line of a verdict log"):
        read_log(path)
