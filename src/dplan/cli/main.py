"""The command line.

Commands import what they need when they run, so that ``dplan --help`` answers at once.
"""

import click

from dplan._version import __version__
from dplan.cli._shared import Commands
from dplan.cli.demo import demo
from dplan.cli.detectors import detectors
from dplan.cli.doctor import doctor
from dplan.cli.example import example
from dplan.cli.export import export
from dplan.cli.fit import fit
from dplan.cli.inspect import inspect
from dplan.cli.labels import labels
from dplan.cli.report import report
from dplan.cli.review import review
from dplan.cli.score import score
from dplan.cli.serve import serve
from dplan.cli.update import update


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dplan")
def main() -> None:
    """Find anomalies in a table, given a few known anomalies and many unlabelled rows."""


for command in (
    fit,
    score,
    report,
    serve,
    update,
    review,
    labels,
    export,
    inspect,
    example,
    demo,
    detectors,
    doctor,
):
    main.add_command(command)
