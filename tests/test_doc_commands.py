"""Every shell and Python block of the pages for people with a table runs, in the page's order, in an empty folder."""

import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [
    "index.md",
    "first-detector.md",
    "messy-table.md",
    "reading-the-report.md",
    "model-file.md",
    "score-files.md",
    "stream.md",
    "new-labels.md",
    "onnx.md",
    "which-detector.md",
    "verdicts.md",
    "new-kinds.md",
    "threshold.md",
    "kinds.md",
    "rules.md",
]

WITH_OUTPUT = ["first-detector.md"]  # what these pages show is what is printed or written
TIMES = re.compile(r"^Seconds: |^Wrote .* in ")


def rounded(line):
    """Return a line with two digits of each decimal number: the others may depend on the processor."""
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.2g}", line)


def outputs(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```text\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def blocks(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```(sh|python)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(sys.platform == "win32", reason="the blocks are for a POSIX shell")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_works_as_written(page, tmp_path):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shown = ""
    for kind, group in groupby(blocks(page), key=lambda block: block[0]):
        code = "\n".join(text for _, text in group)
        command = ["sh", "-euc", code] if kind == "sh" else [sys.executable, "-W", "error", "-c", code]
        run = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        shown += run.stdout + run.stderr
    if page in WITH_OUTPUT:
        shown += "".join(path.read_text("utf-8-sig") for path in tmp_path.glob("*.csv"))
        expected = [line for text in outputs(page) for line in text.splitlines() if not TIMES.search(line)]
        assert expected
        printed = set(map(rounded, shown.splitlines()))
        assert [line for line in expected if rounded(line) not in printed] == []
    made = {path.name for path in tmp_path.iterdir()}
    expected = {
        "first-detector.md": {"top.csv", "scored.parquet", "report.html", "top-payments.csv"},
        "messy-table.md": {"bank.dplan", "decisions.csv", "columns.toml"},
        "reading-the-report.md": {"report.html"},
        "model-file.md": {"detector.dplan", "fraud.dplan"},
        "score-files.md": {"scored.parquet", "scored-parts", "scored-by-polars.parquet"},
        "stream.md": {"stream.csv"},
        "new-labels.md": {"forest-2.dplan"},
        "onnx.md": {"forest.onnx"},
        "which-detector.md": {"DPLANEnsemble.dplan", "IForest.dplan"},
        "verdicts.md": {"queue-2.csv", "forest-3.dplan"},
        "new-kinds.md": {"scored.csv", "alerts.csv", "report.html"},
        "index.md": {"bank-new.csv"},
        "threshold.md": {"alerts.csv", "scored.csv"},
        "kinds.md": {"kinds.html", "kinds.json", "kinds.sql", "alerts.csv"},
        "rules.md": {"rules.json"},
    }
    assert expected[page] <= made
    assert not [name for name in made if name.startswith(".")]
