"""Run the first notebook from top to bottom, and write it as a page: python -m docs.executed build/site/notebooks."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

NOTEBOOK = Path(__file__).parents[1] / "examples" / "first_notebook.ipynb"


def main(folder: Path) -> None:
    """Execute the notebook in an empty folder; an error in a cell is an error here."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as scratch:
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": scratch}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    html = ["".join(output["data"].get("text/html", "")) for output in shown]
    assert sum("reasons" in text for text in html) >= 2, "the alerts are not shown as HTML"
    sanitised, page = (
        HTMLExporter(sanitize_html=safe).from_notebook_node(notebook)[0] for safe in (True, False)
    )
    assert "alerts in" in sanitised, "nbconvert has lost the cards"
    # Scripts are for formulas and diagrams, which it has not, and most are loaded from elsewhere.
    page = re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL)
    assert "alerts in" in page, "nbconvert has lost the cards"
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, folder / NOTEBOOK.name)
    (folder / NOTEBOOK.name).with_suffix(".html").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
