"""Everything that is stored is refused in one sentence, or used without an accident, whatever stands in it.

Every value of a log, of what a review keeps and of a file of rules is replaced by every odd value, removed, and
accompanied by an unknown one.
"""

import copy
import json

import numpy as np
import pytest

from dplan.exceptions import VerdictLogError
from dplan.persistence.schema import is_count, is_number, is_text, is_texts, object_of, problem
from dplan.review.export import count_lines, export_labels, merge_logs
from dplan.review.folder import Kept
from dplan.review.log import VerdictLog, chosen_threshold, read_log
from dplan.review.table import TableFile
from dplan.rules.file import RuleFile
from dplan.tables import Input
from tests.persistence.crafting import ODD, places
from tests.rules.test_file import VALID

BIGGEST = 1.7976931348623157e308  # of all finite numbers
FITS = [
    (is_text, ["", "a", "\ud7ff", "\ue000", "\U0010ffff"], [None, 1, ["a"], "a\ud800", "\udfffa", "\udabc"]),
    (is_count, [0, 1, 2**53], [-1, 2**53 + 1, 1.0, True, "1", None]),
    (is_number, [0, -1, 1.5, BIGGEST, -BIGGEST], [float("inf"), -float("inf"), float("nan"), True, "1", None]),
    (is_texts, [[], ["a", ""]], [["a", 1], ["\udabc"], "ab", ("a",), {"a": ""}, None]),
    (object_of(is_count), [{}, {"a": 1, "": 0}], [{"a": -1}, {"a": 1, "b": ""}, {"\udabc": 1}, [1], None]),
]  # fmt: skip


@pytest.mark.parametrize(("fits", "right", "wrong"), FITS)
def test_each_check_takes_what_it_says_and_nothing_else(fits, right, wrong):
    assert [value for value in right if not fits(value)] == []
    assert [value for value in wrong if fits(value)] == []


def test_the_first_thing_that_is_wrong_with_a_record_is_said():
    fields = {"rows": (is_count, "a number of rows"), "who": (is_text, "a name")}
    assert problem({"who": "me", "rows": 3}, fields) == ""
    assert problem(["rows"], fields) == "it must be an object, but it is ['rows']"
    assert (
        problem({"rows": "x" * 100, "who": 1}, fields)
        == f"'rows' must be a number of rows, but it is '{'x' * 39}"
    )
    assert problem({"rows": 3, "y" * 100: 1}, fields, ["who"]) == f"'{'y' * 39} is unknown"
    assert problem({"rows": 3, "who": 1}, fields, ["who"]) == "'who' must be a name, but it is 1"


TIME = {"time": "2024-01-02T00:00:00.000+00:00"}
BY = {"who": "me", "window": "w"}
VERDICT = {
    "kind": "verdict", "row": ["p1"], "digest": "d", "number": 0, "model": "m", "round": 0, "score": 1.5, "rank": 1,
    "reasons": ["amount is high"], "verdict": "anomaly", "class": "fraud", **BY, "seconds": 0.5, "comment": "hm",
    "together": 2,
}  # fmt: skip
LINES = [
    {
        "kind": "session",
        "version": 1,
        "table": "t.csv",
        "model": "m",
        "ids": ["id"],
        "columns": ["amount"],
        "who": "",
    },
    VERDICT,
    {**VERDICT, "row": ["p2"]},
    {**VERDICT, "row": ["p3"], "together": 1, "verdict": "normal", "class": ""},
    {"kind": "undo", "of": [4], **BY},
    {"kind": "refit", "round": 1, "model": "m", "seconds": 1.0, "upto": 5},
    {"kind": "threshold", "round": 1, "score": 0.5, "alerts": 3, "rows": 9, **BY},
    {"kind": "rename", "from": "fraud", "to": "theft", **BY},
    {"kind": "mute", "rule": "r1", "name": "cheap", "reason": "harmless", "until": "", **BY},
    {"kind": "unmute", "rule": "r1", "name": "cheap", **BY},
]
LOG = [{"n": n, **TIME, **line} for n, line in enumerate(LINES, start=1)]


def crafted(stored):
    """Yield what is stored with one place changed, and which one it is."""
    for i, (_, key) in enumerate(places(stored)):
        for odd in (*ODD, "removed", "unknown"):
            made = copy.deepcopy(stored)
            where, _ = places(made)[i]
            if odd == "removed":
                del where[key]
            elif odd == "unknown" and isinstance(where, dict):
                where["spin"] = 7
            else:
                where[key] = odd
            yield made, (key, odd)


def refusal(step, *errors):
    """Return why a step is refused, None if it is not; the reason is one sentence."""
    try:
        step()
    except errors as error:
        why = str(error)
    else:
        return None
    assert "\n" not in why
    assert len(why) < 600
    return why


def test_a_log_is_refused_or_can_be_used_whatever_stands_in_it(tmp_path):
    (tmp_path / "t.csv").write_text("id,amount\np1,1\np2,2\np3,3\n")
    path, n_refused, used = tmp_path / "log.jsonl", 0, []
    for lines, (_, odd) in crafted(LOG):
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        if refusal(lambda: used.append(read_log(path)), VerdictLogError):
            n_refused += 1
        else:
            count_lines(used[-1])
            chosen_threshold(used[-1], np.arange(5.0))
            assert odd != "unknown" or not any("spin" in record for record in used[-1])
    assert n_refused > 2_000
    assert len(used) > 200
    table = TableFile(Input(tmp_path / "t.csv"), ("id",))
    for n, records in enumerate(used[::8]):  # all of them take a minute
        merge_logs([records], tmp_path / f"{n}.jsonl")
        refusal(lambda records=records: export_labels(records, table, tmp_path / "out.csv"), VerdictLogError)


def test_a_line_has_the_number_of_its_place(tmp_path):
    with VerdictLog(tmp_path / "log.jsonl") as log:
        with pytest.raises(ValueError, match="not saved: it has the number 7"):
            log.append({**LINES[4], "n": 7})
        log.append(LINES[4])
    assert [record["n"] for record in read_log(tmp_path / "log.jsonl")] == [1]


def test_what_a_review_keeps_is_refused_or_used(tmp_path):
    kept = {
        "first": "m.dplan",
        "table": "t.csv",
        "columns": ["id"],
        "ids": [],
        "port": 80,
        "token": "t",
        "target": 9,
    }
    path, n_refused, used = tmp_path / "june.review.json", 0, []
    for made, _ in crafted(kept):
        path.write_text(json.dumps(made))
        n_refused += refusal(lambda: used.append(Kept.read(path)), ValueError) is not None
    assert n_refused > 100
    assert all(0 <= found.port <= 65_535 and is_text(found.token) for found in used)


def test_a_file_of_rules_is_refused_or_used(tmp_path):
    path, n_refused, used = tmp_path / "rules.json", 0, []
    for made, _ in crafted(VALID):
        path.write_text(json.dumps(made))
        n_refused += refusal(lambda: used.append(RuleFile.load(path)), ValueError) is not None
    assert n_refused > 500
    assert len(used) > 50


def test_numbers_are_finite():
    assert not is_number(json.loads("1e999"))
    assert not is_number(True)
    assert is_number(1.5)
