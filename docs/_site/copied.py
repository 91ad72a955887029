"""What an example has to import, so that it runs when it is copied from its page.

Doctests run with the names of their module, which a reader does not have.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import sys
from collections.abc import Iterable
from typing import Any

from _site.writing import found

__all__ = ["imports", "missing"]


def imports(what: Any, text: str, public: Iterable[str]) -> list[str]:
    """Return the lines that import what the examples in a docstring use.

    Parameters
    ----------
    what : class, function or property
        What the docstring is about.
    text : str
        The docstring.
    public : iterable of str
        The names of the reference, from where things are imported if they are there.
    """
    code = "".join(example.source for example in doctest.DocTestParser().get_examples(text))
    known = {id(found(name)): name for name in public}
    around = _namespace(what)
    modules, names = set(), dict[str, set[str]]()
    for name in missing(code):
        value = around[name]
        if inspect.ismodule(value):
            modules.add(f"import {value.__name__}" + f" as {name}" * (name != value.__name__))
            continue
        listed = known.get(id(value), f"{getattr(value, '__module__', around['__name__'])}.{name}")
        module, _, own = listed.rpartition(".")
        names.setdefault(module, set()).add(own)
    return sorted(modules) + [
        f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)
    ]


def missing(code: str) -> set[str]:
    """Return the names that code uses and does not define."""
    used, own = set(), set(dir(builtins))
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else own).add(node.id)
        elif isinstance(node, ast.alias):
            own.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler) and node.name:
            own.add(node.name)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
    return used - own


def _namespace(what: Any) -> dict[str, Any]:
    """Return the names of the module in which something is defined."""
    what = getattr(what, "fget", None) or getattr(what, "func", None) or what
    return vars(sys.modules[inspect.unwrap(getattr(what, "__func__", what)).__module__])
