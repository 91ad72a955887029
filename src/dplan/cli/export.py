"""``dplan export``: write a model as an ONNX graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli._options import FILE, files_read, output
from dplan.cli._terminal import examples, say

if TYPE_CHECKING:
    from dplan.tables.writing import Output


@click.command(
    short_help="Export a model as an ONNX graph.",
    epilog=examples("dplan export fraud.dplan --onnx fraud.onnx"),
)
@click.argument("model", type=FILE)
@output("ONNX file to write.", "--onnx")
def export(model: Path, output: Output) -> None:
    """Export MODEL as one ONNX graph: preparation and detector.

    The inputs are "numbers" (float64: number, flag and date columns, dates as microseconds since 1970, missing values
    as NaN) and "texts" (strings: text columns, missing values as empty strings); the output is "score".
    """
    from dplan.persistence.claim import claimed
    from dplan.tables.model import TableModel
    from dplan.tables.onnx import export_onnx

    with claimed(output.file, files_read(), overwrite=output.overwrite):
        loaded = TableModel.load(model)
        export_onnx(loaded, output.file)
    tensors = [column.tensor for column in loaded.preparation.columns_]
    n_texts = tensors.count("texts")
    size = f"{output.file.stat().st_size / 1000:,.0f} kB"
    say(f"Wrote {output.file} ({size}); inputs: {len(tensors) - n_texts} number and {n_texts} text columns.")
