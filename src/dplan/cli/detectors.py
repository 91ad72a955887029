"""``dplan detectors``: list the detectors."""

import click


@click.command()
def detectors() -> None:
    """List the detectors: what each one is, whether it uses labels, and its paper."""
    from rich.console import Console
    from rich.table import Table

    from dplan.detectors._registry import list_detectors

    table = Table("detector", "labels", "what it is", "paper")
    for entry in list_detectors():
        table.add_row(entry.name, "used" if entry.uses_labels else "ignored", entry.title, entry.paper)
    Console().print(table)
