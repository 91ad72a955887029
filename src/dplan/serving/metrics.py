"""What is measured: metrics for Prometheus, and one log line for each request."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dplan.serving.models import Results, Served
from dplan.serving.scoring import Answer

__all__ = ["DISCONNECTED", "Metrics", "RequestLog", "RequestNote", "log"]

log = logging.getLogger("dplan.serving")

DISCONNECTED = 499  # the status that nginx logs if a client leaves before it is answered


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ROWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
# Percentiles instead of scores: they mean the same for every model, and if the rows are like those of training, the
# share below each is known, so drift can be seen.
_PERCENTILES = (10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0)


class Metrics:
    """Counts requests, rows, alerts and percentiles, and times requests.

    Parameters
    ----------
    models : callable
        Returns the models that are served now.
    """

    def __init__(self, models: Callable[[], Mapping[str, Served]]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "dplan_requests", "Requests answered", ["endpoint", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "dplan_request_seconds", "Time to answer", ["endpoint"], buckets=_SECONDS, registry=self._registry
        )
        self._rows = Counter("dplan_rows", "Rows scored", ["model"], registry=self._registry)
        self._alerts = Counter("dplan_alerts", "Rows that are alerts", ["model"], registry=self._registry)
        self._reloads = Counter(
            "dplan_model_events", "Models loaded, replaced, removed", ["event"], registry=self._registry
        )
        for event in ("loaded", "replaced", "removed", "not loaded"):
            self._reloads.labels(event)  # 0 at first: an alert on an increase needs a value before it
        self._batches = Histogram(
            "dplan_batch_rows", "Rows scored together", buckets=_ROWS, registry=self._registry
        )
        self._percentiles: dict[str, tuple[NDArray[np.int64], float]] = {}
        self._registry.register(_Models(models, self._percentiles))

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(endpoint, status).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def scored(self, model: str, results: Results) -> None:
        """Count the rows of requests that were scored together."""
        found = [result for result in results if isinstance(result, Answer)]
        if not found:
            return
        percentiles = np.concatenate([result.percentile for result in found])
        self._batches.observe(len(percentiles))
        self._rows.labels(model).inc(len(percentiles))
        self._alerts.labels(model).inc(int(np.concatenate([result.alert for result in found]).sum()))
        counts, total = self._percentiles.get(model, (np.zeros(len(_PERCENTILES), dtype=np.int64), 0.0))
        places = np.searchsorted(_PERCENTILES, percentiles)
        self._percentiles[model] = (
            counts + np.bincount(places, minlength=len(_PERCENTILES)),
            total + float(percentiles.sum()),
        )

    def changed(self, event: str) -> None:
        """Count a model that was loaded, replaced, removed or could not be loaded."""
        self._reloads.labels(event.removeprefix("model ")).inc()

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self._registry)


class _Models(Collector):
    """What is known of each model: its digest, rows that wait, and the percentiles of its scores."""

    def __init__(
        self,
        models: Callable[[], Mapping[str, Served]],
        percentiles: Mapping[str, tuple[NDArray[np.int64], float]],
    ) -> None:
        self._models, self._percentiles = models, percentiles

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily(
            "dplan_model_info", "The models that are served", labels=["model", "digest", "detector"]
        )
        waiting = GaugeMetricFamily("dplan_waiting_rows", "Rows that wait to be scored", labels=["model"])
        for name, served in self._models().items():
            info.add_metric([name, served.digest, type(served.model.detector).__name__], 1)
            waiting.add_metric([name], served.batcher.rows_waiting)
        found = HistogramMetricFamily(
            "dplan_percentile", "Percentiles of the scores among the training rows", labels=["model"]
        )
        for name, (counts, total) in self._percentiles.items():
            below = np.cumsum(counts).tolist()
            buckets = [(str(edge), n) for edge, n in zip(_PERCENTILES, below, strict=True)]
            found.add_metric([name], [*buckets, ("+Inf", below[-1])], total)
        yield from (info, waiting, found)


@dataclass
class RequestNote:
    """What an endpoint notes about a request, for the log: the model and the number of rows."""

    model: str = ""
    rows: int = 0


class RequestLog:
    """Times every request, and writes one log line about it, without the contents of rows.

    Parameters
    ----------
    app : ASGI application
        The application behind it.
    answered : callable
        Called with endpoint, status and seconds of each request.
    """

    def __init__(self, app: ASGIApp, answered: Callable[[str, int, float], object]) -> None:
        self._app, self._answered = app, answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        note = scope["dplan"] = RequestNote()
        status = DISCONNECTED

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception as error:  # a bug; the application has answered with 500
            # Without the message, which could contain values of rows.
            log.error("error", extra={"fields": {"error": type(error).__name__, "at": _place(error)}})
        finally:
            seconds = time.perf_counter() - started
            endpoint = getattr(scope.get("endpoint"), "__name__", "other")
            self._answered(endpoint, status, seconds)
            if log.isEnabledFor(logging.INFO):
                fields = {"endpoint": endpoint, "status": status, "ms": round(seconds * 1e3, 2)}
                if note.model:
                    fields |= {"model": note.model, "rows": note.rows}
                log.info("request", extra={"fields": fields})


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
