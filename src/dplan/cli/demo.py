"""``dplan demo``: train, score and compare on the embedded data."""

from pathlib import Path

import click

from dplan.cli._ahead import compile_ahead
from dplan.cli._options import FOLDER
from dplan.cli._terminal import examples


@click.command(
    short_help="Train and compare all detectors on the embedded data.",
    epilog=examples("dplan demo -o demo-output"),
)
@click.option(
    "-o", "--output", type=FOLDER, default=Path("demo-output"), show_default=True, help="Folder for the plot."
)
@click.option("--seed", default=0, show_default=True, help="Random seed of the split and the training.")
def demo(output: Path, seed: int) -> None:
    """Train DPLAN on the embedded data, compare it with every other detector, and plot the result."""
    from dplan.cli._demo import run

    compile_ahead("fit", "DPLAN")
    run(output, seed)
