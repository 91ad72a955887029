"""The command line."""

import click

from dplan._version import __version__
from dplan.data.commands import data


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dplan")
def main() -> None:
    """Find anomalies in a table with a few known anomalies and many unlabelled rows."""


main.add_command(data)
