"""``dplan detectors``: list the detectors."""

import click


@click.command(short_help="List the detectors.")
def detectors() -> None:
    """List the detectors, with their papers and whether they use labels."""
    from rich.console import Console
    from rich.table import Table

    from dplan.detectors._registry import list_detectors

    table = Table("detector", "labels", "description", "paper")
    for entry in list_detectors():
        table.add_row(entry.name, "used" if entry.uses_labels else "ignored", entry.title, entry.paper)
    Console().print(table)
