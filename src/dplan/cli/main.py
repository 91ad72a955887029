"""The command line: every command is one module of this folder and one line here.

A module is imported when its command runs or is listed, and it imports what it needs when the command runs, so that
``dplan --help`` answers at once.
"""

from importlib import import_module

import click

from dplan._version import __version__
from dplan.cli._terminal import Commands

COMMANDS = [
    "demo",
    "detectors",
    "doctor",
    "example",
    "export",
    "fit",
    "inspect",
    "kinds",
    "labels",
    "report",
    "review",
    "rules",
    "score",
    "serve",
    "update",
]


class _Modules(Commands):
    """Commands by the names of their modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help text."""
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, with the options that every command has."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self.add_command(getattr(import_module(f"dplan.cli.{cmd_name}"), cmd_name))
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Modules, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dplan")
def main() -> None:
    """Find anomalies in a table, given a few known anomalies and many unlabelled rows."""
