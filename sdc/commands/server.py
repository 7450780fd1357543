"""Commands about table servers, their histories, and simulations of their rules."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sdc.commands.options import (
    CONFIG,
    HISTORY_FILE,
    SERVE,
    CommandResult,
    ConfigPath,
    Settings,
    command,
    file_option,
    first_of,
    history_url,
    print_json,
    report,
    say,
)
from sdc.model.errors import ConfigError, InputError, RunFolderError, many
from sdc.model.extras import require_packages
from sdc.refusal import ERROR

if TYPE_CHECKING:
    from sdc.feasible.proof import Proof
    from sdc.model.knowledge import Knowledge
    from sdc.model.table import Table
    from sdc.server.service.audit import Standard
    from sdc.stages.build import Build

SERVER_PACKAGES = "fastapi", "itsdangerous", "prometheus_client", "python_multipart", "starlette"

HistoryName = Annotated[
    str, Argument(metavar="HISTORY", help="A server's folder, an SQLite file, or a URL postgresql://...")
]


@command(SERVE, *CONFIG, "server.history")
def serve(
    config: ConfigPath,
    settings: Settings,
    host: Annotated[str, Option(help="A loopback address of this machine.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8090,
    prepare: Annotated[bool, Option("--prepare", help="Prepare the server and end.")] = False,
    as_json: bool = False,
) -> CommandResult | None:
    """Start a table server, which answers requests for sub-tables.

    Each request is judged together with everything that was released before.
    """
    from sdc.server.service.prepare import folder_of, is_prepared, server_of
    from sdc.stages.build import open_build
    from sdc.stages.table import check_before

    build = open_build(config, settings=settings)
    server = server_of(build)
    require_packages("sdc serve", *SERVER_PACKAGES)
    if (server.history or "").startswith("postgresql"):
        require_packages("a history in PostgreSQL", "psycopg")
    from sdc.server.web.listening import listen, proxy_secret

    proxy_secret(server)  # before the slow steps
    check_before(build)
    if not is_prepared(build):
        from flows.run import through_flow

        through_flow("table_server", config, settings, fits=server_of)
    if prepare:
        folder = str(folder_of(build).path)
        return CommandResult({"folder": folder}, lambda: print(f"prepared      {folder}"))

    def ready(url: str, keys: Path | None) -> None:
        if keys is not None:
            text = f"new keys are in {keys}, which only you can read; hand them out and delete the file"
            print(f"sdc: {text}", file=sys.stderr, flush=True)
        if as_json:
            print_json({"url": url, "keys": None if keys is None else str(keys)})
        else:
            print(f"listens at    {url}")
        sys.stdout.flush()

    listen(build, host, port, server.history, ready)
    return None


@command(SERVE, "server.history")
def keys(
    config: ConfigPath,
    settings: Settings,
    make: Annotated[str | None, Option("--make", metavar="USER", help="Make a key for this user.")] = None,
    revoke: Annotated[str | None, Option("--revoke", metavar="NUMBER", help="End the key of this number.")] = None,
) -> CommandResult:
    """List, make or revoke the keys of a table server's users.

    Users and roles are those of the config. Works beside a running server, which takes a change over within seconds.
    """
    from sdc.config.file import read_config
    from sdc.config.server import ServerConfig
    from sdc.server.service.prepare import server_folder
    from sdc.server.web.access import new_keys, open_access, utc_now

    read = read_config(config, settings)
    server, folder = read.server or ServerConfig(), server_folder(read)
    require_packages("sdc keys", "itsdangerous")
    with open_access(server.history or str(folder / HISTORY_FILE), server, writes=bool(make or revoke)) as access:
        if revoke is not None and not access.revoke(revoke, ""):
            raise InputError(f"--revoke {revoke}: the history has no such key; sdc keys {config} lists them")
        made = None if make is None else new_keys(access, [make], folder)
        now, accounts = utc_now(), access.settings.accounts
        listed: list[dict[str, Any]] = [
            {
                "number": key.number,
                "user": key.user,
                "role": accounts[key.user].role if key.user in accounts else None,
                "expires": key.expires.isoformat(),
                "state": "unknown user" if key.user not in accounts else "valid" if key.expires > now else "expired",
            }
            for key in access.listed()
        ]
        without = access.without_key(now)

    def show() -> None:
        for key in listed:
            print(f"{key['number']}  {key['expires'][:10]}  {key['state']:12}  {key['role'] or '-':8}  {key['user']}")
        for user in without:
            print(f"{'no valid key':38}  {accounts[user].role:8}  {user}")
        if made is not None:
            print(f"the new key of {make} is the last line of {made}; hand it out and delete the file")

    return CommandResult({"keys": listed, "without_key": without, "file": None if made is None else str(made)}, show)


@command(SERVE, "risk.small_count", "risk.min_width")
def audit(
    history: HistoryName,
    settings: Settings,
    table: Annotated[
        str | None,
        Option(
            metavar="TABLE",
            help="The config of the server, with its criterion; or Parquet or CSV, with --small-count and "
            "--min-width. Default for a folder: its own table.",
        ),
    ] = None,
) -> CommandResult:
    """Check a server's history and its releases, for auditors.

    Checks that no entry was changed. With --table, also checks that every release satisfied the risk criterion.

    The criterion comes from the options or the config. A history that names another criterion is refused.
    """
    from sdc.record.chain import Chain
    from sdc.server.service.audit import audit as audit_history

    with closing(Chain.read(history_url(history))) as opened:
        standard = _standard(history, table, settings)
        found = audit_history(opened, standard)
    facts = {
        "history": opened.name,
        "entries": found.entries,
        "head": found.head,
        "decisions": found.decisions,
        "releases": found.releases,
        **dict.fromkeys(("suppressed_tables", "in_part"), len(found.in_part)),
        "criterion": None if standard is None else {**standard.criteria.facts, "of": standard.source},
        "verified": found.verified,
        "failures": found.failures,
    }

    def show() -> None:
        named = {} if standard is None else standard.criteria.facts
        criterion = ", ".join(f"{name} {value}" for name, value in named.items())
        beside = ", with the suppressed tables" if found.in_part else ""
        report(
            ("entries", f"{found.entries}, the last with the hash {found.head}"),
            ("decisions", f"{found.decisions}, of which {found.releases} released something"),
            ("suppressed", found.in_part and f"{many(len(found.in_part), 'sub-table')} with suppressed cells"),
            ("criterion", standard and f"{criterion}, of {standard.source}"),
            ("verified", found.verified and f"every R(t) satisfies the criterion{beside}"),
            ("not judged", not found.is_judged and "no criterion is given; give the server's config with --table"),
        )

    if found.failures:  # a refusal would print a second document
        say(f"sdc: {opened.name} is not verified: {first_of(found.failures)}")
    return CommandResult(facts, show, ERROR if found.failures else 0)


@command(SERVE)
def migrate(history: HistoryName) -> CommandResult:
    """Upgrade the history of a server to this version of sdc.

    No entry is changed.
    """
    from sdc.record.chain import Chain

    name = Chain.migrate(history_url(history))
    return CommandResult({"history": name}, lambda: print(f"{name} is at this version"))


def _standard(history: str, given: str | None, settings: Settings) -> Standard | None:
    """Return the criterion to judge by: from a config, or a table with options; None if neither is given.

    ConfigError for a table without a criterion, a criterion without a table, or two criteria.
    """
    from sdc.server.service.audit import Standard
    from sdc.stages.resolved import ResolvedInput, table_config

    if given is not None and given.endswith((".yaml", ".yml")):
        if double := [key for key in settings if key.startswith("risk")]:
            raise ConfigError(f"--table {given} has a criterion; omit {', '.join(double)}")
        source = ResolvedInput.open(given, settings, features=["audit"])
        return Standard(source.table, source.known, source.criteria(), given, _evidence(history, source.table))
    own = os.path.join(history, "table")
    path = given if given is not None or not os.path.isdir(own) else own
    if not settings and given is None:
        return None
    if path is None:
        raise ConfigError("--small-count and --min-width: there is no table; give one with --table")
    if not {"risk.small_count", "risk.min_width"} <= {*settings}:
        raise ConfigError(
            f"the table {path} has no criterion, and the history's own is not trusted; give the "
            "server's config with --table, or --small-count and --min-width"
        )
    written = _written(path)
    source = (
        ResolvedInput.open(path, settings, features=["audit"])
        if written is None
        else ResolvedInput(path, *written, table_config(path, settings), settings)
    )
    return Standard(source.table, source.known, source.criteria(), "the options", _evidence(history, source.table))


def _evidence(history: str, table: Table) -> Proof | None:
    """Read the evidence of a server's folder, which is checked like the history; None if there is none."""
    from sdc.server.service.prepare import EVIDENCE
    from sdc.storage.certificate import read_certificate

    try:
        return read_certificate(Path(history, EVIDENCE), table.schema).proof
    except (RunFolderError, InputError):
        return None


