"""The commands about table servers: what their histories show."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdc.cli_options import BuildWorkers, ConfigPath, Data, Json, first_of, history_url, print_json
from sdc.paths import checked_path

if TYPE_CHECKING:
    from sdc.model.table import Table

served = typer.Typer()

HistoryName = Annotated[
    str, typer.Argument(metavar="HISTORY", help="A server's folder, an SQLite file, or a URL postgresql://...")
]


@served.command()
def serve(
    config: ConfigPath,
    data: Data = None,
    host: Annotated[str, typer.Option(help="An address of this machine that no other can reach.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where it listens; 0 takes a free one.")] = 8090,
    history: Annotated[
        str | None, typer.Option(metavar="URL", help="PostgreSQL or SQLite, instead of the config's.")
    ] = None,
    prepare: Annotated[bool, typer.Option("--prepare", help="Only prepare what the server needs.")] = False,
    workers: BuildWorkers = None,
    as_json: Json = False,
) -> None:
    """The table server. Answers requests for sub-tables one by one, each judged with all earlier ones."""
    from sdc.build.build import open_build
    from sdc.server.prepare import folder_of, is_prepared, server_of

    build = open_build(config, data, workers)
    server_of(build)
    build.check_source()
    if not is_prepared(build):
        _prepare(config, data, workers)
    if prepare:
        folder = str(folder_of(build).path)
        print_json({"folder": folder}) if as_json else print(f"prepared      {folder}")
        return
    from sdc.server.listen import listen

    def ready(url: str, keys: dict[str, str]) -> None:
        if as_json:
            print_json({"url": url, "keys": keys})
        else:
            print(f"listens at    {url}")
            for user, key in keys.items():
                print(f"key of        {user}: {key} (shown once)")
        sys.stdout.flush()

    listen(build, host, port, history, ready)


def _prepare(config: Path, data: str | None, workers: int | None) -> None:
    from flows.embedded import embedded_server

    with embedded_server() as await_server:
        from flows.table_server import prepare_server

        await_server()
        prepare_server(str(config), data, workers)


@served.command()
def audit(
    history: HistoryName,
    table: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Parquet or CSV, or the config of the server; of a folder its own table."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Checks a server's history. Was an entry changed, and by the table: did every R(t) meet the criterion."""
    from sdc.server.audit import audit as audit_history
    from sdc.server.history import History

    opened = History.read(history_url(history))
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
        # not as a refusal, which would be a second document
        print(f"sdc: {opened.name} is not verified: {first_of(found.failures)}", file=sys.stderr)
        raise typer.Exit(1)


@served.command()
def migrate(history: HistoryName, as_json: Json = False) -> None:
    """Brings the history of an older version to this one. No entry is changed."""
    from sdc.server.history import History

    History.migrate(history_url(history))
    opened = History.read(history_url(history))
    opened.close()
    if as_json:
        print_json({"history": opened.name})
        return
    print(f"{opened.name} is at this version")


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
        build = open_build(checked_path(path))
        build.config.require("audit")
        return build.counted(IN_PROCESS).table
    return read_table(path)
