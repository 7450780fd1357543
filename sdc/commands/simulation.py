"""Commands that simulate the rules of a server: on random requests, and on a history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from sdc.commands.options import CONFIG, SERVE, CommandResult, ConfigPath, Settings, command, file_option, history_url

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
    from sdc.execution.cluster import check_cluster
    from sdc.server.simulation.run import PAGE, STAGE, ServerSimulation
    from sdc.stages.build import open_build
    from sdc.stages.table import check_before

    build = open_build(config, settings=settings)
    build.config.require("simulate")
    check_before(build)  # fail early
    check_cluster(build.config.execution)
    options: dict[str, Any] = {"streams": streams, "users": users, "requests": requests, "seed": seed}
    ServerSimulation.of(build.config.server, rules, queries, **options)
    from flows.embedded import embedded_server

    with embedded_server() as await_server:
        from flows.server_simulation import server_simulation

        await_server()
        result = server_simulation(str(config), rules, queries, **options, settings=dict(settings))
    return CommandResult(
        result, lambda: _print_rule_sets(result["simulation"], f"{result['run_folder']}/{STAGE}/{PAGE}")
    )


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
    opened = Chain.read(history_url(history))
    try:
        facts = replay_into(out, source, rules, opened.entries())
    finally:
        opened.close()

    def show() -> None:
        for name, one in {"as it was": facts["as_it_was"], **facts["as_it_would_have_been"]}.items():
            outcomes = ", ".join(f"{outcome} {n}" for outcome, n in one["outcomes"].items())
            print(f"{name:20}{one['released'][-1]:7} sub-tables released; {outcomes}")
        print(f"page          {out}/replay.html")

    return CommandResult({"folder": str(out), "replay": facts}, show)
