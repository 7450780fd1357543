"""Old runs in the shared Prefect database: counted, and removed by Prefect."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prefect.server.database import provide_database_interface
from prefect.server.schemas.states import TERMINAL_STATES
from prefect.server.services import db_vacuum
from prefect.settings import (
    PREFECT_API_DATABASE_CONNECTION_URL,
    PREFECT_HOME,
    PREFECT_SERVER_EVENTS_RETENTION_PERIOD,
    PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD,
    temporary_settings,
)

from flows.prefect_process import DATABASE
from sdc.model.errors import SdcError

STATES = [state.value for state in TERMINAL_STATES]
ENDED = (
    "select count(*) from flow_run where parent_task_run_id is null and end_time < ? "
    f"and state_type in ({', '.join('?' * len(STATES))})"
)


def own_database() -> Path | None:
    """Return the shared database of builds' own servers; None if there is none, or Prefect's settings name another."""
    path = Path(PREFECT_HOME.value()) / DATABASE
    named = str(PREFECT_API_DATABASE_CONNECTION_URL.value())
    return path if path.is_file() and named.endswith(f"///{path}") else None


def old_flow_runs(database: Path, days: int) -> int:
    """Return the number of flow runs that ended this many days ago or earlier."""
    before = datetime.now(UTC) - timedelta(days=days)
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
            (number,) = opened.execute(ENDED, [f"{before:%Y-%m-%d %H:%M:%S.%f}", *STATES]).fetchone()
    except sqlite3.Error as error:
        raise SdcError(f"Prefect's database {database} cannot be read: {error}; move it away, or repair it") from error
    return int(number)


def forget_flow_runs(database: Path, days: int) -> None:
    """Remove them with their logs, artifacts and events; a running server may continue meanwhile."""
    retention = timedelta(days=days)
    periods = {
        PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD: retention,
        PREFECT_SERVER_EVENTS_RETENTION_PERIOD: retention,
    }
    with temporary_settings(periods):
        asyncio.run(_vacuum())
    # a database in use keeps its size until next time
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(database, timeout=1.0)) as opened:
        opened.execute("vacuum")


async def _vacuum() -> None:
    database = provide_database_interface()
    try:
        await db_vacuum.vacuum_old_flow_runs(db=database)
        await db_vacuum.vacuum_old_events(db=database)
        await db_vacuum.vacuum_stale_artifact_collections(db=database)
    finally:
        await (await database.engine()).dispose()
