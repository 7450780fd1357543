"""The command about the machine: whether builds and servers can run here, and what to do where they cannot."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sdc.commands.options import Json, print_json
from sdc.commands.panels import MAINTAIN
from sdc.paths import checked_path
from sdc.refusal import MEND

machines = typer.Typer()


@machines.command(rich_help_panel=MAINTAIN)
def doctor(
    config: Annotated[
        Path | None, typer.Argument(parser=checked_path, metavar="[CONFIG]", help="Also what this config names.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check that this machine can run builds and servers.

    Prints one line for each check. Writes nothing.
    """
    from sdc.execution.doctor import examined

    found = list(examined(config))
    if as_json:
        print_json({"ok": all(one.ok for one in found), "checks": [asdict(one) for one in found]})
    else:
        for one in found:
            print(f"{'ok' if one.ok else 'mend':6}{one.name:12}{one.said}")
    raise typer.Exit(0 if all(one.ok for one in found) else MEND)
