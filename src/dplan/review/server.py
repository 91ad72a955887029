"""Run the page's server, until it is told to stop."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn
from starlette.responses import PlainTextResponse

from dplan.persistence.claim import claimed
from dplan.review.app import create_app
from dplan.review.export import export_labels
from dplan.review.folder import Kept, ReviewFiles, columns_of, start_of
from dplan.review.frame import Frame, framed
from dplan.review.log import VerdictLog, label_of
from dplan.review.rounds import KindFile, RoundMaker
from dplan.review.session import Session
from dplan.review.table import TableFile
from dplan.review.worker import Worker
from dplan.web import PAGE_HEADERS, Cookie, Guard, is_loopback, listen, names_of

__all__ = ["Review"]


class Review:
    """A review page that is being served; also a context manager that closes it. `dplan.review` makes it.

    Attributes
    ----------
    url, reading_url : str
        The link to the page, with the token, and one with which nothing can be changed.
    session : Session
        Its session.
    log : pathlib.Path
        The log of verdicts.
    model_path : pathlib.Path
        Where the updated model is written after each refit.

    Parameters
    ----------
    table : TableFile
        The table under review.
    model : path or None
        The model to begin with; None to begin without labels.
    log : path, optional
        The log; by default beside the model, or beside the table.
    model_out : path, optional
        The updated model; by default the name of the model or the table with ``-reviewed``.
    labels_out : path, optional
        Where labels are written at the end.
    host, port
        Address to listen on; port 0 for any free port.
    refit_every : int
        Verdicts between two refits.
    who : str
        Name of the reviewer.
    drop : sequence of str
        Columns to ignore if there is no model.
    seed : int
        Seed of the training.
    scratch : TemporaryDirectory, optional
        A folder that is removed at the end.
    maker : RoundMaker, optional
        Opens the table and learns; by default, a process of its own does that.
    worker : Worker, optional
        That process, if it was started before; it is ended with the page.
    kinds : path, optional
        A file of kinds, by which the queue is grouped; rows of muted kinds are not asked about. By default, as last
        time if the review continues.
    target : int
        Rows to decide per day; 0 for no target.
    names : sequence of str
        Names under which a proxy serves the page.
    continues : bool
        Keep model, table, port and tokens beside the log, and continue with them: tomorrow the page has the same
        address, and begins with what was learned today.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> import dplan
    >>> table = pl.DataFrame({"payment": ["a", "b", "c", "d"], "amount": [10, 12, 900, 11]})
    >>> folder = tempfile.TemporaryDirectory()
    >>> page = dplan.review(None, table, id="payment", log=f"{folder.name}/verdicts.jsonl", browser=False)
    >>> page.start().open()  # as `dplan.review` does by itself  # doctest: +SKIP
    >>> page.wait_until_opened()  # and raise the error if the table cannot be read
    >>> page.labels()  # nobody has judged a row yet
    {}
    >>> [one.split(":")[0] for one in page.write_results()]
    ['verdicts']
    >>> page.close()
    >>> page.wait()  # for as long as the page is served
    >>> folder.cleanup()
    """

    def __init__(
        self,
        table: TableFile,
        model: Path | None,
        *,
        log: Path | None = None,
        model_out: Path | None = None,
        labels_out: Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        refit_every: int = 10,
        who: str = "",
        drop: Sequence[str] = (),
        seed: int = 0,
        scratch: TemporaryDirectory[str] | None = None,
        maker: RoundMaker | None = None,
        worker: Worker | None = None,
        kinds: Path | None = None,
        target: int | None = None,
        names: Sequence[str] = (),
        continues: bool = False,
    ) -> None:
        self.table, self._scratch = table, scratch
        files = ReviewFiles.of(table.path, model, log=log, model_out=model_out, labels_out=labels_out)
        self.log, self.model_path, self.labels_out = files.log, files.model, files.labels
        with ExitStack() as undo:
            try:
                undo.enter_context(claimed(self.model_path))
            except BlockingIOError as error:
                raise BlockingIOError(f"{error}{_page_of(files.kept) if continues else ''}") from None
            self._verdicts = undo.enter_context(VerdictLog(self.log))
            before = Kept.read(files.kept) if continues else None
            kept = before or Kept()
            self._socket, address, self.moved = _listen(host, port, kept.port)
            undo.callback(self._socket.close)
            drop = drop or kept.drop
            self.lost_kinds = "" if kinds is not None or Path(kept.kinds).is_file() else kept.kinds
            if kinds is None and kept.kinds and not self.lost_kinds:
                kinds = Path(kept.kinds)
            found_kinds = KindFile(kinds)
            self.start_model = start_of(files, model, table.path, before) if continues else model
            kept = replace(
                kept, port=self._socket.getsockname()[1], target=kept.target if target is None else target
            )
            if continues:
                replace(
                    kept,
                    first=kept.first or str(model or ""),
                    start=str(self.start_model or ""),
                    table=str(table.path),
                    columns=columns_of(table.input),
                    ids=list(table.ids),
                    drop=list(drop),
                    log=str(files.log),
                    model=str(files.model),
                    kinds=str(kinds or ""),
                ).write(files.kept)
            self._held = undo.pop_all()
        self._worker: Worker | None = None
        if maker is None:
            self._worker = worker or Worker()
            maker = self._worker.begin(table, self.start_model, drop=drop, seed=seed)
        self.session = Session(
            maker,
            self._verdicts,
            refit_every=refit_every,
            who=who,
            kinds=found_kinds,
            save_model=lambda new, threshold: new.write_model(self.model_path, threshold),
        )
        self.session.target = kept.target
        # An address that means all interfaces is not one that a browser can open.
        reachable = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        self.url, self.reading_url = f"{reachable}/?token={kept.token}", f"{reachable}/?token={kept.reading}"
        self._admission, self._headers = Cookie(kept.token, "dplan-review", kept.reading), dict(PAGE_HEADERS)
        app = Guard(
            create_app(self.session, self.write_results, self.model_path.name),
            self._admission,
            lambda status, message: PlainTextResponse(message + "\n", status),
            hosts={*names_of(host), *names},
            headers=self._headers,
        )
        config = uvicorn.Config(
            app,
            http="h11",  # which limits the size of headers; the quicker parser does not
            ws="none",
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self.failure: BaseException | None = None
        self._opening = threading.Thread(target=self._open, daemon=True)

    def start(self) -> Review:
        """Serve the page, and open the table meanwhile."""
        self._serving.start()
        self._opening.start()
        return self

    def wait_until_opened(self) -> None:
        """Wait until the table is open; raise the error if it cannot be opened."""
        while self._opening.is_alive():
            self._opening.join(0.2)  # in short waits, or Ctrl-C is not handled
        if self.failure is not None:
            raise self.failure

    def wait(self) -> None:
        """Wait until the page is closed or the process is interrupted."""
        while self._serving.is_alive():
            self._serving.join(0.2)

    def open(self) -> None:
        """Open the page in a browser."""
        with suppress(webbrowser.Error):
            webbrowser.open(self.url)

    def show(self, height: int = 720, *, host: str = "localhost") -> Frame:
        """Return the page for a cell of a notebook, whose last line this is.

        The kernel must run on the machine of the browser. What the notebook stores opens nothing later.

        Parameters
        ----------
        height : int, default=720
            Height in pixels.
        host : {"localhost", "127.0.0.1"}
            By what name the address bar of the notebook calls this machine: cookies depend on it.

        Examples
        --------
        >>> import tempfile
        >>> import polars as pl
        >>> import dplan
        >>> table = pl.DataFrame({"payment": ["a", "b", "c", "d"], "amount": [10, 12, 900, 11]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with dplan.review(None, table, id="payment", log=f"{folder}/verdicts.jsonl", browser=False) as page:
        ...         page.show(height=500)._repr_html_().startswith('<iframe src="http://localhost:')
        True
        """
        if not is_loopback(host):
            raise ValueError(
                f"host must be localhost or 127.0.0.1, not {host!r}: a cell shows pages of this machine"
            )
        self._headers.update(framed(self._headers))
        return Frame(lambda: self._link(host), height)

    def _link(self, host: str) -> str:
        """Return a link that works once."""
        return f"http://{host}:{self._socket.getsockname()[1]}/?ticket={self._admission.ticket()}"

    def labels(self) -> dict[str, str]:
        """Return the label of each reviewed row, by its id; repeated ids are numbered, such as "p7 (2)"."""
        found: dict[str, str] = {}
        times: Counter[str] = Counter()
        for key, record in self._verdicts.verdicts.current.items():
            name = ", ".join(key.ids)
            times[name] += 1
            found[name if times[name] == 1 else f"{name} ({times[name]})"] = label_of(record)
        return found

    def write_results(self) -> list[str]:
        """Write the labels, if asked for; return the files with results."""
        written = [f"verdicts: {self.log}"]
        if self.session.base is None:
            return written
        if self.model_path.exists() and (
            self.session.round.number or self.session.threshold(self.session.round)
        ):
            written.append(f"updated model: {self.model_path}")
        if self.labels_out is not None:
            export_labels(self._verdicts.records, self.table, self.labels_out)
            written.append(f"labels: {self.labels_out}")
        return written

    def close(self) -> None:
        """Stop serving; verdicts are saved already."""
        self._server.should_exit = True
        if self._serving.is_alive():
            self._serving.join(5)
        if self._worker is not None:
            self._worker.close()
        if self._opening.is_alive():
            self._opening.join(5)
        self._held.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def __enter__(self) -> Review:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        link = self._link("127.0.0.1")  # not the token: notebooks are stored and shared
        return f'<a href="{link}" target="_blank" rel="noreferrer">Open the review page</a>'

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def _open(self) -> None:
        try:
            self.session.open()
        except BaseException as error:  # raised in the main thread, and shown on the page
            self.failure = error
            with self.session.lock:
                self.session.error = " ".join(str(error).split())
                self.session.stage = None
                self.session.version += 1


def _page_of(kept: Path) -> str:
    """Say where the page of a review is that is running, if that is known."""
    with suppress(OSError, ValueError):
        found = Kept.read(kept)
        if found is not None and found.port:
            return f"; if that is this review, its page is http://127.0.0.1:{found.port}/?token={found.token}"
    return ""


def _listen(host: str, port: int, before: int) -> tuple[socket.socket, str, bool]:
    """Listen on a port or, if none was given, where the page was before; also return whether that was not possible."""
    if port or not before:
        return *listen(host, port), False
    try:
        return *listen(host, before), False
    except OSError:
        return *listen(host, 0), True
