"""What users get is what they got when the record was made: scores, reasons, files, answers.

`python -m tests.record` writes the record anew; see there when that is allowed. Scores of a model file are promised on
every machine, so these are compared everywhere. A fit is promised for one processor and one set of libraries
(docs/same-scores.md), so fits, and digests of texts that a library formats, are compared where both are those of the
record.
"""

import functools
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.record import made

# The largest relative difference of a score on a processor without fused multiply-add.
_RTOL = 1e-5


@functools.cache
def record() -> dict[str, Any]:
    return json.loads(made.RECORD.read_text("utf-8"))


def differences(found: Any, expected: Any, exact: bool, where: str = "") -> Iterator[str]:
    """Yield what differs, with its place."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in sorted({*expected, *found}):
            yield from differences(found.get(name), expected.get(name), exact, f"{where} > {name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, exact, f"{where} > {i}")
    elif not exact and isinstance(expected, float) and isinstance(found, float):
        if not math.isclose(found, expected, rel_tol=_RTOL, abs_tol=1e-6):
            yield f"{where}: {found!r}, in the record {expected!r}"
    elif not exact and str(expected).startswith("sha256:"):
        return
    elif found != expected:
        yield f"{where}: {found!r}, in the record {expected!r}"


def test_a_difference_is_found_wherever_it_is():
    expected = {"a": [1.0, {"b": "x"}], "c": "sha256:1"}
    assert list(differences(expected, expected, exact=True)) == []
    assert len(list(differences({"a": [1.1, {"b": "y"}]}, expected, exact=True))) == 3
    almost = {"a": [1.000001, {"b": "x"}], "c": "sha256:2"}
    assert len(list(differences(almost, expected, exact=True))) == 2
    assert list(differences(almost, expected, exact=False)) == []


@pytest.mark.filterwarnings("ignore::dplan.NoLabelsWarning")
@pytest.mark.parametrize("group", made.GROUPS)
def test_the_behaviour_is_that_of_the_record(group, tmp_path):
    exact = made.environment() == record()["environment"]
    if group in made.FITTED and not exact:
        pytest.skip("another processor, or other versions of libraries, than those of the record")
    found = json.loads(json.dumps(made.GROUPS[group](tmp_path)))
    assert list(differences(found, record()[group], exact)) == []
