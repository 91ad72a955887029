"""The OpenAPI document of a service: the template ``openapi.json``, filled with the columns of its models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from dplan._version import __version__
from dplan.serving.models import Limits, Served

__all__ = ["document"]


def document(models: Mapping[str, Served], limits: Limits) -> dict[str, Any]:
    """Return the OpenAPI document of a service.

    Parameters
    ----------
    models : dict
        The models by name.
    limits : Limits
        Limits of the server.

    Returns
    -------
    dict
        The document, as JSON values.
    """
    template = _template()
    parts = template["parts"]
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for name, served in models.items():
        columns = served.model.preparation.columns_
        values = {
            "name": name,
            "prefix": "" if len(models) == 1 else f"/models/{name}",
            "reference": name.replace("~", "~0").replace("/", "~1"),
            "max_rows": limits.rows,
            "max_explained": limits.explained,
            "names": [column.name for column in columns],
            "values": {column.name: column.schema() for column in columns},
            "arrays": {column.name: {"type": "array", "items": column.schema()} for column in columns},
        }
        paths |= _filled(template["model_paths"], parts, values)
        schemas |= _filled(template["model_schemas"], parts, values)
    paths |= _filled(template["server_paths"], parts, {})
    values = {"version": __version__, "paths": paths, "schemas": schemas}
    found: dict[str, Any] = _filled(template["document"], parts, values)
    return found


@cache
def _template() -> dict[str, Any]:
    text = files("dplan.serving").joinpath("openapi.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _filled(node: Any, parts: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """Put parts of the template, which are filled in turn, and values, which are not, in the place of their names.

    Examples
    --------
    >>> parts = {"limit": {"most": "{n}"}, "errors": {"400": "{limit}"}}
    >>> _filled({"/{name}": {"200": "OK", "{errors}": {}}}, parts, {"name": "m", "n": 7})
    {'/m': {'200': 'OK', '400': {'most': 7}}}
    """
    if isinstance(node, dict):
        found: dict[str, Any] = {}
        for key, inner in node.items():
            if key[1:-1] in parts:  # the entries of a part
                found |= _filled(key, parts, values)
            else:
                found[key.format_map(values)] = _filled(inner, parts, values)
        return found
    if isinstance(node, list):
        return [_filled(inner, parts, values) for inner in node]
    if not isinstance(node, str):
        return node
    name = node[1:-1] if node.startswith("{") and node.endswith("}") else ""
    if name in parts:
        return _filled(parts[name], parts, values)
    return values[name] if name in values else node.format_map(values)
