"""Run the page's server, until it is told to stop."""

from __future__ import annotations

import secrets
import threading
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn
from starlette.responses import PlainTextResponse

from dplan.review.app import create_app
from dplan.review.export import ReviewFiles, export_labels
from dplan.review.log import VerdictLog, label_of
from dplan.review.rounds import RoundMaker
from dplan.review.session import Session
from dplan.review.table import TableFile
from dplan.review.worker import Worker
from dplan.web import PAGE_HEADERS, Cookie, Guard, listen, names_of

__all__ = ["Review"]


class Review:
    """A review page that is being served; also a context manager that closes it.

    Attributes
    ----------
    url : str
        The link to the page, with the token.
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
    ) -> None:
        self.table, self._scratch = table, scratch
        files = ReviewFiles.of(table.path, model, log=log, model_out=model_out, labels_out=labels_out)
        self.log, self.model_path, self.labels_out = files.log, files.model, files.labels
        self._socket, address = listen(host, port)
        try:
            self._verdicts = VerdictLog(self.log)
        except OSError:
            self._socket.close()
            raise
        self._worker: Worker | None = None
        if maker is None:
            self._worker = worker or Worker()
            maker = self._worker.begin(table, model, drop=drop, seed=seed)
        self.session = Session(
            maker,
            self._verdicts,
            refit_every=refit_every,
            who=who,
            on_refit=lambda new: new.write_model(self.model_path),
        )
        token = secrets.token_urlsafe(24)
        # An address that means all interfaces is not one that a browser can open.
        reachable = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        self.url = f"{reachable}/?token={token}"
        app = Guard(
            create_app(self.session, self.write_results),
            Cookie(token, "dplan-review"),
            lambda status, message: PlainTextResponse(message + "\n", status),
            hosts=names_of(host),
            headers=PAGE_HEADERS,
        )
        config = uvicorn.Config(
            app, ws="none", log_level="warning", access_log=False, timeout_graceful_shutdown=1
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

    def show(self) -> None:
        """Open the page in a browser."""
        with suppress(webbrowser.Error):
            webbrowser.open(self.url)

    def labels(self) -> dict[str, str]:
        """Return the label of each reviewed row, by its id."""
        current = self._verdicts.verdicts.current
        return {", ".join(key.ids): label_of(record) for key, record in current.items()}

    def write_results(self) -> list[str]:
        """Write the labels, if asked for; return the files with results."""
        written = [f"verdicts: {self.log}"]
        if self.session.base is None:
            return written
        if self.model_path.exists() and self.session.round.number:
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
        self._socket.close()
        if self._worker is not None:
            self._worker.close()
        if self._opening.is_alive():
            self._opening.join(5)
        self._verdicts.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def __enter__(self) -> Review:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank" rel="noreferrer">Open the review page</a>'

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
