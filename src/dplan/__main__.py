"""``python -m dplan``."""

from dplan.cli import main

main(prog_name="dplan")
