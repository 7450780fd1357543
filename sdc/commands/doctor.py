"""The command that checks this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sdc.commands.options import MAINTAIN, Answer, command
from sdc.paths import checked_path
from sdc.refusal import ERROR


@command(MAINTAIN)
def doctor(
    config: Annotated[
        Path | None, typer.Argument(parser=checked_path, metavar="[CONFIG]", help="Also what this config names.")
    ] = None,
) -> Answer:
    """Check that this machine can run builds and servers.

    Prints one line for each check. Writes nothing.
    """
    from sdc.execution.doctor import examined

    found = list(examined(config))
    is_ok = all(one.ok for one in found)

    def show() -> None:
        for one in found:
            print(f"{'ok' if one.ok else 'fix':6}{one.name:12}{one.message}")

    checks = [{"name": one.name, "ok": one.ok, "said": one.message} for one in found]
    return Answer({"ok": is_ok, "checks": checks}, show, 0 if is_ok else ERROR)
