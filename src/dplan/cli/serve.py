"""``dplan serve``: score rows over HTTP."""

from __future__ import annotations

from pathlib import Path

import click

from dplan.cli._options import FILE, count
from dplan.cli._terminal import echo, examples
from dplan.exceptions import needs

_PACKAGES = ("starlette", "uvicorn", "orjson", "msgspec", "prometheus-client")


@click.command(
    short_help="Serve a model over HTTP.",
    epilog=examples(
        "dplan serve fraud.dplan",
        "dplan serve models/ --port 8080",
        "DPLAN_TOKEN=secret dplan serve fraud.dplan --host 0.0.0.0",
        'curl localhost:8000/score -d \'[{"amount": 920, "country": "FR"}]\'',
    ),
)
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for the network."
)
@count("--port", 8000, "Port; 0 for a free one.", lowest=0, highest=65535)
@click.option(
    "--token-file",
    type=FILE,
    help="File with the bearer token that requests must send.  [default: $DPLAN_TOKEN, or no token]",
)
@count("--max-body", 16, "Megabytes of a request.")
@count("--max-rows", 10_000, "Rows of a request to score.")
@count("--max-explained", 100, "Rows of a request to explain.")
@count("--max-waiting", 50_000, "Rows that may wait to be scored; further requests get the status 503.")
@click.option(
    "--timeout",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Time to receive a request.",
)
@click.option(
    "--novelty",
    is_flag=True,
    help="Answer how unlike the training rows each row is, from 0 to 100, whatever the labels say.",
)
@click.option(
    "--kinds",
    type=FILE,
    metavar="FILE",
    help="Answer the kind of each alert, by the rules of a file from dplan kinds; rows of muted kinds are no alerts.",
)
@click.option("--quiet", is_flag=True, help="Do not log requests.")
def serve(
    model: Path,
    host: str,
    port: int,
    token_file: Path | None,
    max_body: int,
    max_rows: int,
    max_explained: int,
    max_waiting: int,
    timeout: float,
    novelty: bool,
    kinds: Path | None,
    quiet: bool,
) -> None:
    """Serve MODEL, a model file or a folder of .dplan files, over HTTP.

    POST rows to /score or /explain; /openapi.json describes everything. Clients of MLflow, SageMaker and the Open
    Inference Protocol (v2) work unchanged, and Prometheus reads /metrics. A model is loaded again when its file is
    replaced. SIGTERM and Ctrl-C finish the requests under way. The log, on standard error, is JSON lines and never
    contains values of rows.
    """
    import os

    from dplan.rules.file import RuleFile

    try:
        from dplan.serving.models import Limits
        from dplan.serving.server import serve as run
    except ModuleNotFoundError as error:
        raise needs("dplan serve", *_PACKAGES) from error

    token = token_file.read_text(encoding="utf-8").strip() if token_file else os.environ.get("DPLAN_TOKEN")
    if token == "":
        raise click.UsageError("the token is empty")
    run(
        model,
        host,
        port,
        Limits(max_body * 1_000_000, max_rows, max_explained, max_waiting, timeout),
        token=token,
        quiet=quiet,
        novelty=novelty,
        kinds=None if kinds is None else RuleFile.load(kinds),
        started=lambda url, names: echo(f"Serving {', '.join(names)} on {url} (see {url}/openapi.json)."),
    )
