"""Write the pages that are made from the code: API, commands, and the files of the project's root."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from dplan.cli.main import main

DOCS = Path(__file__).parents[1]
HIDDEN = ("set_", "get_metadata_routing")  # what scikit-learn adds to every estimator


def write_all(groups: dict[str, list[str]], folder: Path) -> None:
    """Write all pages to a folder of the docs."""
    for name, text in {**api_pages(groups), **command_pages(), **root_pages()}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # or Sphinx would read it again
            path.write_text(text, encoding="utf-8")


def found(name: str) -> Any:
    """Return what a qualified name means."""
    module, _, own = name.rpartition(".")
    return getattr(import_module(module), own)


def members(cls: type) -> list[str]:
    """Return the public methods and properties of a class that are ours, in the order of the source."""
    ours: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("dplan"):
            for name, value in vars(base).items():
                is_call = inspect.isfunction(value) or isinstance(
                    value, classmethod | staticmethod | property
                )
                is_call = is_call or type(value).__name__ == "cached_property"
                if not name.startswith("_") and is_call and not name.startswith(HIDDEN):
                    ours[name] = None
    return list(ours)


def api_pages(groups: dict[str, list[str]]) -> dict[str, str]:
    """Return a page for each name, and an index of them."""
    pages, index = {}, ["# API", "", "Every public name, in the order of use."]
    for title, names in groups.items():
        index += ["", f"## {title}", "", "| name | what it is |", "|---|---|"]
        for name in names:
            what = found(name)
            first = (inspect.getdoc(what) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            index.append(f"| [`{name.removeprefix('dplan.')}`]({name}.rst) | {_plain(first)} |")
            pages[f"api/{name}.rst"] = _api_page(name, what)
        index += ["", "```{toctree}", ":hidden:", "", *names, "```"]
    return {**pages, "api/index.md": "\n".join(index) + "\n"}


def _api_page(name: str, what: Any) -> str:
    lines = [name, "=" * len(name), ""]
    if inspect.isclass(what):
        lines.append(f".. autoclass:: {name}")
        own = [] if issubclass(what, BaseException) or issubclass(what, tuple) else members(what)
        if own:
            lines += ["", *(f"   .. automethod:: {one}" for one in own if not _is_property(what, one))]
            lines += [f"   .. autoproperty:: {one}" for one in own if _is_property(what, one)]
    elif callable(what):
        lines.append(f".. autofunction:: {name}")
    else:
        lines.append(f".. autodata:: {name}\n   :no-value:")
    return "\n".join(lines) + "\n"


def _is_property(cls: type, name: str) -> bool:
    return not callable(inspect.getattr_static(cls, name)) and not isinstance(
        inspect.getattr_static(cls, name), classmethod | staticmethod
    )


def _plain(text: str) -> str:
    return text.replace("``", "`")


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command and subcommand with its full name."""
    context = click.Context(main, info_name="dplan")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            for own in command.list_commands(context):
                sub = command.get_command(context, own)
                assert sub is not None
                yield f"{name} {own}", sub
        else:
            yield name, command


def command_pages() -> dict[str, str]:
    """Return a page for each command: usage, text, options, examples."""
    pages, index = {}, ["# Commands", "", "| command | what it does |", "|---|---|"]
    for name, command in commands():
        file = f"commands/{name.replace(' ', '-')}.md"
        pages[file] = _command_page(name, command)
        index.append(f"| [`dplan {name}`]({Path(file).name}) | {command.get_short_help_str(200)} |")
    index += [
        "",
        "Every command exits with 0 if it did what was asked, with 1 if it could not, and with 2 if an option was",
        "not understood. Messages go to standard error.",
        "",
        "```{toctree}",
        ":hidden:",
        "",
        *(Path(file).stem for file in pages),
        "```",
    ]
    return {**pages, "commands/index.md": "\n".join(index) + "\n"}


def _command_page(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"dplan {name}")
    usage = " ".join([f"dplan {name}", *command.collect_usage_pieces(context)])
    lines = [f"# dplan {name}", "", "```text", usage, "```", ""]
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    lines += [_with_code(text.replace("*", "`*`")), ""]
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    lines += ["## Options", "", "| option | meaning |", "|---|---|"]
    for one in options:
        record = one.get_help_record(context)
        assert record is not None
        shown, meaning = (re.sub(r"\s+", " ", part).replace("|", "\\|") for part in record)
        lines.append(f"| `{shown}` | {_safe(meaning)} |")
    if command.epilog:
        examples = textwrap.dedent(command.epilog.replace("\b", "")).strip()
        examples = textwrap.dedent(examples.removeprefix("Examples:").strip("\n"))
        lines += ["", "## Examples", "", "```sh", examples, "```"]
    return "\n".join(lines) + "\n"


def _safe(text: str) -> str:
    return _with_code(re.sub(r"([<>*_\[\]])", r"\\\1", text))


def _with_code(text: str) -> str:
    """Return a text with options as code, or two hyphens become a dash."""
    return re.sub(r"(?<![`\w-])(--[a-z][a-z-]*)", r"`\1`", text)


def root_pages() -> dict[str, str]:
    """Return the changelog and the guide for contributors, with links as they are from here."""
    pages = {}
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        text = (DOCS.parent / name).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](../").replace("](CHANGELOG.md", "](changelog.md")
        pages[name.lower()] = without_links_out(text, DOCS.parent)
    return pages


def without_links_out(text: str, folder: Path) -> str:
    """Return Markdown with the text alone of links to files that are not part of the site."""
    return re.sub(r"\[([^][]*)\]\((?:\.\./(?!\w[\w-]*\.md)|src/|deploy|LICENSE)[^)]*\)", r"\1", text)
