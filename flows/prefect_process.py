"""The process of a build's own Prefect server; it ends when its standard input closes.

It imports Prefect while the build checks its config.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from sdc.ownership import written_by_others

DATABASE = "prefect.db"
SECONDS_TO_END = 5.0


def main(port: int) -> None:
    """Serve, unless Prefect's settings name a server."""
    end_with_input(sys.stdin.read)
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, PREFECT_API_URL, PREFECT_HOME

    if PREFECT_API_URL.value():
        return  # the build reads the same settings
    home = PREFECT_HOME.value()
    close_to_others(home)
    if reason := next(filter(None, map(written_by_others, [home, *home.glob(f"{DATABASE}*")])), ""):
        # another user's deployment would run as this user
        sys.exit(f"{reason}; set PREFECT_HOME to a folder of your own")
    if str(PREFECT_API_DATABASE_CONNECTION_URL.value()).endswith(f"///{home / DATABASE}"):
        make_database(home / DATABASE)
    import uvicorn
    from prefect.server.api.server import create_app

    app = create_app(ephemeral=True, final=True)
    uvicorn.run(app, host="127.0.0.1", port=port, lifespan="on", log_level="critical")


def end_with_input(wait: Callable[[], object]) -> None:
    """End this process when `wait` returns, however the build ended."""

    def end() -> None:
        wait()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SECONDS_TO_END)
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def close_to_others(home: Path) -> None:
    """Close Prefect's files to other users: states, artifacts and logs are about confidential tables."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for database in home.glob(f"{DATABASE}*"):
        with suppress(OSError):  # another user's home
            database.chmod(0o600)


def make_database(database: Path) -> None:
    """Have Prefect create the database of a new home; one of several builds does it, the others wait."""
    with FileLock(f"{database}.lock", mode=0o600):
        if not database.exists():
            from prefect.server.database import provide_database_interface

            asyncio.run(provide_database_interface().create_db())


if __name__ == "__main__":
    main(int(sys.argv[1]))
