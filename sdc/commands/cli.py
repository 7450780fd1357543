"""The command line: one JSON document on standard output, everything else on standard error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer import Option

from sdc import __version__
from sdc.commands import builds, config, publication, releases, server, tables, treat
from sdc.commands.options import app, modern, say
from sdc.config.old_keys import OldKeyWarning
from sdc.refusal import as_command

__all__ = ["app", "builds", "config", "main", "publication", "releases", "server"]
__all__ += ["tables", "treat"]


def main() -> None:
    """Run a command; status 0 done, 1 error, 2 wrong usage, 3 not releasable, 75 try again, 130 interrupted."""
    with as_command("--json" in sys.argv), warnings.catch_warnings():
        warnings.showwarning = _once(warnings.showwarning)
        app(modern(sys.argv[1:]))


def _once(others: Callable[..., Any]) -> Callable[..., None]:
    """Shows each old key in a line, once, though a config is read several times; other warnings as ever."""
    said = set[str]()

    def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if category is not OldKeyWarning:
            others(message, category, *place)
        elif (line := str(message)) not in said:
            said.add(line)
            say(line)

    return show


@app.callback()
def _common(version: Annotated[bool, Option("--version", help="Print the version and end.")] = False) -> None:
    if version:
        print(f"sdc {__version__}")
        raise typer.Exit


if __name__ == "__main__":
    main()
