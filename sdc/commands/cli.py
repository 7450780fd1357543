"""The command line: thin commands over the verbs; one JSON document on standard output, the rest on standard error."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sdc import __version__
from sdc.commands.attack import attacks
from sdc.commands.builds import builds
from sdc.commands.config import configs
from sdc.commands.doctor import machines
from sdc.commands.fits import fits
from sdc.commands.panels import Panels
from sdc.commands.publication import publications
from sdc.commands.releases import releases
from sdc.commands.server import served
from sdc.commands.simulation import simulations
from sdc.commands.tables import tables
from sdc.commands.treat import rules
from sdc.commands.uniques import of_samples
from sdc.refusal import as_command

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # which would take [a,b] for markup, and print nothing of it
    cls=Panels,
    help="Decide which exact marginal tables may be published, prove it cell by cell, and publish them.",
)
app.add_typer(builds)
app.add_typer(configs)
app.add_typer(fits)
app.add_typer(machines)
app.add_typer(publications)
app.add_typer(rules)
app.add_typer(served)
app.add_typer(simulations)
app.add_typer(releases)
app.add_typer(tables)
app.add_typer(of_samples)
app.add_typer(attacks)


def main() -> None:
    """Runs a command; 0 done, 1 mend it, 2 wrong usage, 3 nothing may be released, 75 try again, 130 interrupted."""
    with as_command("--json" in sys.argv):
        app()


@app.callback()
def _common(version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False) -> None:
    if version:
        print(f"sdc {__version__}")
        raise typer.Exit


if __name__ == "__main__":
    main()
