"""The calls of a scikit-learn outlier detector on tables, the same for a `TableDetector` and a loaded `TableModel`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dplan.arrays import Float32s
from dplan.columns import values_of
from dplan.columns.deciding import understand
from dplan.columns.frames import as_frame, check_not_forked, for_each_column, is_frame, tidied
from dplan.detectors._rows import percentiles
from dplan.tables.chunks import concatenated
from dplan.tables.input import Input

if TYPE_CHECKING:
    from dplan.kinds.finding import Kinds
    from dplan.notebook.alerts import Alerts

__all__ = ["ScoresTables", "ShownInNotebooks"]


class ScoresTables:
    """Scores tables with a fitted model.

    A table is a polars or pandas frame, an Arrow table, a path or an `Input`, which is read as the training table was,
    or an array of numbers with the columns of the training table.
    """

    def to_model(self) -> Any:
        """Return the fitted `TableModel`."""
        raise NotImplementedError

    def _checked(self, X: Any) -> Any:
        """Return a table that the model takes; raise an error for anything else."""
        return X

    @contextmanager
    def opened(self, table: Any) -> Iterator[pl.DataFrame]:
        """Yield the rows of any table, text as it is but for missing values; errors name the place in a file."""
        check_not_forked()
        model = self.to_model()
        if isinstance(table, str | Path | Input):
            source = (table if isinstance(table, Input) else Input(table)).like(model).readable_twice()
            with source.unchanged(), source.located():
                yield concatenated([chunk() for chunk in source.chunks()], source.format)
        elif is_frame(table):
            yield _tidied(as_frame(table), model)
        else:
            if not isinstance(table, np.ndarray | list | tuple):
                raise TypeError(
                    "expected a polars or pandas frame, an Arrow table, a path or an array of numbers, got "
                    f"{type(table).__name__}"
                )
            if np.ndim(table) != 2:
                names = ", ".join(model.columns[:3]) + (", …" if len(model.columns) > 3 else "")
                raise ValueError(
                    f"expected rows with the columns {names}, but the array has {np.ndim(table)} dimension"
                    f"{'s' if np.ndim(table) != 1 else ''}; for one row, pass [row]"
                )
            from sklearn.utils import check_array

            numbers = check_array(table, ensure_all_finite="allow-nan", ensure_min_samples=0)
            if numbers.shape[1] != len(model.columns):
                raise ValueError(
                    f"the table has {numbers.shape[1]} columns, but the model has {len(model.columns)}"
                )
            yield pl.from_numpy(numbers, schema=model.columns)

    def read(self, table: Any) -> pl.DataFrame:
        """Read a table as in training: numbers, dates and so on in the formats of then.

        Parameters
        ----------
        table : path, Input or frame
            The table; columns that the model does not know are understood on their own, ids and the label stay text.

        Returns
        -------
        polars.DataFrame
            All columns of the table.

        Examples
        --------
        >>> from dplan import LogisticBaseline
        >>> from dplan.tables import fit_table, from_table
        >>> table = pl.DataFrame({"paid": ["1.200,50 €", "3.100 €", "2,10 €"] * 40, "fraud": [0, 0, 0, 0, 1, 0] * 20})
        >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline(), estimate=False)
        >>> model.read(pl.DataFrame({"paid": ["1.234 €"]})).item()  # three digits after a point are thousands
        1234.0
        """
        with self.opened(table) as rows:
            model = self.to_model()
            model.check_columns(rows.columns)
            own = {column.name: column for column in model.preparation.columns_}
            known = [(own[series.name], series) for series in rows if series.name in own]
            values = for_each_column(lambda one: values_of(*one, model.missing), known)
            rest = [series for series in rows if series.name not in own]
            others, _ = understand(rest, {}, model.missing, aside=model.not_read, problems=[])
            return pl.DataFrame([*values, *others]).select(rows.columns)

    def anomaly_score(self, X: Any) -> NDArray[np.float64]:
        """Score rows; higher is more anomalous.

        Parameters
        ----------
        X : polars or pandas frame, Arrow table, path, or array of shape (n_rows, n_columns)
            Rows with at least the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            The scores; the score of a row does not depend on other rows.
        """
        scores: NDArray[np.float64] = self.to_model().score(self._checked(X))
        return scores

    def percentile(self, X: Any) -> NDArray[np.float64]:
        """Return the percentage of unlabelled and checked normal training rows with a lower score.

        It refers to the training rows, not to the scored table, so it does not depend on other scored rows, and
        tables larger than memory can be scored in one pass.

        Parameters
        ----------
        X : as in `anomaly_score`, or array-like of shape (n_rows,)
            A table, or the scores of its rows.

        Examples
        --------
        >>> from dplan import LogisticBaseline, TableDetector
        >>> table = pl.DataFrame({"amount": [*range(100), 900, 950]})
        >>> detector = TableDetector(LogisticBaseline()).fit(table, [0] * 100 + [1, 1])
        >>> detector.percentile(pl.DataFrame({"amount": [50, 920]})).tolist()
        [50.51, 100.0]
        """
        scores = np.asarray(X, dtype=np.float64) if _is_scores(X) else self.anomaly_score(X)
        found: NDArray[np.float64] = self.to_model().detector._percentile_of(scores)
        return np.round(found, 2)

    def novelty(self, X: Any) -> NDArray[np.float64]:
        """Return how unlike the training rows each row is, from 0 to 100, whatever the labels say.

        It is the percentage of unlabelled training rows that the explorers of the detector find less unusual; raises
        ValueError if the detector has no explorers.

        Parameters
        ----------
        X : as in `anomaly_score`
            A table.

        Examples
        --------
        >>> from dplan import IForest, TableDetector
        >>> table = pl.DataFrame({"amount": [k * k % 97 for k in range(100)]})
        >>> detector = TableDetector(IForest(random_state=0)).fit(table)
        >>> new = pl.DataFrame({"amount": [50, 900]})
        >>> detector.novelty(new).argmax().item()
        1
        >>> scores = detector.novelty_scores_of(detector.to_model().prepare(new))
        >>> bool((detector.novelty_percentile(scores) == detector.novelty(new)).all())
        True
        """
        model = self.to_model()
        model.detector._check_explorers()
        return self.novelty_percentile(self.novelty_scores_of(model.prepare(self._checked(X))))

    def novelty_scores_of(self, prepared: Float32s) -> NDArray[np.float64]:
        """Return how novel prepared rows are, in the unit of the explorers, which tells the strangest rows apart."""
        found: NDArray[np.float64] = self.to_model().detector._novelty_scores(prepared)
        return found

    def novelty_percentile(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the percentage of unlabelled training rows that are less novel, given `novelty_scores_of`."""
        return np.round(percentiles(scores, self.to_model().novelty_quantiles), 2)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Score rows the way scikit-learn does: lower is more anomalous."""
        return -self.anomaly_score(X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Score rows relative to the threshold: negative means anomaly."""
        offset: float = self.to_model().offset_
        return self.score_samples(X) - offset

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return -1 for anomalies, which are the alerts of ``dplan score``, and 1 for normal rows."""
        return np.where(self.to_model().is_alert(self.anomaly_score(X)), -1, 1)

    def alerts(
        self,
        table: Any,
        *,
        top: int | None = None,
        budget: int | None = None,
        threshold: float | None = None,
        explain: bool = True,
        keep: Sequence[str] = (),
    ) -> Alerts:
        """Return the alerts of a table with their reasons, the highest score first, as cards for a notebook.

        Parameters
        ----------
        table : polars or pandas frame, Arrow table, path, Input, or array of shape (n_rows, n_columns)
            The rows.
        top : int, optional
            This many rows with the highest scores, whether they are alerts or not.
        budget, threshold : int or float, optional
            The number of alerts, or the lowest score of an alert; by default the model's threshold.
        explain : bool, default=True
            Tell the reasons for each row.
        keep : sequence of str
            Columns to copy to ``frame``, in addition to the ids of the model.

        Returns
        -------
        Alerts
            A sequence of cards; ``frame`` has the columns of ``dplan score``.

        Examples
        --------
        >>> from dplan import LogisticBaseline, TableDetector
        >>> table = pl.DataFrame({"amount": [*range(100), 900, 950]})
        >>> detector = TableDetector(LogisticBaseline()).fit(table, [0] * 100 + [1, 1])
        >>> alerts = detector.alerts(pl.DataFrame({"amount": [10, 920, 11]}), budget=1)
        >>> alerts.frame.select("row", "percentile", "alert", "reasons").row(0)
        (2, 100.0, True, '`amount` = 920; typical 5–94')
        >>> alerts[0].reasons[0].column
        'amount'
        """
        from dplan.notebook.alerts import alerts_of

        rows = self._checked(table)
        return alerts_of(
            self.to_model(),
            rows,
            given=table,
            top=top,
            budget=budget,
            threshold=threshold,
            explain=explain,
            keep=keep,
        )

    def kinds(
        self,
        table: Any,
        *,
        n_kinds: int | None = None,
        budget: int | None = None,
        threshold: float | None = None,
    ) -> Kinds:
        """Return the kinds of the alerts of a table, with rules; see `dplan.kinds`.

        Parameters
        ----------
        table : polars or pandas frame, Arrow table, path or Input
            The rows.
        n_kinds : int, optional
            The number of kinds; by default between 3 and 8.
        budget, threshold : int or float, optional
            The number of alerts, or the lowest score of an alert; by default the model's threshold.

        Examples
        --------
        >>> from dplan import LogisticBaseline, TableDetector
        >>> amounts = [k * k % 97 for k in range(500)] + [900 + k for k in range(60)]
        >>> table, y = pl.DataFrame({"amount": amounts}), [0] * 500 + [0, 1] * 30
        >>> detector = TableDetector(LogisticBaseline()).fit(table, y)
        >>> detector.kinds(table, budget=60).rules.kinds[0].rule is not None
        True
        """
        from dplan.kinds import kinds

        return kinds(
            self.to_model(), self._checked(table), n_kinds=n_kinds, budget=budget, threshold=threshold
        )

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the features: the column's name, or ``column=level`` for text."""
        names: NDArray[np.object_] = self.to_model().preparation.get_feature_names_out()
        return names


class ShownInNotebooks:
    """Shown as a table in a notebook, not as text."""

    def _repr_html_(self) -> str:
        from dplan.notebook.summary import model_html

        return model_html(self)


def _is_scores(X: Any) -> bool:
    """Return whether this is a series or array of numbers, not a table."""
    return not hasattr(X, "columns") and not isinstance(X, str | Path | Input) and np.ndim(X) == 1


def _tidied(frame: pl.DataFrame, model: Any) -> pl.DataFrame:
    """Return a frame with missing values for text that means one and is not a level."""
    columns = {column.name: column for column in model.preparation.columns_}
    found = []
    for series in frame:
        column = columns.get(series.name)
        if column is not None and series.dtype == pl.String:
            levels = getattr(column, "levels", ())
            series = tidied(series, [word for word in model.missing if word not in levels])
        found.append(series)
    return pl.DataFrame(found)
