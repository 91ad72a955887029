"""The table of faults is up to date; `make mutants` puts them in."""

import re
from pathlib import Path

import pytest

import dplan
from tests.faults.table import FAULTS

PACKAGE, TESTS = Path(dplan.__file__).parent, Path(__file__).parents[1]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_put_in_and_its_tests_exist(fault):
    assert (PACKAGE / fault.module).read_text(encoding="utf-8").count(fault.before) == 1
    for test in fault.tests:
        path, _, name = test.partition("::")
        assert re.search(rf"^def {name}\(", (TESTS / path).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("name", "at_least"), [("security.md", 40), ("production.md", 10)])
def test_the_tests_that_a_page_names_exist(name, at_least):
    page = (TESTS.parent / "docs" / name).read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_/]+\.py)::(\w+)`", page)
    assert len(named) >= at_least
    for path, name in named:
        assert re.search(rf"^def {name}\(", (TESTS / path).read_text(encoding="utf-8"), re.MULTILINE), name
