"""Request and response bodies: our own, MLflow's and the Open Inference Protocol's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

import msgspec
import orjson
from starlette.responses import Response

from dplan.serving.models import Served
from dplan.serving.rows import JsonTable
from dplan.serving.scoring import Answer
from dplan.text import shown

__all__ = [
    "MalformedError",
    "Tensors",
    "as_invocation",
    "as_scores",
    "error_response",
    "invocation",
    "json_of",
    "json_response",
    "plain",
]

_ACCEPTED = {
    *("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
    *("FP16", "FP32", "FP64", "BYTES"),
}
_OUTPUTS = {"score": "FP64", "percentile": "FP64", "alert": "BOOL"}


class MalformedError(ValueError):
    """A request does not have the form of its protocol."""


def json_response(content: object, status: int = 200) -> Response:
    """Return a response with JSON; arrays are written with the digits that read back to the same bits."""
    return Response(
        orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), status, None, "application/json"
    )


def error_response(status: int, message: str) -> Response:
    """Return a response with an error message."""
    return json_response({"error": message}, status)


def json_of(body: bytes, decoder: msgspec.json.Decoder[Any] | None = None, *, or_csv: bool = True) -> Any:
    """Parse JSON, with a decoder of its own types if it accepts the body; `or_csv` tells whether CSV is possible too.

    Examples
    --------
    >>> json_of(b"[1, 2]")
    [1, 2]
    """
    if not body.strip():
        raise MalformedError("the body is empty, expected JSON")
    if decoder is not None:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return decoder.decode(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = f"the body is not valid JSON: {error}"
        if error.doc.startswith(("NaN", "Infinity", "-Infinity"), error.pos):
            message += "; write null for a missing value"
        elif or_csv and not body.lstrip().startswith((b"[", b"{")):
            message += "; for CSV, send the header  Content-Type: text/csv"
        raise MalformedError(message) from None


def plain(body: Any) -> JsonTable:
    """Return the rows of a request to /score or /explain.

    Examples
    --------
    >>> plain([{"amount": 7}]), plain({"columns": {"amount": [7]}})
    ([{'amount': 7}], {'amount': [7]})
    """
    match body:
        case list(rows) | {"rows": list(rows)}:
            return rows
        case {"columns": dict(columns)}:
            return columns
    raise MalformedError('expected an array of rows, {"rows": [{…}, …]} or {"columns": {"name": […], …}}')


def outputs_of(served: Served) -> dict[str, str]:
    """Return what a response says about each row, with the type of each tensor."""
    return _OUTPUTS | ({"novelty": "FP64"} if served.batcher.reader.scorer.novelty else {})


def as_scores(served: Served, found: Answer) -> dict[str, Any]:
    """Return the response of /score and /explain."""
    result: dict[str, Any] = {
        "model": served.name,
        "digest": served.digest,
        "threshold": served.model.threshold,
        "score": found.score,
        "percentile": found.percentile,
        "alert": found.alert,
    }
    more = {"novelty": found.novelty, "kind": found.kind, "reasons": found.reasons}
    return result | {name: values for name, values in more.items() if values is not None}


def invocation(body: Any) -> JsonTable:
    """Return the rows of a request to /invocations.

    Examples
    --------
    >>> invocation({"dataframe_split": {"columns": ["a", "b"], "data": [[1, 2], [3, 4]]}})
    {'a': [1, 3], 'b': [2, 4]}
    """
    match body:
        case {"dataframe_split": {"columns": list(names), "data": list(data)}}:
            return _columns(names, data)
        case {"dataframe_records": list(rows)} | {"instances": list(rows)}:
            return rows
        case {"inputs": dict(columns)}:
            return columns
    raise MalformedError(
        'expected {"dataframe_split": {"columns": […], "data": [[…], …]}}, {"dataframe_records": [{…}, …]}, '
        '{"instances": [{…}, …]} or {"inputs": {"name": […], …}}'
    )


def _columns(names: list[Any], data: list[Any]) -> dict[str, Any]:
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise MalformedError("dataframe_split: the column names must be different strings")
    for number, row in enumerate(data, start=1):
        if not isinstance(row, list) or len(row) != len(names):
            raise MalformedError(f"dataframe_split: row {number} is not an array of {len(names)} values")
    values = zip(*data, strict=True) if data else ([] for _ in names)
    return {name: list(column) for name, column in zip(names, values, strict=True)}


def as_invocation(served: Served, found: Answer) -> dict[str, Any]:
    """Return the response of /invocations: one record per row, as MLflow's own server does."""
    names = outputs_of(served)
    columns = [getattr(found, name).tolist() for name in names]
    return {"predictions": [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]}


