"""The OpenAPI document of a service, from the columns of its models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dplan._version import __version__
from dplan.columns.column import Column
from dplan.serving.models import Limits, Served

__all__ = ["document"]

Schema = dict[str, Any]

_NUMBERS = {"type": "array", "items": {"type": "number"}}
_FLAGS = {"type": "array", "items": {"type": "boolean"}}
_STRING = {"type": "string"}
_ERROR = {
    "description": "What is wrong with the request",
    "content": {
        "application/json": {
            "schema": {"type": "object", "properties": {"error": _STRING}, "required": ["error"]}
        }
    },
}
_INPUTS = {400: "not JSON", 401: "token", 404: "model", 408: "slow", 413: "large", 422: "rows", 503: "busy"}


def document(models: Mapping[str, Served], limits: Limits) -> Schema:
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
    paths: Schema = {}
    schemas: Schema = {}
    for name, served in models.items():
        schemas[f"{name}.Row"] = _row(served.model.preparation.columns_)
        schemas[f"{name}.Columns"] = _by_column(served.model.preparation.columns_)
        row, columns = (
            {"$ref": f"#/components/schemas/{_escaped(name)}.{kind}"} for kind in ("Row", "Columns")
        )
        prefix = "" if len(models) == 1 else f"/models/{name}"
        for what, most in (("score", limits.rows), ("explain", limits.explained)):
            rows = {"type": "array", "items": row, "minItems": 1, "maxItems": most}
            own = {
                "anyOf": [
                    rows,
                    {"type": "object", "properties": {"rows": rows}, "required": ["rows"]},
                    {"type": "object", "properties": {"columns": columns}, "required": ["columns"]},
                ]
            }
            paths[f"{prefix}/{what}"] = _post(f"{what} rows with {name}", own, _scores(what == "explain"))
        rows = {"type": "array", "items": row, "minItems": 1, "maxItems": limits.rows}
        invocation = {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"dataframe_records": rows},
                    "required": ["dataframe_records"],
                },
                {"type": "object", "properties": {"inputs": columns}, "required": ["inputs"]},
            ]
        }
        predictions = _object(predictions={"type": "array", "items": _object(
            score={"type": "number"}, percentile={"type": "number"}, alert={"type": "boolean"})})  # fmt: skip
        paths[f"{prefix}/invocations"] = _post("score rows, as MLflow does", invocation, predictions)
        paths[f"/v2/models/{name}/infer"] = _post("score tensors", _inference(), _object(
            model_name=_STRING, model_version=_STRING, outputs={"type": "array"}))  # fmt: skip
        for path in (f"/v2/models/{name}", f"/v2/models/{name}/ready"):
            paths[path] = _get("the model", {"type": "object"})
    for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/ping", "/models"):
        paths[path] = _get("the server", {"type": "object"})
    for path in ("/version", "/metrics"):
        paths[path] = _get("the server", _STRING, "text/plain")
    return {
        "openapi": "3.1.0",
        "info": {"title": "dplan", "version": __version__, "description": "Anomaly scores of rows."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _row(columns: list[Column]) -> Schema:
    properties = {column.name: column.schema() for column in columns}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _by_column(columns: list[Column]) -> Schema:
    properties = {column.name: {"type": "array", "items": column.schema()} for column in columns}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "description": "Arrays of the same length",
    }


def _scores(explained: bool) -> Schema:
    reasons = {"reasons": {"type": "array", "items": _STRING}} if explained else {}
    return _object(
        model=_STRING,
        digest=_STRING,
        threshold={"type": "number"},
        score=_NUMBERS,
        percentile=_NUMBERS,
        alert=_FLAGS,
        **reasons,
    )


def _inference() -> Schema:
    tensor = _object(
        name=_STRING,
        datatype=_STRING,
        shape={"type": "array", "items": {"type": "integer"}},
        data={"type": "array"},
    )
    return {
        "type": "object",
        "properties": {"id": _STRING, "inputs": {"type": "array", "items": tensor, "minItems": 1}},
        "required": ["inputs"],
    }


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _post(summary: str, body: Schema, response: Schema) -> Schema:
    content = {"application/json": {"schema": body}}
    errors = {str(status): {**_ERROR, "description": why} for status, why in _INPUTS.items()}
    operation = {
        "summary": summary,
        "security": [{}, {"token": []}],
        "requestBody": {"required": True, "content": content},
        "responses": {"200": _ok(response), **errors},
    }
    return {"post": operation}


def _get(summary: str, response: Schema, media_type: str = "application/json") -> Schema:
    return {"get": {"summary": summary, "responses": {"200": _ok(response, media_type), "401": _ERROR}}}


def _ok(schema: Schema, media_type: str = "application/json") -> Schema:
    return {"description": "OK", "content": {media_type: {"schema": schema}}}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
