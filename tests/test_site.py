"""The pages that the site is made of: every name, option, message and command is there."""

import ast
import doctest
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dplan
from tests.browser import needs_browser, visit

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
from _site.api import GROUPS  # noqa: E402
from _site.copied import imports, missing  # noqa: E402
from _site.writing import command_pages, commands, found, members  # noqa: E402

sys.path.insert(0, str(ROOT))
from docs.recorded import in_one_file  # noqa: E402

NAMES = [name for group in GROUPS.values() for name in group]
PACKAGES = (
    "dplan",
    "dplan.tables",
    "dplan.scoring",
    "dplan.explain",
    "dplan.datasets",
    "dplan.plot",
    "dplan.metrics",
)


def test_the_reference_lists_every_public_name_once():
    listed = [id(found(name)) for name in NAMES]
    assert len(set(NAMES)) == len(NAMES)
    assert len(set(listed)) == len(listed)
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.ismodule(value) and not name.startswith("__"):
                assert id(value) in listed, f"{package}.{name} is not in docs/_site/api.py"


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_a_docstring(name):
    assert inspect.getdoc(found(name))


def examples(what):
    """Return the lines of the examples in a docstring."""
    return "".join(one.source for one in doctest.DocTestParser().get_examples(inspect.getdoc(what) or ""))


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_and_method_has_an_example(name):
    """A method has one if an example on the page of its class calls it."""
    what = found(name)
    assert examples(what), f"{name} has no example"
    if inspect.isclass(what):
        methods = {own: getattr(what, own) for own in members(what)}
        methods = {own: method for own, method in methods.items() if callable(method)}  # not properties
        page = examples(what) + "".join(map(examples, methods.values()))
        missing = [own for own in methods if f".{own}(" not in page]
        assert not missing, f"{name}: no example calls {', '.join(missing)}"


@pytest.mark.parametrize("name", NAMES)
def test_an_example_that_is_copied_has_all_names(name):
    """Doctests see the names of their module, but readers do not: a page adds the imports."""
    what = found(name)
    methods = [inspect.getattr_static(what, own) for own in members(what)] if inspect.isclass(what) else []
    for one in [what, *methods]:
        names = {}
        exec("\n".join(imports(one, inspect.getdoc(one) or "", NAMES)), names)
        assert missing(examples(one)) <= set(names)


def test_every_option_is_on_the_page_of_its_command():
    pages = command_pages()
    for name, command in commands():
        page = pages[f"commands/{name.replace(' ', '-')}.md"]
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert parameter.opts[-1] in page


def test_every_command_has_its_python():
    page = (DOCS / "commands-and-python.md").read_text(encoding="utf-8")
    assert not [name for name, _ in commands() if f"| `dplan {name}` |" not in page]
    for name in re.findall(r"`(dplan(?:\.\w+)+)", page):
        module, _, own = name.rpartition(".")
        assert hasattr(import_module(module), own), name


def test_every_error_on_the_page_is_in_the_source():
    texts = [
        node.value
        for path in Path(dplan.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    page = (DOCS / "errors.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `([^`]+)` \| .* \| .* \|$", page, flags=re.MULTILINE)
    assert len(quoted) >= 20
    assert [one for one in quoted if not any(one in text for text in texts)] == []


def test_the_page_of_settings_has_every_variable():
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    read = {
        name
        for path in Path(dplan.__file__).parent.rglob("*.py")
        for name in re.findall(r"DPLAN_[A-Z_]+", path.read_text(encoding="utf-8"))
    }
    assert not [name for name in read if f"`{name}`" not in page]


def test_every_page_is_on_the_site():
    listed = set()
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL):
            lines = [line for line in tree.splitlines() if line and not line.startswith(":")]
            listed |= {line.rpartition("<")[2].rstrip(">") for line in lines}
    assert {page.stem for page in DOCS.glob("*.md")} - listed == {"index"}


def test_every_page_of_the_gallery_has_a_title_and_stays_short():
    scripts = sorted((ROOT / "examples").glob("plot_*.py"))
    assert len(scripts) == 12
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        title, line = text.splitlines()[1:3]
        assert line == "=" * len(title)
        assert max(map(len, text.splitlines())) <= 120


def test_no_two_public_classes_share_a_name():
    names = [name.rpartition(".")[2] for group in GROUPS.values() for name in group]
    classes = [name for name in names if name[0].isupper()]
    assert sorted(classes) == sorted(set(classes))


@needs_browser
def test_the_recorded_review_answers_without_a_server(tmp_path):
    """The page of the package, in one file: its scripts load, and the reader can go on to the next moment."""
    state = {"version": 1, "table": "t.csv", "who": "", "opened": False, "error": "", "stage": None}
    moments = [
        {"name": f"Moment {name}", "answers": {"/api/state": {**state, "people": [name]}}} for name in "AB"
    ]
    page = tmp_path / "review.html"
    page.write_text(in_one_file(moments), encoding="utf-8")
    seen = visit(page, tmp_path)
    assert seen.console == []
    assert seen.requests == []
    assert "Opening the table" in seen.dom
    assert re.search(r"<button[^>]*>Moment B</button>", seen.dom)
    assert re.search(
        r'id="me"[^>]*>Add your name.*<bdi>A</bdi>', seen.dom
    )  # the module has asked and was answered