class Tensors:
    """A request of the Open Inference Protocol: one named tensor per column.

    Examples
    --------
    >>> body = {"inputs": [{"name": "amount", "datatype": "FP64", "shape": [2, 1], "data": [[7.0], [8.0]]}]}
    >>> Tensors(body).table
    {'amount': [7.0, 8.0]}
    """

    def __init__(self, body: Any, available: Mapping[str, str] = _OUTPUTS) -> None:
        match body:
            case {"inputs": [_, *_] as inputs}:
                self.table: dict[str, list[Any]] = {}
            case _:
                raise MalformedError('expected {"inputs": [{"name", "shape", "datatype", "data"}, …]}')
        for tensor in inputs:
            name, values = _tensor(tensor)
            if name in self.table:
                raise MalformedError(f"there are two inputs called {shown(name)}")
            self.table[name] = values
        self._id = body.get("id")
        if not isinstance(self._id, str | None):
            raise MalformedError('"id" must be a string')
        self._outputs = {name: available[name] for name in _wanted(body.get("outputs"), available)}

    def response(self, served: Served, found: Answer) -> dict[str, Any]:
        """Return the response: one tensor per output that was asked for."""
        outputs = [
            {
                "name": name,
                "datatype": datatype,
                "shape": [len(found.score)],
                "data": getattr(found, name),
            }
            for name, datatype in self._outputs.items()
        ]
        id_ = {} if self._id is None else {"id": self._id}
        return {"model_name": served.name, "model_version": served.version, **id_, "outputs": outputs}

    @staticmethod
    def metadata(served: Served) -> dict[str, Any]:
        """Return the inputs and outputs of a model."""
        columns = served.model.preparation.columns_
        inputs = [(column.name, column.datatype) for column in columns]
        found = {
            kind: [{"name": name, "datatype": datatype, "shape": [-1]} for name, datatype in tensors]
            for kind, tensors in (("inputs", inputs), ("outputs", outputs_of(served).items()))
        }
        return {"name": served.name, "versions": [served.version], "platform": "dplan", **found}


def _tensor(tensor: Any) -> tuple[str, list[Any]]:
    match tensor:
        case {"name": str(name), "datatype": str(datatype), "shape": list(shape), "data": list(data)}:
            pass
        case {"name": str(name)}:
            _refuse(name, "expected a name, a datatype, a shape and data as a JSON array")
        case _:
            raise MalformedError("an input has no name")
    if datatype not in _ACCEPTED:
        _refuse(name, f"unknown datatype {shown(datatype)}")
    if len(shape) not in (1, 2) or not all(type(n) is int for n in shape) or shape[1:] not in ([], [1]):
        _refuse(name, "expected the shape [n] or [n, 1]: one value per row")
    nested = list in set(map(type, data))
    values = [value for row in data for value in (row if type(row) is list else [row])] if nested else data
    if len(values) != shape[0]:
        _refuse(name, f"{len(values)} values do not have the shape {shown(shape)}")
    return name, values


def _wanted(outputs: Any, available: Mapping[str, str]) -> list[str]:
    if outputs is None:
        return list(available)
    if not isinstance(outputs, list) or not outputs:
        raise MalformedError('"outputs" must be an array such as [{"name": "score"}]')
    names: list[str] = []
    for entry in outputs:
        name = entry.get("name") if isinstance(entry, Mapping) else entry
        if not isinstance(name, str) or name not in available:
            raise MalformedError(f"unknown output {shown(name)}; available: {', '.join(available)}")
        if name in names:  # a small request would get a large answer
            raise MalformedError(f"there are two outputs called {shown(name)}")
        names.append(name)
    return names


def _refuse(name: str, problem: str) -> NoReturn:
    raise MalformedError(f"input {shown(name)}: {problem}")
