"""A history under other rules: its requests decided again, beside what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdc.config.file import NOTHING_SET, Settings
from sdc.config.server import ServerConfig
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError, RunFolderError
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.state import State, Status
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.record.entry import OPENED, Entry
from sdc.risk.criteria import Criteria
from sdc.server.service.decision import Decider
from sdc.server.service.history import DECISION, REQUEST, HistoryProjection
from sdc.server.service.judge import Judge, surveyed
from sdc.server.service.rules import reveals, rules_of
from sdc.server.simulation.run import rule_sets_of
from sdc.server.simulation.simulation import Request, simulate_stream
from sdc.stages.resolved import ResolvedInput
from sdc.storage.run_folder import write_json
from sdc.utility.measures import Weights

PAGE, FACTS = "replay.html", "replay.json"


@dataclass(frozen=True)
class HistoryInput:
    """Of what a history is: the table, the criterion, and the settings of the server."""

    table: Table
    known: Knowledge
    criteria: Criteria
    server: ServerConfig
    weights: Weights


@dataclass(frozen=True)
class Recorded:
    """What a history records: what was public first, the requests, and their decisions.

    states    (requests + 1,) what was public before any request, and before the one after each
    outcomes  of each request, the last one; `lost` if there is none
    in_part   numbers of those, from 0, that accept suppressed cells; got_part  what came of that
    reveals   whether what contains a suppressed table may be released, by the rule with which it began
    """

    states: tuple[State, ...]
    requests: tuple[Request, ...]
    outcomes: tuple[str, ...]
    in_part: frozenset[int] = frozenset()
    got_part: tuple[SubTable, ...] = ()
    reveals: bool = True


def input_of(table: str | None, settings: Settings = NOTHING_SET) -> HistoryInput:
    """From a config, or a table with a minimum width; ConfigError where one of them is missing."""
    if table is None:
        raise ConfigError("a history does not have its table; give --table with the server's config or its table")
    about = ResolvedInput.open(table, settings, features=["replay"])
    schema, build = about.table.schema, about.build
    weights = Weights.equal(len(schema)) if build is None else build.settings().weights(schema)
    return HistoryInput(about.table, about.known, about.criteria(), about.config.server or ServerConfig(), weights)


def recorded(entries: Iterable[Entry], table: Table) -> Recorded:
    """What a history records, in its order; InputError where it begins with no frontiers, or is of another table.

    ChainError where entries do not follow from those before.
    """
    projection, states, outcomes = HistoryProjection(table.schema, table.total), list[State](), dict[int, str]()
    may_reveal = True
    for entry in entries:
        if entry.kind == OPENED:
            may_reveal = reveals(entry.body["about"])
            _require_variables(entry.body["about"].get("variables", ()), table.schema)
        elif entry.kind == REQUEST:
            states.append(_there(projection))
            outcomes[entry.seq] = "lost"
        elif entry.kind == DECISION:
            outcomes[entry.body["request"]] = str(entry.body["outcome"])
        projection.apply(entry)
    last, asked = _there(projection), list(projection.requests.values())
    return Recorded(
        (*states, last),
        tuple((request.sub_table, request.who) for request in asked),
        tuple(outcomes.values()),
        frozenset(k for k, request in enumerate(asked) if request.in_part),
        last.suppressed_tables.views,
        may_reveal,
    )


def _there(projection: HistoryProjection) -> State:
    if not projection.has_begun:
        raise InputError("the history does not begin with what was public first; give one that a server has made")
    return projection.state


def _require_variables(names: Iterable[str], schema: Schema) -> None:
    if unknown := set(names) - set(schema.names):
        have = ", ".join(schema.names)
        raise InputError(f"the history names the variable {min(unknown)!r}, the table has {have}; give its own table")


def replays(subject: HistoryInput, rules: str, entries: Iterable[Entry]) -> dict[str, Any]:
    """The figures of a history as it was, and as it would have been under each rule set."""
    past, rule_sets = recorded(entries, subject.table), rule_sets_of(rules, subject.server)
    judge = Judge(subject.table, subject.known, subject.criteria, reveals=past.reveals)
    judge.require_safe(past.states[0].released, subject.server.job_seconds)
    first = surveyed(judge, past.states[0])
    found = dict[str, Any]()
    for name, configs in rule_sets.items():
        decider = Decider(judge.anew(), rules_of(configs), subject.server.seconds, weights=subject.weights)
        one = simulate_stream(decider, first, lambda k, _: past.requests[k], len(past.requests), past.in_part)
        own = _facts(first.schema, (one.released, one.unreleasable), one.outcomes, one.frontier, one.in_part)
        found[name] = {"rules": [rule.model_dump(mode="json") for rule in configs], **own}
    released = [state.released.sub_tables(state.schema) for state in past.states]
    unreleasable = [state.count(Status.UNRELEASABLE) for state in past.states]
    public = past.states[-1].released.frontier, past.got_part
    return {
        "requests": len(past.requests),
        "users": len({who for _, who in past.requests}),
        **subject.criteria.facts,
        "as_it_was": _facts(first.schema, (released, unreleasable), past.outcomes, *public),
        "as_it_would_have_been": found,
    }


def _facts(
    schema: Schema, sizes: Iterable[Iterable[int]], outcomes: Iterable[str], *public: Iterable[SubTable]
) -> dict[str, Any]:
    """Sizes of R(t) and U(t), how many requests came out how, and the released frontier and suppressed tables."""
    released, unreleasable = map(list, sizes)
    frontier, suppressed = ([st.names(t, schema) for t in some] for some in public)
    # the last by their old key too, for one release
    named = {"frontier": frontier, "suppressed_tables": suppressed, "in_part": suppressed}
    counted = dict(sorted(Counter(outcomes).items()))
    return {"released": released, "unreleasable": unreleasable, "outcomes": counted, **named}


def replay_into(folder: Path, subject: HistoryInput, rules: str, entries: Iterable[Entry]) -> dict[str, Any]:
    """Writes the page and the figures for this user alone; RunFolderError where they cannot be written."""
    from sdc.report.simulation import render_replay
    from sdc.storage.whole_file import replacing

    facts = replays(subject, rules, entries)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(folder / FACTS, facts)
        with replacing(folder / PAGE) as page:
            page.write_text(render_replay(facts), encoding="utf-8")
    except OSError as error:
        raise RunFolderError(f"{folder} cannot be written: {error.strerror}; give another --out") from error
    return facts
