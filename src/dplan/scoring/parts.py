"""Score the chunks of a table into a working folder, and explain some of their rows.

Results are files. Each file name contains a digest of everything the result depends on (the model, the rows and the
options), so an existing file can always be reused: this is how an interrupted run is resumed.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._version import __version__
from dplan.columns.differences import Drift, TransformReport
from dplan.persistence.atomic import atomic_write
from dplan.scoring.scorer import Batch, Scorer, highest
from dplan.tables.chunks import Chunk, Conventions
from dplan.tables.reasons import joined
from dplan.tables.writing import check_types

__all__ = ["Part", "Parts"]

_REPORT = "report"  # in the metadata of a part: how its rows differ from the training rows, as JSON


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
        used = [*model.columns, *kept, *([scorer.label] if scorer.label else [])]
        # A row that is skipped is written with all its columns.
        whole = scorer.on_error == "skip"
        name = self._digest(table if whole else table.select(list(dict.fromkeys(used))))
        if self.scores(name).exists():
            noted = json.loads(pl.read_parquet_metadata(self.scores(name))[_REPORT])
            report, drift = TransformReport(**noted["report"]), Drift(**noted["drift"])
            n_scored, n_bad = noted["scored"], noted["mistakes"]
            return Part(name, table.height, n_scored, True, report, n_bad, chunk.conventions, drift)
        found = scorer.score(Batch(table, chunk.place))
        assert found.table is not None
        drift = model.reference.drift_of(found.prepared) if len(found) else Drift()
        chosen = self._may_be_explained(found.score)
        # Before the scores: if the scores exist, so do these rows.
        if len(chosen):
            _write(found.table.select(model.columns)[chosen], self._rows(name))
        if found.bad.height:
            _write(found.bad, self.bad(name))
        copied = [found.table[column].alias(position) for column, position in kept.items()]
        scores = {"row": found.rows, "score": found.score, "percentile": found.percentile}
        noted = {
            "report": asdict(found.differences),
            "drift": asdict(drift),
            "scored": len(found),
            "mistakes": found.bad.height,
        }
        _write(
            pl.DataFrame([*copied, *pl.DataFrame(scores)]), self.scores(name), {_REPORT: json.dumps(noted)}
        )
        n_rows, n_bad = table.height, found.bad.height
        return Part(name, n_rows, len(found), False, found.differences, n_bad, chunk.conventions, drift)

    def explain(self, name: str, rows: NDArray[np.int64]) -> None:
        """Write the reasons for some scored rows of a part, unless they already exist."""
        target = self.reasons(name, rows)
        if target.exists():
            return
        scores = pl.read_parquet(self.scores(name), columns=["score"], glob=False)["score"].to_numpy()
        places = np.searchsorted(self._may_be_explained(scores), rows)
        table = pl.read_parquet(self._rows(name), glob=False)[places]
        texts = list(map(joined, self.scorer.model.why(table, scores=scores[rows])))
        _write(pl.DataFrame({"reasons": pl.Series(texts, dtype=pl.String)}), target)

    def scores(self, name: str) -> Path:
        """Return the file with the copied columns, scores and percentiles of a part."""
        return self.folder / f"part-{name}.parquet"

    def bad(self, name: str) -> Path:
        """Return the file with the rows of a part that have cells that cannot be used."""
        return self.folder / f"mistakes-{name}.parquet"

    def reasons(self, name: str, rows: NDArray[np.int64]) -> Path:
        """Return the file with the reasons of some rows of a part."""
        return self.folder / f"reasons-{hashlib.sha256(name.encode() + rows.tobytes()).hexdigest()}.parquet"

    def _rows(self, name: str) -> Path:
        """Return the file with the rows of a part that may be explained."""
        return self.folder / f"rows-{name}.parquet"

    def _may_be_explained(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the rows of a chunk that may be explained, which is decided when all chunks are scored."""
        if self._n_explained is not None:
            return np.sort(highest(scores, self._n_explained))
        if self._threshold is None:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.scorer.model.is_alert(scores, self._threshold))

    def _digest(self, table: pl.DataFrame) -> str:
        """Return a digest of everything that the scores of a chunk depend on."""
        scorer = self.scorer
        ids = scorer.model.summary.ids
        settings: Iterable[object] = (
            scorer.model.digest, __version__, pl.__version__, ids, scorer.keep, self._n_explained, self._threshold,
            scorer.on_error, scorer.label,
        )  # fmt: skip
        digest = hashlib.sha256(json.dumps(settings).encode())
        for column in table:
            buffer = io.BytesIO()
            pl.DataFrame([column.rechunk()]).write_ipc_stream(buffer, compat_level=pl.CompatLevel.oldest())
            digest.update(buffer.getbuffer())
        return digest.hexdigest()


def _write(table: pl.DataFrame, path: Path, metadata: dict[str, str] | None = None) -> None:
    with atomic_write(path) as temporary:
        table.write_parquet(temporary, compression="lz4", metadata=metadata)
