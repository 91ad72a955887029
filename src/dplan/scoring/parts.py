"""Score the chunks of a table into a working folder, and explain some of their rows.

Results are files. Each file name contains a digest of everything the result depends on (the model, the rows and the
options), so an existing file can always be reused: this is how an interrupted run is resumed. A note, which is written
last, has the digests of the files themselves, so that a damaged one is made again.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._version import __version__
from dplan.arrays import highest_first
from dplan.columns.differences import Drift, TransformReport
from dplan.persistence.atomic import atomic_write
from dplan.scoring.scorer import Batch, Scorer
from dplan.tables.chunks import Chunk, Conventions
from dplan.tables.label_columns import columns_of
from dplan.tables.writing import check_types

__all__ = ["Part", "Parts", "clear_folder"]

# What a working folder may contain: results, what becomes of them at the end, and temporary files of either.
_OURS = r"[a-z]+-[0-9a-f]{64}\.(parquet|json)|new(\.old)?|\..+\.[0-9a-f]{12}\.tmp(\.\w+)?"


@dataclass(frozen=True)
class Part:
    """The scores of one chunk, in a file of the working folder."""

    name: str
    rows: int  # of the chunk
    scored: int  # without those that are left out
    resumed: bool
    report: TransformReport
    n_bad: int = 0
    conventions: Conventions | None = None
    drift: Drift = field(default_factory=Drift)


class Parts:
    """The parts of a table that is being scored.

    Parameters
    ----------
    scorer : Scorer
        Scores the rows, and says which are alerts.
    folder : path
        The working folder.
    explain : bool
        Whether alerts, or the rows that are shown, will be explained.
    output_format : str
        Format of the output.
    """

    def __init__(self, scorer: Scorer, folder: Path, *, explain: bool, output_format: str) -> None:
        self.scorer, self.folder, self.output_format = scorer, folder, output_format
        self.damaged: list[str] = []  # what an earlier run had finished, but is made again
        # Which rows of a chunk may be explained later: so many of the highest scores, or those above a threshold.
        self._n_explained = self._threshold = None
        if explain:
            self._n_explained = scorer.alerts.top or scorer.alerts.budget
            self._threshold = scorer.threshold if self._n_explained is None else None

    def score(self, chunk: Chunk) -> Part:
        """Score a chunk into the working folder, unless its scores already exist."""
        table, scorer = chunk(), self.scorer
        model = scorer.model
        scorer.check(table.columns)
        # Copied columns are named by position, so that no name clashes with ours.
        kept = {name: str(i) for i, name in enumerate(scorer.kept) if name in table.columns}
        check_types(table.select(list(kept)), self.output_format)
        used = [*model.columns, *kept, *(columns_of(scorer.label, table.columns) if scorer.label else [])]
        # A row that is skipped is written with all its columns.
        whole = scorer.on_error == "skip"
        name = self._digest(table if whole else table.select(list(dict.fromkeys(used))))
        if (noted := self._noted(name)) is not None:
            report, drift = TransformReport(**noted["report"]), Drift(**noted["drift"])
            n_scored, n_bad = noted["scored"], noted["mistakes"]
            return Part(name, table.height, n_scored, True, report, n_bad, chunk.conventions, drift)
        found = scorer.score(Batch(table, chunk.place))
        assert found.table is not None
        drift = model.reference.drift_of(found.prepared) if len(found) else Drift()
        chosen = self._may_be_explained(self._ranked(found.score, found.kind), found.novelty_score)
        files = {}
        if len(chosen):
            files[self._rows(name)] = found.table.select(model.columns)[chosen]
        if found.bad.height:
            files[self.bad(name)] = found.bad
        copied = [found.table[column].alias(position) for column, position in kept.items()]
        scores = {"row": found.rows, "score": found.score, "percentile": found.percentile}
        if found.novelty_score is not None and found.novelty is not None:
            scores |= {"novelty_score": found.novelty_score, "novelty": found.novelty}
        if found.kind is not None:
            scores["kind"] = found.kind
        noted = {
            "report": asdict(found.differences),
            "drift": asdict(drift),
            "scored": len(found),
            "mistakes": found.bad.height,
        }
        files[self.scores(name)] = pl.DataFrame([*copied, *pl.DataFrame(scores)])
        self._write(name, files, noted)
        n_rows, n_bad = table.height, found.bad.height
        return Part(name, n_rows, len(found), False, found.differences, n_bad, chunk.conventions, drift)

    def explain(self, name: str, rows: NDArray[np.int64], novelty: bool = False) -> None:
        """Write the reasons for some scored rows of a part, or why they are novel, unless they already exist."""
        target = self.reasons(name, rows, novelty)
        if self._noted(target.stem) is not None:
            return
        scored = pl.read_parquet(self.scores(name), glob=False)
        scores = scored["score"].to_numpy()
        novelty_scores = scored["novelty_score"].to_numpy() if self.scorer.novelty else None
        kind = None if self.scorer.kinds is None else scored["kind"].to_numpy()
        places = np.searchsorted(self._may_be_explained(self._ranked(scores, kind), novelty_scores), rows)
        table = pl.read_parquet(self._rows(name), glob=False)[places]
        of = novelty_scores if novelty and novelty_scores is not None else scores
        found = self.scorer.model.why(table, scores=of[rows], novelty=novelty)
        texts = [[reason.text() for reason in own] for own in found]
        reasons = pl.Series("reasons", texts, dtype=pl.List(pl.String))
        self._write(target.stem, {target: reasons.to_frame()})

    def scores(self, name: str) -> Path:
        """Return the file with the copied columns, scores and percentiles of a part."""
        return self.folder / f"part-{name}.parquet"

    def bad(self, name: str) -> Path:
        """Return the file with the rows of a part that have cells that cannot be used."""
        return self.folder / f"mistakes-{name}.parquet"

    def reasons(self, name: str, rows: NDArray[np.int64], novelty: bool = False) -> Path:
        """Return the file with the reasons of some rows of a part."""
        digest = hashlib.sha256(name.encode() + rows.tobytes() + b"novelty" * novelty).hexdigest()
        return self.folder / f"explained-{digest}.parquet"

    def rows_of(
        self, files: list[tuple[str, list[Part]]], first: int = 0, schema: pl.Schema | None = None
    ) -> pl.LazyFrame:
        """Return the scored rows of some files, each with its file, its row there and its index among the scored rows.

        With a schema, they have its columns and types.
        """
        base = pl.Schema({"row": pl.Int64, "score": pl.Float64, "percentile": pl.Float64, "file": pl.String})
        if self.scorer.novelty:
            base |= {"novelty_score": pl.Float64(), "novelty": pl.Float64()}
        if self.scorer.kinds:
            base |= {"kind": pl.Int64()}
        scans = [pl.LazyFrame(schema=schema or base)]
        for name, parts in files:
            start = 1
            for part in parts:
                scan = pl.scan_parquet(self.scores(part.name), glob=False)
                scans.append(scan.with_columns(pl.col("row") + start, pl.lit(name).alias("file")))
                start += part.rows
        # Relaxed, because a column of JSON lines can have integers in one chunk, floats in the next, then only nulls.
        return pl.concat(scans, how="diagonal_relaxed").with_row_index("index", offset=first)

    def bad_rows_of(self, files: list[tuple[str, list[Part]]]) -> pl.DataFrame | None:
        """Return the rows with cells that could not be used, with their numbers in the files."""
        found = []
        for name, own in files:
            start = 0
            for part in own:
                if part.n_bad:
                    rows = pl.read_parquet(self.bad(part.name), glob=False)
                    place = [pl.lit(name).alias("dplan_file")] if name else []
                    found.append(
                        rows.select(
                            *place, pl.col("dplan_row_number") + start, pl.exclude("dplan_row_number")
                        )
                    )
                start += part.rows
        return pl.concat(found, how="diagonal_relaxed") if found else None

    def _rows(self, name: str) -> Path:
        """Return the file with the rows of a part that may be explained."""
        return self.folder / f"rows-{name}.parquet"

    def _write(self, name: str, files: dict[Path, pl.DataFrame], noted: dict[str, Any] | None = None) -> None:
        """Write files and then the note about them."""
        for path, table in files.items():
            with atomic_write(path) as temporary:
                table.write_parquet(temporary, compression="lz4")
        digests = {path.name: _digest_of_file(path) for path in files}
        content = json.dumps({**(noted or {}), "files": digests}).encode()
        with atomic_write(self._note(name)) as temporary:
            temporary.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)

    def _noted(self, name: str) -> dict[str, Any] | None:
        """Return the note about files; None if there is none, or if it or they are not what was written."""
        try:
            digest, _, content = self._note(name).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        if hashlib.sha256(content).hexdigest().encode() == digest:
            noted: dict[str, Any] = json.loads(content)
            with suppress(FileNotFoundError):
                files = noted.pop("files").items()
                if all(_digest_of_file(self.folder / file) == found for file, found in files):
                    return noted
        self.damaged.append(name)
        return None

    def _note(self, name: str) -> Path:
        """Return the file with the note about a part or about reasons."""
        return self.folder / f"note-{name.rpartition('-')[2]}.json"

    def _ranked(self, scores: NDArray[np.float64], kind: NDArray[np.int64] | None) -> NDArray[np.float64]:
        kinds = self.scorer.kinds
        return scores if kinds is None or kind is None else kinds.ranked(scores, kind)

    def _may_be_explained(
        self, scores: NDArray[np.float64], novelty_scores: NDArray[np.float64] | None
    ) -> NDArray[np.int64]:
        """Return the rows of a chunk that may be explained, which is decided when all chunks are scored."""
        if self._n_explained is not None:
            found = highest_first(scores)[: self._n_explained]
            if self.scorer.alerts.explore and novelty_scores is not None:
                # Some of the most novel rows may be alerts by their score, so there are as many as the budget.
                found = np.union1d(found, highest_first(novelty_scores)[: self._n_explained])
            return np.sort(found)
        if self._threshold is None:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.scorer.model.is_alert(scores, self._threshold))

    def _digest(self, table: pl.DataFrame) -> str:
        """Return a digest of everything that the scores of a chunk depend on."""
        scorer = self.scorer
        ids = scorer.model.summary.ids
        settings: Iterable[object] = (
            scorer.model.digest, __version__, pl.__version__, ids, scorer.keep, self._n_explained, self._threshold,
            scorer.on_error, scorer.label, *([scorer.alerts.explore or 0] if scorer.novelty else []),
            *([scorer.kinds.digest] if scorer.kinds else []),
        )  # fmt: skip
        digest = hashlib.sha256(json.dumps(settings).encode())
        for column in table:
            buffer = io.BytesIO()
            pl.DataFrame([column.rechunk()]).write_ipc_stream(buffer, compat_level=pl.CompatLevel.oldest())
            digest.update(buffer.getbuffer())
        return digest.hexdigest()


def clear_folder(folder: Path) -> None:
    """Create the working folder, or remove from it what a killed run has not finished; results stay.

    A folder of someone else is left as it is, and so is one that a symbolic link leads to.
    """
    if folder.is_symlink():
        raise ValueError(f"{folder} is a symbolic link; remove it, or choose another output")
    folder.mkdir(0o700, exist_ok=True)  # private, because it contains rows of the table
    found = list(folder.iterdir())
    for path in found:
        if not re.fullmatch(_OURS, path.name) or path.is_symlink():
            raise ValueError(
                f"{folder} contains {path.name}, which was not written by dplan score; move it away, or choose "
                "another output"
            )
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name.startswith("."):
            path.unlink()


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
