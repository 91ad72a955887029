"""``dplan review``: a page to label the most suspicious rows, on which the detector learns."""

from __future__ import annotations

import getpass
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dplan.cli import _options
from dplan.cli._options import FILE, OUTPUT, Table, count, given, grouped, repeated
from dplan.cli._terminal import echo, examples, progress_bar, stopwatch
from dplan.exceptions import needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from dplan.review.server import Review
    from dplan.review.table import TableFile
    from dplan.tables.model import TableModel


class Simulation(NamedTuple):
    """A review without a person: the column that answers, its words for anomalies, and when to stop."""

    simulate: str | None
    anomaly: tuple[str, ...]
    verdicts: int


@click.command(
    short_help="Label the most suspicious rows on a page, and let the detector learn.",
    epilog=examples(
        "dplan review fraud.dplan june.csv --target 40",
        "dplan review",
        "dplan review june.csv --id payment_id --labels-out june-labels.csv",
        "dplan review forest.dplan forest-new.csv --simulate truth",
    ),
)
@click.argument(
    "files",
    nargs=-1,
    type=Table(exists=True, dir_okay=False, path_type=Path),
    metavar="[[MODEL] TABLE]",
)
@_options.ids
@repeated("--drop", "COLUMN", "Column to ignore, without MODEL")
@grouped(
    "files_out",
    dict,
    click.option(
        "--log",
        type=OUTPUT,
        help="Log of verdicts, continued if it exists.  [default: beside MODEL or TABLE]",
    ),
    click.option("--model-out", type=OUTPUT, help="Updated model.  [default: MODEL or TABLE with -reviewed]"),
    click.option("--labels-out", type=OUTPUT, help="Write TABLE with a column of verdicts here at the end."),
)
@count("--every", 10, "Verdicts between two refits.", lowest=0)
@grouped(
    "page",
    dict,
    click.option("--who", default="", help="Name of the reviewer in the log.  [default: your login name]"),
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option(
        "--port",
        default=0,
        type=click.IntRange(0, 65535),
        help="Port to listen on.  [default: as last time, or any free one]",
    ),
    repeated("--name", "HOST", "Name under which a proxy serves the page", "names"),
    click.option(
        "--target",
        type=click.IntRange(0),
        help="Rows to decide per day, 0 for none.  [default: as last time]",
    ),
    click.option(
        "--kinds",
        type=FILE,
        metavar="FILE",
        help="Group the queue by the rules of a file from dplan kinds; rows of muted kinds are left out.  "
        "[default: as last time]",
    ),
    click.option("--no-browser", is_flag=True, help="Only print the link."),
)
@grouped(
    "simulation",
    Simulation,
    click.option(
        "--simulate",
        metavar="LABEL",
        help="Let the column LABEL answer instead of a person; log and model are called -simulated.",
    ),
    repeated("--anomaly", "VALUE", "With --simulate: label of anomalies"),
    count("--verdicts", 100, "With --simulate: how many."),
)
@_options.seed
@_options.reading
def review(
    files: tuple[Path, ...],
    ids: tuple[str, ...],
    drop: tuple[str, ...],
    files_out: dict[str, Any],
    every: int,
    page: dict[str, Any],
    simulation: Simulation,
    seed: int,
    reading: _options.Reading,
) -> None:
    """Review the most suspicious rows of TABLE on a local page, and let the detector learn from the verdicts.

    Without MODEL, the review begins with an isolation forest. Every verdict is saved at once; running the same command
    again continues the review. Without TABLE, the review that was begun in this folder continues with the newest table
    of the same columns and with what was learned. The page is served on this machine only, at the same address each
    day, behind a link with a secret token; a second link is for reading only.
    """
    from dplan.review.worker import Worker

    if len(files) > 2:
        raise click.UsageError("expected [MODEL] TABLE")
    if not files:
        files, ids, kept_files = _continued(ids)
        if simulation.simulate is None:
            files_out = {name: files_out[name] or kept_files.get(name) for name in files_out}
    model, path = (files[0], files[1]) if len(files) == 2 else (None, files[0])
    if hasattr(model, "url"):
        raise click.UsageError("expected [MODEL] TABLE; a model is a file")
    if hasattr(path, "url") and model is None and not (files_out["log"] and files_out["model_out"]):
        raise click.UsageError("a review of a database without MODEL needs --log and --model-out")
    if drop and model is not None:
        raise click.UsageError("--drop is for a review without MODEL")
    if simulation.simulate is not None:
        if options := given("who", "host", "port", "names", "target", "kinds", "no_browser"):
            raise click.UsageError(f"--simulate shows no page, so it cannot be combined with {options}")
        table, loaded = _opened(path, ids, model, reading)
        _simulate(table, model, loaded, simulation, files_out, every, drop, seed)
        return
    if options := given("anomaly", "verdicts"):
        raise click.UsageError(f"{options}: only with --simulate")
    # The process that scores starts at once: it and this one then import what they need at the same time.
    with stopwatch() as seconds, Worker() as worker:
        table, _ = _opened(path, ids, model, reading)
        _serve(
            table, model, seconds, **files_out, **page, refit_every=every, drop=drop, seed=seed, worker=worker
        )


def _continued(ids: tuple[str, ...]) -> tuple[tuple[Path, ...], tuple[str, ...], dict[str, Path]]:
    """Return model and table, ids, log and updated model of the review that was begun in the current folder."""
    from dplan.review.folder import kept_in, newest_table

    try:
        kept = kept_in(Path())
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    table = newest_table(kept)
    files = (Path(kept.first), table) if kept.first else (table,)
    return files, ids or tuple(kept.ids), {"log": Path(kept.log), "model_out": Path(kept.model)}


