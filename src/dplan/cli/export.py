"""``dplan export``: write a model as an ONNX graph."""

from __future__ import annotations

from pathlib import Path

import click

from dplan.cli._shared import MODEL, OUTPUT, examples, overwrite, say


@click.command(
    short_help="Export a model as an ONNX graph.",
    epilog=examples("dplan export fraud.dplan --onnx fraud.onnx"),
)
@click.argument("model", type=MODEL)
@click.option("--onnx", "output", required=True, type=OUTPUT, help="ONNX file to write.")
@overwrite
def export(model: Path, output: Path, overwrite: bool) -> None:
    """Export MODEL as one ONNX graph: preparation and detector.

    The inputs are "numbers" (float64: number, flag and date columns, dates as microseconds since 1970, missing values
    as NaN) and "texts" (strings: text columns, missing values as empty strings); the output is "score".
    """
    from dplan.persistence.claim import claimed
    from dplan.tables.model import TableModel
    from dplan.tables.onnx import export_onnx

    with claimed(output, [model], overwrite=overwrite):
        loaded = TableModel.load(model)
        export_onnx(loaded, output)
    tensors = [column.tensor for column in loaded.preparation.columns_]
    n_texts = tensors.count("texts")
    size = f"{output.stat().st_size / 1000:,.0f} kB"
    say(f"Wrote {output} ({size}); inputs: {len(tensors) - n_texts} number and {n_texts} text columns.")
