"""From options and a config to a simulation of rule sets: the stage of a run folder that simulates a server."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdc.config.file import load_yaml, validated
from sdc.config.old_keys import current, recorded, warn
from sdc.config.server import RuleConfig, ServerConfig
from sdc.executor import Executor
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.state import State
from sdc.server.service.judge import MOST_LISTED, Judge, surveyed
from sdc.server.service.prepare import first_release
from sdc.server.service.rules import MYOPIC, rules_of
from sdc.server.simulation.simulation import Kind, Queries, Request, SimulationStart, simulated, summary
from sdc.stages.assemble import release_search
from sdc.stages.build import Build, Work
from sdc.stages.stages import Stage
from sdc.storage.run_folder import write_json

STAGE, PAGE, FACTS = "simulation", "simulation.html", "simulation.json"
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "one_step": {},
    "one_step_frontier": {},
    "limit_unreleasable": {"share": 0.1},
    "value": {"least": 2.0},
    "share": {"most": 0.5},
    "batch": {},
    "simulatable": {},
}
"""Settings of a rule that is tried by its name alone, where the config has none."""
DRAWN: Mapping[str, Kind] = {"uniform": "uniform", "popular": "popular", "greedy-user": "greedy-user"}
MOST_REQUESTS, MOST_UNASKED, FILE_BYTES = 100_000, 500, 1 << 26

RuleSets = Mapping[str, tuple[RuleConfig, ...]]


@dataclass(frozen=True)
class ServerSimulation:
    """What is tried: streams of requests against each rule set.

    queries   uniform, popular, greedy-user, or listed: one stream, those given by user and variables
    requests  of a stream; None: four times as many as there are sub-tables, 500 at most

    InputError for fewer than 1 stream, user or request, or a negative seed.
    """

    rule_sets: RuleSets
    queries: Kind = "uniform"
    listed: tuple[tuple[str, str], ...] = ()
    streams: int = 20
    users: int = 8
    requests: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"streams": 1, "users": 1, "requests": 1, "seed": 0}
        for name, number in least.items():
            if (given := getattr(self, name)) is not None and given < number:
                raise InputError(f"{name} = {given}; give at least {number}")

    @staticmethod
    def of(server: ServerConfig | None, rules: str, queries: str, **options: Any) -> ServerSimulation:
        """From the words of a command; ConfigError or InputError for what is none of them."""
        rule_sets = rule_sets_of(rules, server)
        if queries in DRAWN:
            return ServerSimulation(rule_sets, DRAWN[queries], **options)
        listed = _read_requests(Path(queries))
        return ServerSimulation(rule_sets, "listed", listed, **{**options, "streams": 1, "requests": len(listed)})

    @property
    def facts(self) -> dict[str, Any]:
        """As the page and the key of the stage have it."""
        return {
            "queries": self.queries,
            "streams": self.streams,
            "users": len({who for who, _ in self.listed}) or self.users,
            "seed": self.seed,
        }

    def queries_on(self, build: Build) -> Queries:
        """Its requests, of this table."""
        schema = build.made.table.schema
        every = Release.of([st.full(len(schema))]).sub_tables_with_total(schema)
        length = self.requests or min(MOST_UNASKED, 4 * every)
        return Queries(self.queries, self.users, length, build.settings().weights(schema), requests_of(self, schema))


def requests_of(simulation: ServerSimulation, schema: Schema) -> tuple[Request, ...]:
    """The requests that are given; ReleaseError for a variable that the table does not have."""
    return tuple((st.parse(variables, schema), who) for who, variables in simulation.listed)


# Rule sets


def rule_sets_of(text: str, server: ServerConfig | None) -> dict[str, tuple[RuleConfig, ...]]:
    """Rule sets by names with commas between, or those of a YAML file; ConfigError for what is neither."""
    if text.endswith((".yaml", ".yml")):
        return _read_rule_sets(Path(text))
    own = () if server is None else server.rules
    names = [name.strip() for name in text.split(",")]
    return {name: _named(name, own) for name in names}


def _named(name: str, own: tuple[RuleConfig, ...]) -> tuple[RuleConfig, ...]:
    if name == MYOPIC:
        return ()
    if name == "config":
        return own
    name = str(current({"rule": name}, "server.rules", warn)["rule"])
    if name not in DEFAULTS:
        there = ", ".join((MYOPIC, *DEFAULTS, "config"))
        raise ConfigError(f"--rules {name!r} is not a rule; give names of {there}, with commas between, or a YAML file")
    of_config = tuple(rule for rule in own if rule.rule == name)
    return of_config or ServerConfig.model_validate({"rules": [{"rule": name, **DEFAULTS[name]}]}).rules


def _read_rule_sets(path: Path) -> dict[str, tuple[RuleConfig, ...]]:
    content = load_yaml(path, "rules", ConfigError)
    if not isinstance(content, dict) or not content:
        raise ConfigError(
            f"{path} must be a mapping from names to lists of rules; write `strict: [{{rule: one_step}}]`"
        )
    lists = {str(name): {"rules": rules} for name, rules in content.items()}
    return {name: validated(ServerConfig, rules, path, f": {name}").rules for name, rules in lists.items()}


# Requests that are given


def _read_requests(path: Path) -> tuple[tuple[str, str], ...]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read(FILE_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        what = f"--queries {str(path)!r} is none of {', '.join(DRAWN)}, and no file that can be read"
        raise InputError(f"{what}: give one of them, or CSV or JSON lines with user and variables") from error
    if len(text) > FILE_BYTES:
        raise InputError(f"{path} has more than {FILE_BYTES} characters; give {MOST_REQUESTS} requests at most")
    try:
        found = tuple(_csv_rows(path, text) if path.suffix == ".csv" else _json_rows(path, text))
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as CSV: {error}; correct it there") from error
    if not 0 < len(found) <= MOST_REQUESTS:
        raise InputError(f"{path} has {len(found)} requests; give 1 to {MOST_REQUESTS}")
    return found


def _csv_rows(path: Path, text: str) -> Iterator[tuple[str, str]]:
    rows = csv.DictReader(text.splitlines())
    if missing := {"user", "variables"} - set(rows.fieldnames or ()):
        raise InputError(f"{path} has no column {min(missing)!r}; give user and variables, such as ada,A*B")
    return ((row["user"] or "", row["variables"] or "") for row in rows)


def _json_rows(path: Path, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        try:
            row = json.loads(line)
            variables = row["variables"]
            yield str(row["user"]), variables if isinstance(variables, str) else "*".join(variables)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f'{path}: request {number} is not as {{"user": "ada", "variables": "A*B"}}; correct it there'
            ) from error


# The stage


def stage_of(simulation: ServerSimulation) -> Stage:
    """Makes the page and the figures; beside the stages of a build, and no part of it."""

    def make(work: Work, into: Path) -> None:
        from sdc.report.simulation import render

        facts = tried(work.build, simulation, work.executor)
        write_json(into / FACTS, facts)
        (into / PAGE).write_text(render(facts), encoding="utf-8")

    def sections(build: Build) -> Any:
        server = build.config.server
        whole = server and server.recorded()
        rule_sets = {name: recorded(rules, "server.rules") for name, rules in _dumped(simulation.rule_sets).items()}
        risk, release = build.config.risk.recorded(), build.config.release.recorded()
        return [simulation.facts, simulation.requests, simulation.listed, rule_sets, whole, risk, release]

    return Stage(STAGE, "tries rules on streams of requests", ("table", "widths"), sections, make)


def tried(build: Build, simulation: ServerSimulation, executor: Executor) -> dict[str, Any]:
    """The figures of each rule set, as the page and the command have them."""
    table, queries, start = build.made.table, simulation.queries_on(build), start_of(build, executor)
    rules = {name: rules_of(configs) for name, configs in simulation.rule_sets.items()}
    found = simulated(table, start, rules, queries, simulation.streams, simulation.seed, executor)
    batch, dumped = ordered_sub_tables(build, executor), _dumped(simulation.rule_sets)
    return {
        "name": build.config.name,
        "variables": list(table.schema.names),
        "records": table.total,
        **build.criteria.facts,
        **simulation.facts,
        "requests": queries.length,
        "first_release": start.state.released.sub_tables(table.schema),
        "ordered_release": batch,
        "rule_sets": [
            {"name": name, "rules": dumped[name], **summary(results, queries.everybody, batch)}
            for name, results in found.items()
        ],
    }


def _dumped(rule_sets: RuleSets) -> dict[str, list[dict[str, Any]]]:
    return {name: [rule.model_dump(mode="json") for rule in rules] for name, rules in rule_sets.items()}


def start_of(build: Build, executor: Executor) -> SimulationStart:
    """What the server of a config begins with.

    NothingReleasableError where that is not proven safe; ConfigError beyond 20 variables, whose sub-tables are listed.
    """
    server, schema = build.config.server or ServerConfig(), build.made.table.schema
    if len(schema) > MOST_LISTED:
        raise ConfigError(
            f"the table has {len(schema)} variables, and a simulation lists the sub-tables of {MOST_LISTED} at most; "
            "name fewer in table.variables"
        )
    settings = build.settings(executor)
    judge = Judge(build.made.table, build.made.known, build.criteria, settings.effort)
    public, _ = first_release(server.start, build.made.table, build.made.known)
    judge.require_safe(public, server.job_seconds)
    state = State.first(schema, public).knowing(judge.first_unreleasable(public))
    effort = build.settings().effort
    return SimulationStart(
        build.made.known, build.criteria, surveyed(judge, state), server.seconds, settings.weights(schema), effort
    )


def ordered_sub_tables(build: Build, executor: Executor) -> int:
    """How many sub-tables are released at once by the ordered search, which the build may have made already."""
    if build.config.release.method == "ordered" and "search" in build.folder.records():
        return build.made.found.release.sub_tables(build.made.table.schema)
    search = release_search(build.made.table, build.made.known, build.settings(executor), build.made.widths)
    return search.run("ordered").release.sub_tables(build.made.table.schema)
