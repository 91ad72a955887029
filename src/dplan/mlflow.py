"""Keep models in MLflow: log, load and serve them.

The model file is stored as it is; nothing is pickled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow.pyfunc
import polars as pl
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
from mlflow.types.schema import AnyType

from dplan._version import __version__
from dplan.columns.frames import as_frame
from dplan.scoring.scorer import Batch, Scorer, loaded
from dplan.tables.model import TableModel
from dplan.tables.reasons import joined

__all__ = ["load_model", "log_model", "save_model"]

_FILE = "model.dplan"
_REQUIREMENTS = [f"dplan-ad[mlflow]=={__version__}"]


def save_model(model: TableModel | str | Path, path: str | Path, **options: Any) -> None:
    """Save a model as an MLflow model in a folder.

    Parameters
    ----------
    model : TableModel or path
        The model, or its file.
    path : path
        The folder, which must not exist.
    **options
        Passed to `mlflow.pyfunc.save_model`, such as ``metadata``.
    """
    with _stored(model) as arguments:
        mlflow.pyfunc.save_model(path=str(path), **{**arguments, **options})


def log_model(model: TableModel | str | Path, name: str = "model", **options: Any) -> Any:
    """Log a model to the active MLflow run.

    Parameters
    ----------
    model : TableModel or path
        The model, or its file.
    name : str, default="model"
        Name of the logged model.
    **options
        Passed to `mlflow.pyfunc.log_model`, such as ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo
        What MLflow knows about the logged model; its ``model_uri`` is for `load_model`, ``mlflow models serve`` and
        `mlflow.pyfunc.spark_udf`.
    """
    with _stored(model) as arguments:
        return mlflow.pyfunc.log_model(name=name, **{**arguments, **options})


def load_model(model_uri: str) -> TableModel:
    """Load a model that was saved or logged here.

    Parameters
    ----------
    model_uri : str
        Where it is: a folder, ``runs:/…``, ``models:/…`` or any other address that MLflow knows.

    Returns
    -------
    TableModel
        The model; its scores are bit-identical to those of the saved one.
    """
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=model_uri))
    flavor = Model.load(str(folder)).flavors[mlflow.pyfunc.FLAVOR_NAME]
    if flavor.get("loader_module") != __name__:
        raise ValueError(f"{model_uri} was not saved by dplan.mlflow")
    return TableModel.load(folder / flavor["data"])


class _Scorer:
    """What MLflow calls to score a pandas frame."""

    def __init__(self, model: TableModel) -> None:
        self._model = model

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return score, percentile and alert of each row.

        With the parameter ``explain``, also the reasons; with ``novelty``, how unlike the training rows it is.
        """
        asked = params or {}
        scorer = Scorer(self._model, novelty=bool(asked.get("novelty")))
        scored = scorer.score(Batch(as_frame(model_input)))
        found = scorer.columns(scored)
        if asked.get("explain"):
            texts = list(map(joined, scorer.explain(scored)))
            found = found.with_columns(pl.Series("reasons", texts, dtype=pl.String))
        return found.to_pandas()


def _load_pyfunc(path: str) -> _Scorer:
    """Load a model for MLflow, which calls this by its name; once per process."""
    return _Scorer(loaded(Path(path).read_bytes()))


@contextmanager
def _stored(model: TableModel | str | Path) -> Iterator[dict[str, Any]]:
    """Write a model to a temporary folder and yield the arguments for MLflow."""
    with TemporaryDirectory(prefix="dplan-") as folder:
        file = Path(folder) / _FILE
        if isinstance(model, TableModel):
            model.save(file)
        else:
            file.write_bytes(Path(model).read_bytes())
        found = TableModel.load(file)
        metadata = {"detector": type(found.detector).__name__, "threshold": found.threshold}
        yield {
            "loader_module": __name__,
            "data_path": str(file),
            "signature": _signature(found),
            "pip_requirements": _REQUIREMENTS,
            "metadata": metadata,
        }


def _signature(model: TableModel) -> ModelSignature:
    """Return the columns of a model.

    They have no types: MLflow refuses integers for a column of floats, which the model accepts, and checks every row.
    """
    outputs = {"score": DataType.double, "percentile": DataType.double, "alert": DataType.boolean}
    return ModelSignature(
        inputs=Schema([ColSpec(AnyType(), name) for name in model.columns]),
        outputs=Schema([ColSpec(type_, name) for name, type_ in outputs.items()]),
        params=ParamSchema([ParamSpec(name, DataType.boolean, False) for name in ("explain", "novelty")]),
    )
