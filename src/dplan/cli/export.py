"""``dplan export``: a model for other runtimes."""

from __future__ import annotations

from pathlib import Path

import click

from dplan.cli._shared import MODEL, OUTPUT, examples, say


@click.command(
    short_help="Export a model as an ONNX graph.",
    epilog=examples("dplan export fraud.dplan --onnx fraud.onnx"),
)
@click.argument("model", type=MODEL)
@click.option("--onnx", "output", required=True, type=OUTPUT, help="ONNX file to write.")
def export(model: Path, output: Path) -> None:
    """Export MODEL, preparation and detector, as one ONNX graph.

    Its inputs are "numbers" (float64: number, flag and date columns, dates as microseconds since 1970, NaN where
    missing) and "texts" (strings: text columns, empty where missing); its output is "score".
    """
    from dplan.persistence.claim import claimed
    from dplan.tables.model import TableModel
    from dplan.tables.onnx import export_onnx

    with claimed(output, [model]):
        loaded = TableModel.load(model)
        export_onnx(loaded, output)
    kinds = [column.kind for column in loaded.preparation.columns_]
    n_texts = kinds.count("text")
    size = f"{output.stat().st_size / 1000:,.0f} kB"
    say(f"Wrote {output} ({size}); inputs: {len(kinds) - n_texts} numbers, {n_texts} texts.")
