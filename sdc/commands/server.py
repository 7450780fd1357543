"""The commands about table servers: what their histories show."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdc.commands.options import BuildWorkers, ConfigPath, Data, Json, first_of, history_url, print_json
from sdc.commands.panels import SERVE
from sdc.model.errors import ConfigError
from sdc.model.extras import require_packages
from sdc.paths import checked_path

if TYPE_CHECKING:
    from sdc.feasible.proof import Proof
    from sdc.model.knowledge import Knowledge
    from sdc.model.table import Table
    from sdc.server.desk.audit import Standard

served = typer.Typer()

SERVER_PACKAGES = "fastapi", "itsdangerous", "prometheus_client", "python_multipart", "starlette"

HistoryName = Annotated[
    str, typer.Argument(metavar="HISTORY", help="A server's folder, an SQLite file, or a URL postgresql://...")
]


@served.command(rich_help_panel=SERVE)
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
    """Start a table server, which answers requests for sub-tables.

    Each request is judged together with everything that was released before.
    """
    from sdc.server.desk.prepare import folder_of, is_prepared, server_of
    from sdc.stages.build import open_build
    from sdc.stages.table import check_before

    build = open_build(config, data, workers)
    settings = server_of(build)
    require_packages("sdc serve", *SERVER_PACKAGES)
    if (history or settings.history or "").startswith("postgresql"):
        require_packages("a history in PostgreSQL", "psycopg")
    from sdc.server.web.app import listen, proxy_secret

    proxy_secret(settings)  # before all that takes minutes
    check_before(build)
    if not is_prepared(build):
        _prepare(config, data, workers)
    if prepare:
        folder = str(folder_of(build).path)
        print_json({"folder": folder}) if as_json else print(f"prepared      {folder}")
        return

    def ready(url: str, keys: Path | None) -> None:
        if keys is not None:
            text = f"who had no key has one now, in {keys}, which only you can read; hand it out and delete the file"
            print(f"sdc: {text}", file=sys.stderr, flush=True)
        if as_json:
            print_json({"url": url, "keys": None if keys is None else str(keys)})
        else:
            print(f"listens at    {url}")
        sys.stdout.flush()

    listen(build, host, port, history, ready)


def _prepare(config: Path, data: str | None, workers: int | None) -> None:
    from flows.embedded import embedded_server

    with embedded_server() as await_server:
        from flows.table_server import prepare_server

        await_server()
        prepare_server(str(config), data, workers)


@served.command(rich_help_panel=SERVE)
def audit(
    history: HistoryName,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="The config of the server, by whose criterion is judged; or Parquet or CSV, with --small-count and "
            "--min-width. Of a folder its own table, with these.",
        ),
    ] = None,
    small_count: Annotated[int | None, typer.Option(min=1, help="That of the criterion, without a config.")] = None,
    min_width: Annotated[int | None, typer.Option(min=1, help="That of the criterion, without a config.")] = None,
    n_rule: Annotated[int | None, typer.Option(min=2, help="That of the criterion, without a config.")] = None,
    as_json: Json = False,
) -> None:
    """Check a server's history for an auditor.

    Checks that no entry was changed. With --table, also checks that every release satisfied the risk criterion.

    The criterion comes from the options or the config. A history that names another criterion is refused.
    """
    from sdc.record.chain import Chain
    from sdc.server.desk.audit import audit as audit_history

    opened = Chain.read(history_url(history))
    try:
        standard = _standard(history, table, small_count, min_width, n_rule)
        found = audit_history(opened, standard)
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
                "in_part": len(found.in_part),
                "criterion": None if standard is None else {**standard.facts, "of": standard.source},
                "verified": found.verified,
                "failures": found.failures,
            }
        )
    else:
        print(f"entries       {found.entries}, the last with the hash {found.head}")
        print(f"decisions     {found.decisions}, of which {found.releases} released something")
        if found.in_part:
            print(f"in part       {len(found.in_part)} sub-tables, but for cells that are withheld")
        if standard is not None:
            told = ", ".join(f"{name} {value}" for name, value in standard.facts.items())
            print(f"criterion     {told}, of {standard.source}")
        if found.verified:
            beside = ", and so does what was answered in part" if found.in_part else ""
            print(f"verified      every R(t) satisfies the criterion{beside}")
        if not found.is_judged:
            print("not judged    whether every R(t) satisfies a criterion; give the server's config with --table")
    if found.failures:
        # not as a refusal, which would be a second document
        print(f"sdc: {opened.name} is not verified: {first_of(found.failures)}", file=sys.stderr)
        raise typer.Exit(1)


@served.command(rich_help_panel=SERVE)
def migrate(history: HistoryName, as_json: Json = False) -> None:
    """Upgrade the history of a server to this version of sdc.

    No entry is changed.
    """
    from sdc.record.chain import Chain

    Chain.migrate(history_url(history))
    opened = Chain.read(history_url(history))
    opened.close()
    if as_json:
        print_json({"history": opened.name})
        return
    print(f"{opened.name} is at this version")


def _standard(
    history: str, given: str | None, small_count: int | None, min_width: int | None, n_rule: int | None
) -> Standard | None:
    """By what is judged: a config, or a table, of a server's folder its own, with the options; None by nothing.

    ConfigError for a table without a criterion, a criterion without a table, or two criteria.
    """
    from sdc.executor import IN_PROCESS
    from sdc.risk.criteria import Criteria
    from sdc.server.desk.audit import Standard
    from sdc.stages.build import open_build

    said = [value for value in (small_count, min_width, n_rule) if value is not None]
    if given is not None and given.endswith((".yaml", ".yml")):
        if said:
            raise ConfigError(f"--table {given} has a criterion; leave out --small-count, --min-width and --n-rule")
        build = open_build(checked_path(given))
        build.config.require("audit")
        counted = build.counted(IN_PROCESS)
        known = build.known_of(counted)
        return Standard(counted.table, known, build.criteria, given, _kept(history, counted.table))
    own = os.path.join(history, "table")
    path = given if given is not None or not os.path.isdir(own) else own
    if not said and given is None:
        return None
    if path is None:
        raise ConfigError("--small-count and --min-width: there is no table to judge by; give it with --table")
    if small_count is None or min_width is None:
        raise ConfigError(
            f"the table {path} has no criterion, and what the history says of its own is not taken for it; give the "
            "server's config with --table, or --small-count and --min-width"
        )
    read, known = _read(path)
    return Standard(
        read, known, Criteria.of(small_count, min_width, n_rule=n_rule), "the options", _kept(history, read)
    )


def _kept(history: str, table: Table) -> Proof | None:
    """The evidence in a server's folder, which is believed no more than the history; None where there is none."""
    from sdc.model.errors import InputError, RunFolderError
    from sdc.server.desk.prepare import EVIDENCE
    from sdc.storage.certificate import read_certificate

    try:
        return read_certificate(Path(history, EVIDENCE), table.schema).proof
    except (RunFolderError, InputError):
        return None


def _read(path: str) -> tuple[Table, Knowledge]:
    """A table, and what is known beside what is released of it; of a server's folder as that has it."""
    from sdc.data.reading import read_table
    from sdc.model.fact import NO_FACTS
    from sdc.model.knowledge import Knowledge
    from sdc.model.release import NOTHING
    from sdc.model.structural_zeros import NO_ZEROS
    from sdc.run_format import SCHEMA
    from sdc.storage.known import read_known
    from sdc.storage.parquet import read_written_table

    if os.path.isfile(os.path.join(path, SCHEMA)):
        table = read_written_table(path)
        return table, read_known(Path(path), table)
    table = read_table(path)
    return table, Knowledge.of(table, NOTHING, NO_ZEROS, NO_FACTS)
