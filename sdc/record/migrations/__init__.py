"""Migrations of a chain's database. Opening a chain migrates it to the newest version or fails."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from sdc.record.database import ChainError, NoChainError

ENTRIES, VERSION = "entries", "alembic_version"
ENCODINGS = ("UTF8", "SQL_ASCII")


def is_new(connection: sa.Connection) -> bool:
    """Whether the database has no chain; other tables are ignored."""
    return not {ENTRIES, VERSION} & set(sa.inspect(connection).get_table_names())


def check(connection: sa.Connection, called: str) -> None:
    """ChainError, with advice, unless the tables have this version; NoChainError if the database has none at all."""
    if not sa.inspect(connection).get_table_names():
        raise NoChainError(f"{called} has not begun: nothing was written to it; name another, or start its server")
    known = sorted(path.name[1:5] for path in Path(__file__).parent.glob("versions/v*.py"))
    has_mark = sa.inspect(connection).has_table(VERSION)
    found = connection.execute(sa.text(f"SELECT version_num FROM {VERSION}")).scalars().all() if has_mark else []
    if not found:
        raise ChainError(
            f"{called} has no mark of a migration, so it is none of sdc's, or of a version before there were any; use "
            "the one that wrote it, for a new one would not know what is public"
        )
    if unknown := set(found) - {*known}:
        raise ChainError(
            f"{called} was made by a newer version of sdc or another program (migration {', '.join(sorted(unknown))}, "
            f"the newest known here is {known[-1]}); use that version"
        )
    if found != known[-1:]:
        raise ChainError(
            f"{called} lacks the migration {known[-1]}; stop its servers, make a copy, and run `sdc migrate` on it"
        )


def upgrade(connection: sa.Connection) -> None:
    """Bring the tables to this version within the connection's transaction."""
    from alembic import command  # slow to import, and not needed for existing chains
    from alembic.config import Config

    if connection.dialect.name == "postgresql":
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding not in ENCODINGS:
            raise ChainError(f"the database is encoded in {encoding}; make one with ENCODING 'UTF8'")
    config = Config()
    # alembic reads it like a configuration file, where % starts a name
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
