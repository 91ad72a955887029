"""The review page: label the most suspicious rows of a table, let the detector learn, and look again."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dplan.review.server import Review
    from dplan.tables.model import TableModel

__all__ = ["review"]


def review(
    model: Any,
    table: Any,
    *,
    log: str | Path | None = None,
    labels: str | Path | None = None,
    model_out: str | Path | None = None,
    id: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
    port: int = 0,
    refit_every: int = 10,
    who: str = "",
    kinds: str | Path | None = None,
    browser: bool = True,
) -> Review:
    """Serve a page on this machine on which a person reviews the most suspicious rows of a table.

    The page is served in the background until `Review.close` is called or Python ends; verdicts are saved at once.

    Parameters
    ----------
    model : TableModel, TableDetector, path or None
        A fitted model of a table; None to begin without labels.
    table : path or frame
        The table to review: a file, a polars or pandas frame, or an Arrow table.
    log : path, optional
        The log of verdicts, which a later review continues. By default beside the model file, or beside the table's
        file, or ``review.verdicts.jsonl`` in the current folder.
    labels : path, optional
        Where `Review.write_results` writes the table with a column of verdicts.
    model_out : path, optional
        Where the updated model is written after each refit.
    id : str or sequence of str, optional
        Columns that identify a row; by default those of the model.
    drop : str or sequence of str
        Columns to ignore if there is no model.
    port : int, default=0
        Port to listen on; 0 for any free one.
    refit_every : int, default=10
        Verdicts after which the detector learns from them.
    who : str
        Name of the reviewer in the log.
    kinds : path, optional
        A file of kinds from `dplan.kinds`, by which the queue is grouped; rows of muted kinds are not asked about.
    browser : bool, default=True
        Whether to open the page in a browser.

    Returns
    -------
    Review
        The page: ``url`` is its link, ``show()`` puts it into a cell of a notebook, ``labels()`` has the verdicts so
        far, and ``close()`` ends it.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> import dplan
    >>> table = pl.DataFrame({"payment": ["a", "b", "c", "d"], "amount": [10, 12, 900, 11]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with dplan.review(None, table, id="payment", log=f"{folder}/verdicts.jsonl", browser=False) as page:
    ...         page.url.startswith("http://127.0.0.1:")
    True
    """
    from dplan.review.server import Review
    from dplan.review.table import as_file

    scratch = TemporaryDirectory(prefix="dplan-review-")
    try:
        model_file, loaded = _model_file(model, Path(scratch.name))
        columns = [id] if isinstance(id, str) else id
        found = as_file(table, columns, loaded, Path(scratch.name))
        in_memory = found.path.is_relative_to(scratch.name)
        default = None
        if in_memory and (model_file is None or model_file.is_relative_to(scratch.name)):
            default = Path("review.verdicts.jsonl")
        page = Review(
            found,
            model_file,
            log=Path(log) if log is not None else default,
            model_out=Path(model_out) if model_out is not None else default and Path("review-reviewed.dplan"),
            labels_out=None if labels is None else Path(labels),
            port=port,
            refit_every=refit_every,
            who=who,
            kinds=None if kinds is None else Path(kinds),
            drop=[drop] if isinstance(drop, str) else tuple(drop),
            scratch=scratch,
        ).start()
    except BaseException:
        scratch.cleanup()
        raise
    if browser:
        page.open()
    return page


def _model_file(model: Any, folder: Path) -> tuple[Path | None, TableModel | None]:
    """Return the file of a model, written to a folder if it is in memory, and the model."""
    from dplan.tables.model import TableModel

    if model is None:
        return None, None
    if isinstance(model, str | Path):
        return Path(model), TableModel.load(model)
    fitted = model.to_model() if hasattr(model, "to_model") else model
    if not isinstance(fitted, TableModel):
        raise TypeError(
            f"model must be a TableModel, a TableDetector, a model file or None, got {type(model).__name__}; "
            "fit one with dplan fit or TableDetector"
        )
    fitted.save(folder / "model.dplan")
    return folder / "model.dplan", fitted
