"""One idea, one place: each idea has an owner, and no other module has an opinion about it."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import dplan

PACKAGE = Path(dplan.__file__).parent


class Idea(NamedTuple):
    """Who owns an idea, and what code looks like that is about it.

    `elsewhere` has the modules that still know it although they should not. A test fails if one of them has stopped, so
    the list can only become shorter.
    """

    owners: tuple[str, ...]  # modules or folders
    pattern: str
    elsewhere: tuple[str, ...] = ()


# Arithmetic on arrays may score, sort and digest where it needs to.
EXEMPT = ("detectors", "_kernels", "agent")

IDEAS = {
    "what stands between reasons": Idea(("tables.reasons",), r"' \| '"),
    "which characters are safe to print": Idea(("text",), r"\bisprintable\b"),
    "what a model file says about the training": Idea(
        ("tables.summary",), r"\bsummary(\[|\.get\()|'(verdict_keys|known_names|label_values)'"
    ),
    "what identifies a row": Idea(("tables.row_keys",), r"\bblake2b\b"),
    "the scores of a model": Idea(("tables.model",), r"\.detector\.anomaly_score\("),
    "which scores are alerts": Idea(
        ("tables.model",), r"[<>]=? [-(]*[\w.]*(threshold|offset_)\b", ("tables.estimating",)
    ),
    "which alerts can be asked for": Idea(
        ("scoring.alerts",), r"'budget and threshold cannot", ("kinds", "notebook.alerts")
    ),
    "the order of rows": Idea(("arrays",), r"argsort\(-|argsort\(.*\)\[::-1\]", ("plot.style",)),
    "how a table is read": Idea(("tables", "cli._options"), r"\b(encoding|sheet|sql): "),
    "text that means a missing value": Idea(
        ("tables", "columns", "rules.values", "cli._options"), r"\bmissing: (tuple|Sequence)\["
    ),
    "what the words of labels mean": Idea(
        ("tables", "review", "datasets"), r"'(normal|unlabelled|unsure)'", ("cli.example", "plot.reviews")
    ),
    "what types of columns are called": Idea(
        ("columns",), r"'(category|duration|filled|frequency|country|domain)'"
    ),
    "where the features of a column are": Idea(("columns.layout",), r"(cumsum|accumulate)\(.*\.width\b"),
    "what rows are by their bytes": Idea(
        ("tables.row_keys", "tables.review_queue", "tables.csv_syntax", "persistence", "scoring.parts"),
        r"\btobytes\b",
    ),
    "whether a file has changed": Idea(("persistence.atomic",), r"\bst_mtime_ns\b"),
}


def code_of(path: Path) -> str:
    """Return the code of a module without its docstrings and comments."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())), *rest]:
                    node.body = rest or [ast.Pass()]
    return ast.unparse(tree)


def modules() -> dict[str, str]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = code_of(path)
    return found


CODE = modules()


def within(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


@pytest.mark.parametrize("name", IDEAS)
def test_an_idea_is_in_its_place_alone(name):
    idea = IDEAS[name]
    found = {module for module, code in CODE.items() if re.search(idea.pattern, code)}
    assert any(within(module, idea.owners) for module in found), (
        "the owner does not know its own idea any more"
    )
    others = {module for module in found if not within(module, (*idea.owners, *EXEMPT))}
    assert others <= set(idea.elsewhere), f"leave it to {' or '.join(idea.owners)}"
    assert set(idea.elsewhere) <= others, "these modules have stopped; take them off the list"