def _opened(
    path: Path, ids: tuple[str, ...], model: Path | None, reading: _options.Reading
) -> tuple[TableFile, TableModel | None]:
    from dplan.review.table import as_file
    from dplan.tables.model import TableModel

    loaded = None if model is None else TableModel.load(model)
    return as_file(reading.table(path, loaded), ids or None, loaded, path.parent), loaded


def _serve(
    table: TableFile,
    model: Path | None,
    seconds: Callable[[], float],
    *,
    no_browser: bool,
    who: str,
    **options: Any,
) -> None:
    try:
        from dplan.review.server import Review
        from dplan.web import is_loopback
    except ModuleNotFoundError as error:
        raise needs("dplan review", "starlette", "uvicorn") from error

    if not who:
        with suppress(KeyError, OSError, ImportError):  # no such user, as in some containers
            who = getpass.getuser()
    with Review(table, model, who=who, continues=True, **options) as page:
        page.start()
        if page.moved:
            echo("Warning: the port of last time is in use, so the page has another address today.", err=True)
        if page.lost_kinds:
            echo(f"Warning: {page.lost_kinds} is gone, so the review goes on without kinds.", err=True)
        echo(f"Review page: {page.url}")
        echo(f"For reading only: {page.reading_url}")
        if page.start_model not in (None, model):
            echo(f"Continuing with what was learned before, and with {table.path.name}.")
        echo(f"Verdicts are saved to {page.log}.")
        if not is_loopback(options["host"]):
            echo(
                f"Warning: --host {options['host']} lets other machines connect, and the connection is not encrypted: "
                "whoever has the link, or listens, sees the table. Put a proxy with TLS in front.",
                err=True,
            )
        if not no_browser:
            page.open()
        page.wait_until_opened()
        current = page.session.round
        echo(
            f"Opened {table.path.name}: {len(current.scores):,} rows, in {seconds():.1f} s. Stop with Ctrl-C."
        )
        if page.session.unmatched:
            echo(
                "Warning: earlier verdicts about rows that are not in the table or have changed: "
                f"{page.session.unmatched:,}.",
                err=True,
            )
        try:
            page.wait()
        except KeyboardInterrupt:  # as documented
            _learn_the_rest(page)
            _write(page)
        except SystemExit:
            _write(page)
            raise


def _learn_the_rest(page: Review) -> None:
    """Learn from the last verdicts, so that tomorrow begins with them."""
    waiting = page.session.since_refit
    if not page.session.refit_every or not waiting or page.session.base is None:
        return
    echo(
        f"Learning from the last {waiting:,} verdict{'s' if waiting > 1 else ''}; press Ctrl-C again to skip it."
    )
    try:
        page.session.refit(wait=True)
    except KeyboardInterrupt:
        pass
    except RuntimeError as error:
        echo(f"Warning: the detector has not learned from them: {error}", err=True)


def _write(page: Review) -> None:
    for line in page.write_results():
        echo(line[0].upper() + line[1:])


def _simulate(
    table: TableFile,
    model: Path | None,
    loaded: TableModel | None,
    simulation: Simulation,
    files_out: dict[str, Any],
    every: int,
    drop: tuple[str, ...],
    seed: int,
) -> None:
    from dplan.persistence.claim import claimed
    from dplan.review.engine import Engine
    from dplan.review.export import export_labels
    from dplan.review.folder import ReviewFiles
    from dplan.review.log import VerdictLog
    from dplan.review.session import Session
    from dplan.review.simulation import answers_of, check_simulated, simulate
    from dplan.tables.words import Words, words_of

    label, anomaly, n_verdicts = simulation
    assert label is not None
    words = Words(anomaly) if anomaly else words_of(loaded)
    truth: list[str] = []
    for _, _, frame in table.chunks():
        if label not in frame.columns:
            raise ValueError(f"{table.path.name} has no column {label!r}")
        truth += answers_of(frame[label], words)
    files = ReviewFiles.of(table.path, model, simulated=True, **files_out)
    with (
        claimed(files.model),
        VerdictLog(files.log) as verdicts,
        stopwatch() as seconds,
        progress_bar() as bar,
    ):
        check_simulated(verdicts)
        engine = Engine(table, loaded, drop=[*drop, label], seed=seed)
        session = Session(
            engine,
            verdicts,
            refit_every=every,
            who="simulation",
            save_model=lambda new, threshold: new.write_model(files.model, threshold),
        )
        session.open()
        base = session.round.rows.tolist()  # in the order of the model without feedback
        found = sum(record["verdict"] == "anomaly" for record in session.judged().values())
        for row in simulate(session, truth.__getitem__, n_verdicts):
            found += bool(truth[row])
            done = len(session.judged())
            bar("Reviewing", done, n_verdicts)
            if done % 10 == 0 or done == n_verdicts:
                without = sum(bool(truth[other]) for other in base[:done])
                word = "anomaly" if found == 1 else "anomalies"
                echo(f"{done:>5} verdicts: {found} {word} found; without feedback {without}.")
        model_name = files.model.name if files.model.exists() else "no model"
        echo(f"Wrote {files.log} and {model_name} in {seconds():.1f} s.")
        if files.labels is not None:
            export_labels(verdicts.records, table, files.labels)
            echo(f"Wrote {files.labels}.")
