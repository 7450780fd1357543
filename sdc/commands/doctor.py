"""The command about the machine: whether builds and servers can run here, and what to do where they cannot."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sdc.commands.options import MAINTAIN, Answer, command
from sdc.paths import checked_path
from sdc.refusal import MEND


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
            print(f"{'ok' if one.ok else 'mend':6}{one.name:12}{one.said}")

    return Answer({"ok": is_ok, "checks": [asdict(one) for one in found]}, show, 0 if is_ok else MEND)