def _written(path: str) -> tuple[Table, Knowledge] | None:
    """Read the table and prior knowledge of a server's folder; None for another path."""
    from sdc.run_format import SCHEMA
    from sdc.storage.known import read_known
    from sdc.storage.parquet import read_written_table

    if not os.path.isfile(os.path.join(path, SCHEMA)):
        return None
    table = read_written_table(path)
    return table, read_known(Path(path), table)


Rules = Annotated[
    str,
    Option(
        help="Comma-separated names: myopic, one_step, one_step_frontier, limit_unreleasable, value, share, batch, "
        "simulatable, config; or a YAML file {name: [{rule: ...}, ...]}."
    ),
]


@command(SERVE, *CONFIG)
def simulate(
    config: ConfigPath,
    settings: Settings,
    rules: Rules = "myopic,one_step",
    queries: Annotated[
        str, Option(help="uniform, popular, greedy-user, or a CSV or JSON lines file with user and variables (A*B).")
    ] = "uniform",
    streams: Annotated[int, Option(min=1, max=100_000, help="Number of streams, the same for each rule.")] = 20,
    requests: Annotated[
        int | None,
        Option(min=1, max=100_000, help="Requests per stream; default: 4 times the sub-tables, at most 500."),
    ] = None,
    users: Annotated[int, Option(min=1, max=10_000, help="Number of users.")] = 8,
    seed: Annotated[int, Option(min=0, max=1 << 53, help="Seed of the streams.")] = 0,
) -> CommandResult:
    """Try the release rules of a server on simulated requests."""
    from flows.run import through_flow
    from sdc.server.simulation.run import PAGE, STAGE, ServerSimulation

    options: dict[str, Any] = {"rules": rules, "queries": queries, "streams": streams, "users": users}
    options |= {"requests": requests, "seed": seed}

    def fits(build: Build) -> None:
        build.config.require("simulate")
        ServerSimulation.of(build.config.server, **options)

    result = through_flow("server_simulation", config, settings, fits=fits, **options)
    page = f"{result['run_folder']}/{STAGE}/{PAGE}"
    return CommandResult(result, lambda: _print_rule_sets(result["simulation"], page))


