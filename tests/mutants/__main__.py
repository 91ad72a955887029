"""Change the modules that promises rest on, one thing at a time, and say which changes no test notices.

    python -m tests.mutants [--again] [--sample N] [MODULE]...

With modules, only those whose names begin so; with a sample, at most N random changes of each, always the same ones.
What is known is kept in ``.mutants.jsonl``, so that an interrupted run goes on; ``--again`` forgets it. Changes that no
test need notice are listed in ``survivors.toml``, with the reasons. ``measured.toml`` has how many of the changes of a
module were noticed when it was last tried, of how many.

A test run starts as a copy of a process that has loaded all libraries but nothing of ours, and the changed module is
loaded in place of the file: this takes a tenth of the time of a new process. Processes that tests start find it in a
copy of the source.
"""

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import sys
import time
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.changes import Mutant, mutants
from tests.mutants.modules import PROJECT, TESTS, files_of_tests, source

KNOWN = PROJECT / ".mutants.jsonl"
SAID = PROJECT / ".mutants.log"  # by the last test run
SURVIVORS = Path(__file__).with_name("survivors.toml")
MEASURED = Path(__file__).with_name("measured.toml")
_LIBRARIES = (
    "click duckdb hypothesis httptools msgspec numba numpy orjson pandas polars pyarrow pytest rich schemathesis "
    "schemathesis.pytest.plugin scipy.stats sklearn.linear_model sklearn.model_selection starlette.applications uvicorn"
)


class _Changed(importlib.machinery.SourceFileLoader, importlib.abc.MetaPathFinder):
    """Loads one module from text instead of its file; kernels in it are cached beside the copy, which has this text."""

    def __init__(self, module: str, text: str, copy: Path) -> None:
        super().__init__("dplan." + module.replace("/", "."), str(source(module)))
        self._text, self._copy = text, str(copy / "dplan" / f"{module}.py")

    def find_spec(self, fullname, path=None, target=None):
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def get_code(self, fullname):
        return compile(self._text, self._copy, "exec")


def noticed(module: str, text: str, copy: Path, seconds: float = 600) -> bool:
    """Return whether a test of a module fails, or does not end in time, if the module has this text.

    `copy` is the folder with a copy of the package, which processes that tests start load.
    """
    (copy / "dplan" / f"{module}.py").write_text(text, encoding="utf-8")
    child = os.fork()
    if not child:
        os.environ["PYTHONPATH"] = str(copy)
        signal.alarm(int(seconds))  # which ends it, even if this process has been killed
        said = os.open(SAID, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (0, 1, 2):
            os.dup2(said, stream)
        import pytest

        changed = _Changed(module, text, copy)
        sys.meta_path.insert(0, changed)
        try:
            importlib.import_module(
                changed.name
            )  # or pytest, which looks for doctests in it, would load the file
        except BaseException:
            os._exit(1)
        options = ["-q", "-x", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        status = pytest.main([*options, *map(str, files_of_tests(module))])
        os._exit(min(int(status), 1))
    return os.waitpid(child, 0)[1] != 0


def accepted() -> dict[str, dict[str, str]]:
    """Return the changes that no test need notice, by module, with the reasons."""
    return tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))


def _digests(module: str, mutant: Mutant) -> tuple[str, str]:
    """Return what a noticed change is known by, and one that was not noticed: other tests may notice it."""
    made = hashlib.sha256(mutant.source.encode() + repr(TESTS[module]).encode())
    with_tests = made.copy()
    for path in files_of_tests(module)[1:]:
        with_tests.update(path.read_bytes())
    return made.hexdigest(), with_tests.hexdigest()


def check(module: str, known: dict[str, bool], copy: Path, sample: int | None = None) -> list[str]:
    """Try the changes of a module, or a sample of them; return those that no test noticed."""
    began = time.monotonic()
    text = source(module).read_text(encoding="utf-8")
    changes = list(mutants(text))
    n = len(changes)
    changes = sorted(changes, key=lambda mutant: _digests(module, mutant)[0])[:sample]  # in a random order
    digests = [_digests(module, mutant) for mutant in changes]
    untried = [i for i, own in enumerate(digests) if not any(digest in known for digest in own)]
    if untried and noticed(module, text, copy):
        raise RuntimeError(f"the tests of {module} fail without any change: {SAID.read_text()[-3000:]}")
    seconds = 5 * (time.monotonic() - began) + 30
    missed = []
    for i, mutant in enumerate(changes):
        made, with_tests = digests[i]
        if i in untried:
            found = noticed(module, mutant.source, copy, seconds)
            known[made if found else with_tests] = found
            line = {
                "digest": made if found else with_tests,
                "noticed": found,
                "module": module,
                "change": mutant.key,
            }
            with KNOWN.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if not known.get(made, False):
            missed.append(mutant.key)
    (copy / "dplan" / f"{module}.py").write_text(text, encoding="utf-8")
    allowed = accepted().get(module, {})
    for key in missed:
        print(f"  {'accepted' if key in allowed else 'MISSED  '} {key}", flush=True)  # noqa: T201
    n_accepted = sum(key in allowed for key in missed)
    n_noticed, n_tried = len(changes) - len(missed), len(changes) - n_accepted
    said = f"{n_noticed} of {n_tried} noticed, {n_noticed / n_tried:.1%}; {n_accepted} accepted, {n} in all"
    print(f"{module}: {said}", flush=True)  # noqa: T201
    record(module, n_noticed, n_tried, n)
    return [key for key in missed if key not in allowed]


def record(module: str, n_noticed: int, n_tried: int, n: int) -> None:
    """Write down how many of a module's changes were noticed, of how many tried ones and how many in all."""
    found = tomllib.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    lines = [
        f'"{name}" = {counts}' for name, counts in sorted({**found, module: [n_noticed, n_tried, n]}.items())
    ]
    MEASURED.write_text(
        "# By module: changes that a test noticed; those that were tried and are not in survivors.toml; all.\n"
        "# Where not all were tried, it was a random sample, and some tests were written for what it had missed.\n\n"
        + "\n".join(lines)
        + "\n",
        encoding="utf-8",
    )


def main(words: list[str]) -> int:
    """Try the changes; return how many were neither noticed nor accepted."""
    if "--again" in words:
        words.remove("--again")
        KNOWN.unlink(missing_ok=True)
    for library in _LIBRARIES.split():
        importlib.import_module(library)
    sample = None
    if "--sample" in words:
        place = words.index("--sample")
        sample = int(words[place + 1])
        del words[place : place + 2]
    lines = KNOWN.read_text(encoding="utf-8").splitlines() if KNOWN.exists() else []
    known = {found["digest"]: found["noticed"] for found in map(json.loads, lines)}
    chosen = [module for module in TESTS if not words or module.startswith(tuple(words))]
    with TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(PROJECT / "src", copy, dirs_exist_ok=True)
        return sum(len(check(module, known, copy, sample)) for module in chosen)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
