"""Write the version constraints of the environments that the tests run in.

    python constraints/write.py lowest          the lower bounds in pyproject.toml
    python constraints/write.py ci              what is installed in this environment, after its tests have passed
    python constraints/write.py integrations    the same, in the environment of `make test-integrations`
    python constraints/write.py docs            the same, in the environment of `make docs`

They are for  pip install -c constraints/….txt -e '.[dev]'  or, the last ones,  '.[integrations]'  and  '.[docs]'.
"""

import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[1]
FOLDER = PROJECT / "constraints"
EXAMPLE_NEEDS = Requirement("stable-baselines3")


def declared() -> dict[str, list[Requirement]]:
    """Return what pyproject.toml requires: always, under "", and for each of the extras."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: [r for r in map(Requirement, texts) if r.name != project["name"]]
        for extra, texts in groups.items()
    }


def lowest() -> str:
    """Return the lower bounds in pyproject.toml as constraints."""
    return _lines(
        f"{requirement.name}{str(requirement.specifier).replace('>=', '==')}"
        for requirements in declared().values()
        for requirement in requirements
    )


def installed(*roots: Requirement) -> str:
    """Return the installed versions of everything that some requirements need, directly or not."""
    found: dict[str, str] = {}
    queue = list(roots)
    done: set[tuple[str, frozenset[str]]] = set()
    while queue:
        requirement = queue.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        # There are several builds of each version of torch, for processors and for graphics cards; .ci/run installs it.
        if name == "torch" or (name, extras) in done:
            continue
        done.add((name, extras))
        package = distribution(name)
        found[name] = package.version
        queue += _needed(package.requires or [], extras)
    del found["dplan-ad"]
    return _lines(f"{name}=={version}" for name, version in found.items())


def _needed(texts: list[str], extras: frozenset[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, texts):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def _lines(constraints: Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in sorted(set(constraints)))


def main(which: str) -> None:
    """Write one of the files."""
    write: dict[str, Callable[[], str]] = {
        "lowest": lowest,
        "ci": lambda: installed(Requirement("dplan-ad[mutants]"), EXAMPLE_NEEDS),
        "integrations": lambda: installed(Requirement("dplan-ad[integrations]")),
        "docs": lambda: installed(Requirement("dplan-ad[docs]")),
    }
    (FOLDER / f"{which}.txt").write_text(write[which](), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
