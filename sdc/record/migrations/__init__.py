"""The migrations of a history's database, run by this program: whoever opens one has it at the newest or not at all."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from sdc.record.database import HistoryError

ENTRIES, VERSION = "entries", "alembic_version"
ENCODINGS = ("UTF8", "SQL_ASCII")


def is_new(connection: sa.Connection) -> bool:
    """Whether the database has nothing of a history; other tables there are left alone."""
    return not {ENTRIES, VERSION} & set(sa.inspect(connection).get_table_names())


def check(connection: sa.Connection, name: str) -> None:
    """HistoryError where the tables are not those of this version, with what to do."""
    scripts, found = ScriptDirectory.from_config(_config()), _found(connection)
    if not found:
        raise HistoryError(f"the history {name} has no mark of a migration, so it is none of sdc's; name another")
    if unknown := set(found) - {script.revision for script in scripts.walk_revisions()}:
        raise HistoryError(
            f"the history {name} was made by a newer version of sdc or another program (migration "
            f"{', '.join(sorted(unknown))}, the newest known here is {scripts.get_current_head()}); use that version"
        )
    if found != tuple(scripts.get_heads()):
        raise HistoryError(
            f"the history {name} lacks the migration {scripts.get_current_head()}; stop its servers, make a copy, and "
            "run `sdc migrate` on it"
        )


def upgrade(connection: sa.Connection) -> None:
    """Brings the tables to this version, within the transaction of the connection."""
    if connection.dialect.name == "postgresql":
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding not in ENCODINGS:
            raise HistoryError(f"the database is encoded in {encoding}; make one with ENCODING 'UTF8'")
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _found(connection: sa.Connection) -> tuple[str, ...]:
    return MigrationContext.configure(connection).get_current_heads()


def _config() -> Config:
    config = Config()
    # alembic reads it as a configuration file has it, where % begins a name
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config
