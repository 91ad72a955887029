"""What is imported is declared, what is declared is used, and the constraints belong to what is declared."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from constraints.write import FOLDER, PROJECT, declared, lowest

DISTRIBUTIONS = {
    "sklearn": "scikit-learn",
    "markdown_it": "markdown-it-py",
    "prometheus_client": "prometheus-client",
    "backports": "backports.zstd",
}  # named otherwise than their module
OURS = {"dplan", "tests", "benchmarks", "experiments", "constraints", "docs", "stable_baselines", "_site"}
NEW_IN_PYTHON = {"compression"}  # from 3.14 on
COMMANDS = {"ruff", "mypy", "pytest-xdist"}  # used by the Makefile, imported nowhere
# Extras that are installed in an environment of their own, with its constraints.
APART = {**dict.fromkeys(("spark", "mlflow", "integrations"), "integrations.txt"), "docs": "docs.txt"}
OUTSIDE = {
    "dev",
    "docs",
    "experiments",
    "mutants",
    "integrations",
}  # extras that the installed package does not use
FOR_AN_EXAMPLE = {"torch", "stable-baselines3"}  # not in an extra; the example's test is skipped without them
BY_HAND = {
    "iguanas",
    "imodels",
    "pysubgroup",
    "wittgenstein",
}  # rivals of experiments/kinds, which need older libraries


def imported(folder: str) -> set[str]:
    modules = {
        name.split(".")[0]
        for path in (PROJECT / folder).rglob("*.py*")
        if path.suffix in (".py", ".pyi")
        for name in _imports(path)
    }
    found = modules - set(sys.stdlib_module_names) - OURS - NEW_IN_PYTHON
    return {canonicalize_name(DISTRIBUTIONS.get(name, name)) for name in found}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.Call(func=ast.Attribute(attr="importorskip"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def names(*extras: str) -> set[str]:
    return {canonicalize_name(requirement.name) for extra in extras for requirement in declared()[extra]}


def pins(file: str) -> dict[str, Requirement]:
    lines = (FOLDER / file).read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
    return {canonicalize_name(pin.name): pin for pin in map(Requirement, lines)}


def test_the_package_declares_exactly_what_it_imports():
    extras = set(declared()) - OUTSIDE
    assert imported("src") == names(*extras)


def test_development_declares_exactly_what_else_is_imported():
    everywhere = set.union(*map(imported, ("tests", "benchmarks", "examples", "experiments", "constraints")))
    apart = names("integrations")
    needed = names("dev", "experiments", "mutants") - imported("src") - COMMANDS - apart
    assert everywhere - imported("src") - FOR_AN_EXAMPLE - BY_HAND - apart == needed
    assert apart <= everywhere


def test_every_requirement_has_one_lower_bound():
    for requirement in (r for group in declared().values() for r in group):
        assert [bound.operator for bound in requirement.specifier] == [">="], requirement


def test_the_lowest_versions_are_those_in_pyproject():
    expected = (FOLDER / "lowest.txt").read_text(encoding="utf-8")
    assert lowest() == expected, "run  python constraints/write.py lowest"


def test_ci_pins_every_requirement_to_a_version_that_is_allowed():
    found = {file: pins(file) for file in ("ci.txt", "integrations.txt", "docs.txt")}
    for extra, requirement in ((extra, r) for extra, group in declared().items() for r in group):
        file = APART.get(extra, "ci.txt")
        (pin,) = found[file][canonicalize_name(requirement.name)].specifier
        assert requirement.specifier.contains(pin.version), "run  python constraints/write.py ci"


@pytest.mark.parametrize("file", ["ci.txt", "docs.txt", "integrations.txt", "lowest.txt"])
def test_constraints_hold_on_any_machine(file):
    for name, pin in pins(file).items():
        (specifier,) = pin.specifier
        assert specifier.operator == "=="
        assert "+" not in specifier.version, "a local build"
        assert pin.url is None
        assert name != "torch", "which build of torch is wanted depends on the machine"
        assert not name.startswith("nvidia"), "only for one kind of machine"