def _print_rule_sets(facts: dict[str, Any], page: str) -> None:
    print(f"{'rule set':20}{'released':>10}{'least':>7}{'most':>7}{'answered':>10}{'Gini':>7}{'last release':>14}")
    for one in facts["rule_sets"]:
        released, caused, last = one["released"], one["gini_caused"]["mean"], one["saturation"]["mean"]
        print(
            f"{one['name']:20}{released['mean']:10.2f}{released['min']:7.0f}{released['max']:7.0f}"
            f"{one['answered_share']['mean']:10.1%}{caused:7.2f}{last:14.1f}"
        )
    print(f"ordered, at once    {facts['ordered_release']:7}")
    print(f"page          {page}")


@command(SERVE, "risk.min_width", "risk.small_count")
def replay(
    history: Annotated[str, Argument(metavar="HISTORY", help="A server's folder, an SQLite file, or a URL.")],
    rules: Rules,
    settings: Settings,
    table: Annotated[
        str | None, Option(help="The config of the server's build, or its table with --min-width.")
    ] = None,
    out: Annotated[Path, file_option("Folder for replay.html and replay.json.", "--out", metavar="FOLDER")] = Path(
        "replay"
    ),
) -> CommandResult:
    """Decide a server's past requests again, under other rules.

    The report shows both histories.
    """
    from sdc.record.chain import Chain
    from sdc.server.simulation.replay import input_of, replay_into

    source = input_of(table, settings)
    with closing(Chain.read(history_url(history))) as opened:
        facts = replay_into(out, source, rules, opened.entries())

    def show() -> None:
        for name, one in {"as it was": facts["as_it_was"], **facts["as_it_would_have_been"]}.items():
            outcomes = ", ".join(f"{outcome} {n}" for outcome, n in one["outcomes"].items())
            print(f"{name:20}{one['released'][-1]:7} sub-tables released; {outcomes}")
        print(f"page          {out}/replay.html")

    return CommandResult({"folder": str(out), "replay": facts}, show)
