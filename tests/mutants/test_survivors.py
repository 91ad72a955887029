"""The changes that no test need notice are changes of lines that are still there, each with a reason."""

import tomllib
from pathlib import Path

import pytest

from tests.mutants.modules import TESTS, files_of_tests, source

SURVIVORS, MEASURED = (
    tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    for name in ("survivors.toml", "measured.toml")
)


@pytest.mark.parametrize("module", TESTS)
def test_survivors_are_up_to_date_and_have_reasons(module):
    assert all(path.is_file() for path in files_of_tests(module))
    code = " ".join(source(module).read_text(encoding="utf-8").split())
    for change, reason in SURVIVORS.get(module, {}).items():
        before, arrow, _ = change.partition("  →  ")
        assert before in code, f"{module} no longer has the line  {before}"
        assert arrow
        assert len(reason) > 20


def test_only_modules_that_are_tried_have_survivors():
    assert set(SURVIVORS) <= set(TESTS)


def test_nine_of_ten_changes_are_noticed():
    assert set(MEASURED) <= set(TESTS)
    assert [module for module, (noticed, tried, _) in MEASURED.items() if noticed < 0.9 * tried] == []
