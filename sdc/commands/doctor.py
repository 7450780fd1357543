"""The command that checks this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from sdc.commands.options import HISTORY_FILE, MAINTAIN, CommandResult, command
from sdc.paths import checked_path
from sdc.refusal import ERROR

if TYPE_CHECKING:
    from sdc.execution.doctor import Diagnosis


@command(MAINTAIN)
def doctor(
    config: Annotated[
        Path | None, Argument(parser=checked_path, metavar="[CONFIG]", help="Also what this config names.")
    ] = None,
) -> CommandResult:
    """Check that this machine can run builds and servers.

    Prints one line for each check. Writes nothing.
    """
    from sdc.execution.doctor import examined

    found = list(examined(config))
    if config is not None and all(one.ok for one in found if one.name == "config"):
        found += _of_keys(config)
    is_ok = all(one.ok for one in found)

    def show() -> None:
        for one in found:
            print(f"{'ok' if one.ok else 'fix':6}{one.name:12}{one.message}")

    checks = [{"name": one.name, "ok": one.ok, "said": one.message} for one in found]
    return CommandResult({"ok": is_ok, "checks": checks}, show, 0 if is_ok else ERROR)


def _of_keys(path: Path) -> list[Diagnosis]:
    """Check the keys of the config's server, if it has started."""
    from sdc.config.file import read_config
    from sdc.execution.doctor import Diagnosis
    from sdc.model.errors import SdcError
    from sdc.record.database import NoChainError

    config = read_config(path)
    if config.server is None:
        return []
    from sdc.server.service.prepare import server_folder
    from sdc.server.web.access import expiry_text, open_access, utc_now

    try:
        with open_access(config.server.history or str(server_folder(config) / HISTORY_FILE), config.server) as access:
            lacking = [f"{user} has no valid key" for user in access.without_key(utc_now())]
            lacking += [expiry_text(user, end) for user, end in access.expiring(utc_now()).items()]
    except NoChainError:
        return []
    except SdcError as error:
        return [Diagnosis("keys", False, str(error))]
    # no error: a server starts nevertheless, and makes keys for those who have none
    return [Diagnosis("keys", True, "; ".join(lacking) or "every user has a key for 30 days or more")]
