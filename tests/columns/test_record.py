"""Columns decide, learn, compute and say what they always did, but for changes that were meant."""

import json

import pytest

from tests.columns.record import RECORD, as_lines, everything

pytestmark = pytest.mark.any_processor

THEN = dict(json.loads(RECORD.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def now():
    return as_lines(everything())


def test_the_record_is_of_the_same_things(now):
    assert list(now) == list(THEN)


@pytest.mark.parametrize("part", sorted({path.split(" / ")[0] for path in THEN}))
def test_everything_is_as_recorded(part, now):
    def of(lines):
        return {path: value for path, value in lines.items() if path.split(" / ")[0] == part}

    assert json.loads(json.dumps(of(now))) == of(THEN)
