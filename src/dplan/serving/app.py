"""The application: which path does what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import joblib
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from dplan._version import __version__
from dplan.rules.file import RuleFile
from dplan.serving import openapi, protocols
from dplan.serving.metrics import DISCONNECTED, Metrics, RequestLog, log
from dplan.serving.models import Limits, Models, QueueFullError, Served
from dplan.serving.protocols import error_response, json_response
from dplan.serving.rows import JsonTable, RequestRows, TooManyRowsError
from dplan.serving.scoring import INVALID, Answer, explain, score
from dplan.web import Bearer, Guard, receive_body

__all__ = ["Service"]

# Bytes. Larger bodies are parsed in threads, so that small requests need not wait, and scored by the same threads: they
# gain nothing from being put together with others. More threads would wait for each other, as parsing is Python's.
_LARGE = 1 << 15
_LARGE_AT_ONCE = min(2, joblib.cpu_count())
_WAITING = 4  # times the largest body
_OPEN_PATHS = ("/ping", "/v2/health/live", "/v2/health/ready")  # of probes, which send no token
_REFRESH_SECONDS = 1.0


class Service:
    """A scoring service.

    Parameters
    ----------
    source : path
        A model file, or a folder of them.
    limits : Limits
        Limits of the server.
    token : str, optional
        Token that requests must have.
    local : bool
        Whether only requests to this machine's own names are answered.
    novelty : bool
        Whether answers tell how novel rows are.
    kinds : RuleFile, optional
        Kinds that answers tell; rows of a muted kind are no alerts.

    Attributes
    ----------
    models : Models
        The models that are served.
    app : ASGI application
        The application.
    """

    def __init__(
        self,
        source: Path,
        limits: Limits,
        *,
        token: str | None = None,
        local: bool = False,
        novelty: bool = False,
        kinds: RuleFile | None = None,
    ) -> None:
        self.limits = limits
        self._scoring, self._explaining = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._scoring_large = ThreadPoolExecutor(_LARGE_AT_ONCE)
        self._rows_explaining = self._bytes_waiting = 0
        self._metrics = Metrics(lambda: self.models.current)
        self.models = Models(source, limits, self._scoring, self._metrics.scored, novelty, kinds)
        self.refresh()
        starlette = Starlette(
            routes=self._routes(),
            lifespan=self._lifespan,
            exception_handlers={HTTPException: _http_error, Exception: _bug},
        )
        guard = Guard(
            starlette,
            None if token is None else Bearer(token, _OPEN_PATHS),
            error_response,
            hosts=() if local else None,
        )
        self.app: ASGIApp = RequestLog(guard, self._metrics.answered)

    def refresh(self) -> None:
        """Load models that are new or were replaced."""
        for event in self.models.refresh():
            self._metrics.changed(event.event)
            fields = {"model": event.name, "digest": event.digest, "error": event.error}
            level = log.warning if event.error else log.info
            level(event.event, extra={"fields": {key: text for key, text in fields.items() if text}})

    def _routes(self) -> list[Route]:
        post, v2 = ["POST"], "/v2/models/{name}"
        return [
            Route("/score", self.score, methods=post),
            Route("/explain", self.explain, methods=post),
            Route("/models/{name}/score", self.score, methods=post),
            Route("/models/{name}/explain", self.explain, methods=post),
            Route("/invocations", self.invocations, methods=post),
            Route("/models/{name}/invocations", self.invocations, methods=post),
            Route(f"{v2}/infer", self.infer, methods=post),
            Route(v2, self.model_metadata),
            Route(f"{v2}/ready", self.model_ready),
            Route("/v2", self.server_metadata),
            Route("/v2/health/live", self.health),
            Route("/v2/health/ready", self.health),
            Route("/ping", self.health),
            Route("/version", self.version),
            Route("/models", self.list_models),
            Route("/metrics", self.metrics),
            Route("/openapi.json", self.openapi),
        ]

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async def watch() -> None:
            while True:
                await asyncio.sleep(_REFRESH_SECONDS)
                try:
                    await run_in_threadpool(self.refresh)
                except Exception as error:  # such as a folder that cannot be read for a moment
                    log.warning("models not refreshed", extra={"fields": {"error": type(error).__name__}})

        watching = asyncio.create_task(watch())
        yield
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        for pool in (self._scoring, self._scoring_large, self._explaining):
            pool.shutdown()

    async def score(self, request: Request) -> Response:
        """Score rows."""
        return await self._answer(request, protocols.plain, protocols.as_scores)

    async def explain(self, request: Request) -> Response:
        """Score rows and give the reasons for each."""
        return await self._answer(request, protocols.plain, protocols.as_scores, explained=True)

    async def invocations(self, request: Request) -> Response:
        """Score rows for clients of MLflow and SageMaker."""
        return await self._answer(request, protocols.invocation, protocols.as_invocation)

    async def infer(self, request: Request) -> Response:
        """Score rows for clients of the Open Inference Protocol."""
        if "inference-header-content-length" in request.headers:
            return error_response(415, "binary tensors are not supported; send the data as JSON")
        tensors: list[protocols.Tensors] = []
        outputs = protocols.outputs_of(self._served(request))

        def read(body: Any) -> JsonTable:
            tensors.append(protocols.Tensors(body, outputs))
            return tensors[0].table

        return await self._answer(
            request, read, lambda served, found: tensors[0].response(served, found), csv=False
        )

    async def model_metadata(self, request: Request) -> Response:
        """Return the inputs and outputs of a model."""
        return json_response(protocols.Tensors.metadata(self._served(request)))

    async def model_ready(self, request: Request) -> Response:
        """Return whether a model is loaded."""
        return json_response({"name": self._served(request).name, "ready": True})

    async def server_metadata(self, request: Request) -> Response:
        """Return name and version of the server."""
        return json_response({"name": "dplan", "version": __version__, "extensions": []})

    async def health(self, request: Request) -> Response:
        """Return whether the server works."""
        if not self.models.current:
            return error_response(503, "no model is loaded")
        return json_response({"live": True, "ready": True})

    async def version(self, request: Request) -> Response:
        """Return the version of dplan."""
        return Response(__version__, media_type="text/plain")

    async def list_models(self, request: Request) -> Response:
        """List the models."""
        found = [
            {
                "name": served.name,
                "digest": served.digest,
                "detector": type(served.model.detector).__name__,
                "threshold": served.model.threshold,
                "columns": served.model.columns,
            }
            for served in self.models.current.values()
        ]
        return json_response({"models": found})

    async def metrics(self, request: Request) -> Response:
        """Return the metrics for Prometheus."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """Describe all of this."""
        return json_response(openapi.document(self.models.current, self.limits))

    async def _answer(
        self,
        request: Request,
        read: Callable[[Any], JsonTable],
        response: Callable[[Served, Answer], dict[str, Any]],
        *,
        explained: bool = False,
        csv: bool = True,
    ) -> Response:
        """Score the rows of a request."""
        served = self._served(request)
        reader, note = served.batcher.reader, request.scope["dplan"]
        note.model = served.name

        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()

        def rows_of(body: bytes) -> RequestRows:
            if csv and content_type == "text/csv":
                rows = reader.read_csv(body)
            else:
                reader.check_size(body)
                decoder = reader.decoder if csv and not explained else None
                rows = reader.read(read(protocols.json_of(body, decoder, or_csv=csv)), exactly=explained)
            note.rows = rows.height
            return rows

        try:
            body = await receive_body(request, self.limits.body, self.limits.seconds, hint="; see --max-body")
            if len(body) > _LARGE:
                found = await self._large(served, body, rows_of, explained)
            else:
                rows = rows_of(body)
                found = await (self._explain(served, rows) if explained else served.batcher.score(rows))
        except protocols.MalformedError as error:
            return error_response(400, str(error))
        except TooManyRowsError as error:
            return error_response(413, str(error))
        except QueueFullError:
            return _busy()
        except INVALID as error:
            return error_response(422, " ".join(str(error).split()))
        except ClientDisconnect:
            return error_response(DISCONNECTED, "the client has left")
        return json_response(response(served, found))

    async def _large(
        self, served: Served, body: bytes, rows_of: Callable[[bytes], RequestRows], explained: bool
    ) -> Answer:
        """Parse and score a request in one of the threads for large ones."""
        if self._bytes_waiting and self._bytes_waiting + len(body) > _WAITING * self.limits.body:
            raise QueueFullError
        run = partial(asyncio.get_running_loop().run_in_executor, self._scoring_large)
        self._bytes_waiting += len(body)
        try:
            if explained:
                return await self._explain(served, await run(rows_of, body))
            (found,) = await run(lambda: score(served.batcher.reader, [rows_of(body)]))
        finally:
            self._bytes_waiting -= len(body)
        if isinstance(found, Exception):
            raise found
        self._metrics.scored(served.name, [found])
        return found

    async def _explain(self, served: Served, rows: RequestRows) -> Answer:
        """Explain rows in a thread of their own, because that takes long; scoring goes on."""
        if rows.height > self.limits.explained:
            raise TooManyRowsError(
                f"{rows.height:,} rows to explain, the limit is {self.limits.explained:,}; split the request, "
                "or raise --max-explained"
            )
        if self._rows_explaining + rows.height > 10 * self.limits.explained:
            raise QueueFullError
        self._rows_explaining += rows.height
        try:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._explaining, explain, served.batcher.reader, rows)
            self._metrics.scored(served.name, [found])
            return found
        finally:
            self._rows_explaining -= rows.height

    def _served(self, request: Request) -> Served:
        models, name = self.models.current, request.path_params.get("name")
        if not models:
            raise HTTPException(503, "no model is loaded")
        if name is None and len(models) == 1:
            return next(iter(models.values()))
        if name is None:
            raise HTTPException(
                404, "several models are served; use /models/NAME/…, see /models for the names"
            )
        if name not in models:
            raise HTTPException(404, f"there is no model called {name!r}; see /models for the names")
        return models[name]


def _busy() -> Response:
    response = error_response(503, "too many rows are waiting to be scored; try again")
    response.headers["Retry-After"] = "1"
    return response


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = error.headers or {}
    allowed = sorted(headers["Allow"].split(", ")) if "Allow" in headers else []
    hint = f"; use {' or '.join(allowed)}" if allowed else ""
    if "endpoint" not in request.scope:
        hint = "; see /openapi.json for the paths"
    response = error_response(error.status_code, error.detail + hint)
    response.headers.update(headers)
    return response


async def _bug(request: Request, error: Exception) -> Response:
    return error_response(500, "internal error; see the log of the server")
