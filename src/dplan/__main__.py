"""``python -m dplan``."""

from dplan.cli.main import main

main(prog_name="dplan")
