"""The commands about table servers: what their histories show."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdc.commands.options import (
    CONFIG,
    SERVE,
    Answer,
    ConfigPath,
    Settings,
    command,
    first_of,
    history_url,
    print_json,
    say,
)
from sdc.model.errors import ConfigError
from sdc.model.extras import require_packages
from sdc.refusal import MEND

if TYPE_CHECKING:
    from sdc.feasible.proof import Proof
    from sdc.model.knowledge import Knowledge
    from sdc.model.table import Table
    from sdc.server.desk.audit import Standard

SERVER_PACKAGES = "fastapi", "itsdangerous", "prometheus_client", "python_multipart", "starlette"

HistoryName = Annotated[
    str, typer.Argument(metavar="HISTORY", help="A server's folder, an SQLite file, or a URL postgresql://...")
]


@command(SERVE, *CONFIG, "server.history")
def serve(
    config: ConfigPath,
    settings: Settings,
    host: Annotated[str, typer.Option(help="An address of this machine that no other can reach.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where it listens; 0 takes a free one.")] = 8090,
    prepare: Annotated[bool, typer.Option("--prepare", help="Only prepare what the server needs.")] = False,
    as_json: bool = False,
) -> Answer | None:
    """Start a table server, which answers requests for sub-tables.

    Each request is judged together with everything that was released before.
    """
    from sdc.server.desk.prepare import folder_of, is_prepared, server_of
    from sdc.stages.build import open_build
    from sdc.stages.table import check_before

    build = open_build(config, settings=settings)
    server = server_of(build)
    require_packages("sdc serve", *SERVER_PACKAGES)
    if (server.history or "").startswith("postgresql"):
        require_packages("a history in PostgreSQL", "psycopg")
    from sdc.server.web.app import listen, proxy_secret

    proxy_secret(server)  # before all that takes minutes
    check_before(build)
    if not is_prepared(build):
        _prepare(config, settings)
    if prepare:
        folder = str(folder_of(build).path)
        return Answer({"folder": folder}, lambda: print(f"prepared      {folder}"))

    def ready(url: str, keys: Path | None) -> None:
        if keys is not None:
            text = f"who had no key has one now, in {keys}, which only you can read; hand it out and delete the file"
            print(f"sdc: {text}", file=sys.stderr, flush=True)
        if as_json:
            print_json({"url": url, "keys": None if keys is None else str(keys)})
        else:
            print(f"listens at    {url}")
        sys.stdout.flush()

    listen(build, host, port, server.history, ready)
    return None


def _prepare(config: Path, settings: Settings) -> None:
    from flows.embedded import embedded_server

    with embedded_server() as await_server:
        from flows.table_server import prepare_server

        await_server()
        prepare_server(str(config), settings=dict(settings))


@command(SERVE, "risk.small_count", "risk.min_width")
def audit(
    history: HistoryName,
    settings: Settings,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="The config of the server, by whose criterion is judged; or Parquet or CSV, with --small-count and "
            "--min-width. Of a folder its own table, with these.",
        ),
    ] = None,
) -> Answer:
    """Check a server's history for an auditor.

    Checks that no entry was changed. With --table, also checks that every release satisfied the risk criterion.

    The criterion comes from the options or the config. A history that names another criterion is refused.
    """
    from sdc.record.chain import Chain
    from sdc.server.desk.audit import audit as audit_history

    opened = Chain.read(history_url(history))
    try:
        standard = _standard(history, table, settings)
        found = audit_history(opened, standard)
    finally:
        opened.close()
    facts = {
        "history": opened.name,
        "entries": found.entries,
        "head": found.head,
        "decisions": found.decisions,
        "releases": found.releases,
        **dict.fromkeys(("suppressed_tables", "in_part"), len(found.in_part)),
        "criterion": None if standard is None else {**standard.facts, "of": standard.source},
        "verified": found.verified,
        "failures": found.failures,
    }

    def show() -> None:
        print(f"entries       {found.entries}, the last with the hash {found.head}")
        print(f"decisions     {found.decisions}, of which {found.releases} released something")
        if found.in_part:
            print(f"suppressed    {len(found.in_part)} sub-tables are released with suppressed cells")
        if standard is not None:
            told = ", ".join(f"{name} {value}" for name, value in standard.facts.items())
            print(f"criterion     {told}, of {standard.source}")
        if found.verified:
            beside = ", and so do suppressed tables" if found.in_part else ""
            print(f"verified      every R(t) satisfies the criterion{beside}")
        if not found.is_judged:
            print("not judged    whether every R(t) satisfies a criterion; give the server's config with --table")

    if found.failures:  # not as a refusal, which would be a second document
        say(f"sdc: {opened.name} is not verified: {first_of(found.failures)}")
    return Answer(facts, show, MEND if found.failures else 0)


@command(SERVE)
def migrate(history: HistoryName) -> Answer:
    """Upgrade the history of a server to this version of sdc.

    No entry is changed.
    """
    from sdc.record.chain import Chain

    Chain.migrate(history_url(history))
    opened = Chain.read(history_url(history))
    opened.close()
    return Answer({"history": opened.name}, lambda: print(f"{opened.name} is at this version"))


def _standard(history: str, given: str | None, settings: Settings) -> Standard | None:
    """By what is judged: a config, or a table, of a server's folder its own, with the settings; None by nothing.

    ConfigError for a table without a criterion, a criterion without a table, or two criteria.
    """
    from sdc.server.desk.audit import Standard
    from sdc.stages.subject import Subject, table_config

    if given is not None and given.endswith((".yaml", ".yml")):
        if said := [key for key in settings if key.startswith("risk")]:
            raise ConfigError(f"--table {given} has a criterion; leave out {', '.join(said)}")
        about = Subject.open(given, settings, asked=["audit"])
        return Standard(about.table, about.known, about.criteria(), given, _kept(history, about.table))
    own = os.path.join(history, "table")
    path = given if given is not None or not os.path.isdir(own) else own
    if not settings and given is None:
        return None
    if path is None:
        raise ConfigError("--small-count and --min-width: there is no table to judge by; give it with --table")
    if not {"risk.small_count", "risk.min_width"} <= {*settings}:
        raise ConfigError(
            f"the table {path} has no criterion, and what the history says of its own is not taken for it; give the "
            "server's config with --table, or --small-count and --min-width"
        )
    written = _written(path)
    about = (
        Subject.open(path, settings, asked=["audit"])
        if written is None
        else Subject(path, *written, table_config(path, settings), settings)
    )
    return Standard(about.table, about.known, about.criteria(), "the options", _kept(history, about.table))


def _kept(history: str, table: Table) -> Proof | None:
    """The evidence in a server's folder, which is believed no more than the history; None where there is none."""
    from sdc.model.errors import InputError, RunFolderError
    from sdc.server.desk.prepare import EVIDENCE
    from sdc.storage.certificate import read_certificate

    try:
        return read_certificate(Path(history, EVIDENCE), table.schema).proof
    except (RunFolderError, InputError):
        return None


def _written(path: str) -> tuple[Table, Knowledge] | None:
    """The table of a server's folder, and what is known beside what is released of it; None of a table elsewhere."""
    from sdc.run_format import SCHEMA
    from sdc.storage.known import read_known
    from sdc.storage.parquet import read_written_table

    if not os.path.isfile(os.path.join(path, SCHEMA)):
        return None
    table = read_written_table(path)
    return table, read_known(Path(path), table)
