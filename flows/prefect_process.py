"""The process of a build's own Prefect server, run by its path with a port; it ends when its standard input does.

It imports Prefect while the build, which imports other things at the same time, checks its config.
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
    """Serves where Prefect's settings name no other server, with what Prefect's own temporary servers have."""
    end_with_input(sys.stdin.read)
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, PREFECT_API_URL, PREFECT_HOME

    if PREFECT_API_URL.value():
        return  # the build reads the same settings, and uses that one
    home = PREFECT_HOME.value()
    close_to_others(home)
    if said := next(filter(None, map(written_by_others, [home, *home.glob(f"{DATABASE}*")])), ""):
        # a deployment that somebody else has put there would run as this user
        sys.exit(f"{said}; set PREFECT_HOME to a folder of your own")
    if str(PREFECT_API_DATABASE_CONNECTION_URL.value()).endswith(f"///{home / DATABASE}"):
        make_database(home / DATABASE)
    import uvicorn
    from prefect.server.api.server import create_app

    app = create_app(ephemeral=True, final=True)
    uvicorn.run(app, host="127.0.0.1", port=port, lifespan="on", log_level="critical")


def end_with_input(wait: Callable[[], object]) -> None:
    """Ends this process when `wait` returns, which it does however the build has ended."""

    def end() -> None:
        wait()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SECONDS_TO_END)
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def close_to_others(home: Path) -> None:
    """What Prefect keeps of runs is for this user alone: states, artifacts and logs tell of confidential tables."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for database in home.glob(f"{DATABASE}*"):
        with suppress(OSError):  # another user's home, which that user must close
            database.chmod(0o600)


def make_database(database: Path) -> None:
    """Has Prefect make the database of a new home; of two builds that begin at once one makes it, the other waits."""
    with FileLock(f"{database}.lock", mode=0o600):
        if not database.exists():
            from prefect.server.database import provide_database_interface

            asyncio.run(provide_database_interface().create_db())


if __name__ == "__main__":
    main(int(sys.argv[1]))
