"""Put each fault of the table into a copy of the source, and say which ones no test notices.

    python -m tests.faults [--again] [WORD]...

With words, only faults whose names contain one of them. What is known is kept in ``.faults.jsonl``, so that an
interrupted run goes on; ``--again`` forgets it.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.table import FAULTS, Fault

PROJECT = Path(__file__).parents[2]
KNOWN = PROJECT / ".faults.jsonl"
_LONGEST = 300  # seconds


def digest(fault: Fault) -> str:
    """Return what the result for a fault depends on: itself, its module and its tests."""
    files = [PROJECT / "src" / "dplan" / fault.module]
    files += [PROJECT / "tests" / test.partition("::")[0] for test in fault.tests]
    return hashlib.sha256(repr(fault).encode() + b"".join(path.read_bytes() for path in files)).hexdigest()


def noticed(fault: Fault, copy: Path) -> bool:
    """Return whether the tests fail with the fault in a copy of the source."""
    module = copy / "dplan" / fault.module
    right = module.read_text(encoding="utf-8")
    module.write_text(right.replace(fault.before, fault.after), encoding="utf-8")
    try:
        tests = [f"tests/{test}" for test in fault.tests]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        path = os.pathsep.join([str(copy), str(PROJECT)])
        try:
            run = subprocess.run(
                command,
                cwd=PROJECT,
                env={**os.environ, "PYTHONPATH": path},
                capture_output=True,
                check=False,
                timeout=_LONGEST,
            )
        except subprocess.TimeoutExpired:  # a test that waits for what never comes
            return True
        if run.returncode not in (0, 1):
            raise RuntimeError(run.stdout.decode()[-2000:] + run.stderr.decode()[-2000:])
        return run.returncode == 1
    finally:
        module.write_text(right, encoding="utf-8")


def main(words: list[str]) -> int:
    """Try the faults; return how many were not noticed."""
    if "--again" in words:
        words.remove("--again")
        KNOWN.unlink(missing_ok=True)
    lines = KNOWN.read_text(encoding="utf-8").splitlines() if KNOWN.exists() else []
    known = {found["digest"]: found["noticed"] for found in map(json.loads, lines)}
    chosen = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(PROJECT / "src", copy)
        for fault in chosen:
            key = digest(fault)
            if key not in known:
                known[key] = noticed(fault, copy)
                with KNOWN.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"digest": key, "fault": fault.name, "noticed": known[key]}) + "\n")
            print(f"{'noticed' if known[key] else 'MISSED ':8} {fault.name}", flush=True)  # noqa: T201
            missed += [] if known[key] else [fault.name]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults noticed.")  # noqa: T201
    return len(missed)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
