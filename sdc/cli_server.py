"""The commands about table servers: what their histories show."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from sdc.cli_options import Json, first_of, print_json
from sdc.paths import checked_path

if TYPE_CHECKING:
    from sdc.model.table import Table

served = typer.Typer()

HistoryName = Annotated[
    str, typer.Argument(metavar="HISTORY", help="A server's folder, an SQLite file, or a URL postgresql://...")
]


@served.command()
def audit(
    history: HistoryName,
    table: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Parquet or CSV, or the config of the server; of a folder its own table."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Checks a history: that no entry was changed, and by the table that every R(t) satisfied the criterion."""
    from sdc.server.audit import audit as audit_history
    from sdc.server.history import History, HistoryError

    opened = History.read(_url_of(history))
    try:
        found = audit_history(opened, _table_of(history, table))
    finally:
        opened.close()
    if as_json:
        print_json(
            {
                "history": opened.name,
                "entries": found.entries,
                "head": found.head,
                "decisions": found.decisions,
                "releases": found.releases,
                "verified": found.verified,
                "failures": found.failures,
            }
        )
    else:
        print(f"entries       {found.entries}, the last with the hash {found.head}")
        print(f"decisions     {found.decisions}, of which {found.releases} released something")
        if found.verified:
            print("verified      every R(t) satisfies the criterion")
        if not found.is_judged:
            print("not judged    whether every R(t) satisfies the criterion; give the table with --table")
    if found.failures:
        raise HistoryError(f"{opened.name} is not verified: {first_of(found.failures)}")


@served.command()
def migrate(history: HistoryName, as_json: Json = False) -> None:
    """Brings a history that an older version of sdc made to this one; no entry is changed."""
    from sdc.server.history import History

    History.migrate(_url_of(history))
    opened = History.read(_url_of(history))
    opened.close()
    if as_json:
        print_json({"history": opened.name})
        return
    print(f"{opened.name} is at this version")


def _url_of(history: str) -> str:
    from sdc.server.history import FILE

    return os.path.join(history, FILE) if os.path.isdir(history) else history


def _table_of(history: str, given: str | None) -> Table | None:
    """The table given, by a file, a folder or a config; else that of the server's folder, None where there is none."""
    from sdc.build.build import open_build
    from sdc.executor import IN_PROCESS
    from sdc.ingest.reading import read_table
    from sdc.run_format import SCHEMA
    from sdc.storage.parquet import read_written_table

    own = os.path.join(history, "table")
    path = given if given is not None else own if os.path.isdir(own) else None
    if path is None:
        return None
    if os.path.isfile(os.path.join(path, SCHEMA)):
        return read_written_table(path)
    if path.endswith((".yaml", ".yml")):
        return open_build(checked_path(path)).counted(IN_PROCESS).table
    return read_table(path)
