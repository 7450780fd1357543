"""The projection of a history: the state that its entries lead to. The same entries give the same projection."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sdc.config.old_keys import current
from sdc.model import subtable as st
from sdc.model.documents import plain
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.record.database import ChainError
from sdc.record.entry import FIRST, Entry, broken_links
from sdc.risk.assessment import Witness
from sdc.server.service.decision import Decision, Past
from sdc.server.service.judge import Finding
from sdc.server.service.levels import part_at
from sdc.server.service.outcome import NOR_IN_PART, NOT_RELEASED, PUBLIC, PUBLIC_STATES, WHOLE, PublicState
from sdc.server.service.rules import is_of_another_rule, is_rule, refusal_message
from sdc.server.service.views import Moment, Request

REQUEST, DECISION, FRONTIER = "request", "decision", "frontier"
FRONTIERS = ("released", "unreleasable", "undecided")
IN_PART, WITHHELD, VISITOR = "in_part", "withheld", "visitor"
STARTED = "started"


@dataclass(eq=False)
class HistoryProjection:
    """What is public, and what was asked; `apply` takes every entry of the history, in order.

    records   N
    seq, head  number and hash of the last entry
    state     R(t) and U(t)
    requests  by their number, which is that of their entry; `of_user` the numbers of those of each owner, in order
    rules     of any server so far, by name
    outcomes  how many decisions came out how
    pending   numbers of requests without a decision, in order; `waiting` those for the next round
    """

    schema: Schema
    records: int
    seq: int = 0
    head: str = FIRST
    state: State = field(init=False)
    first: int = 0
    requests: dict[int, Request] = field(default_factory=dict)
    of_user: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    pending: dict[int, None] = field(default_factory=dict)
    waiting: dict[int, None] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    interest: Counter[SubTable] = field(default_factory=Counter)
    caused: Counter[str] = field(default_factory=Counter)
    rules: set[str] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.state = State(self.schema, Release.of([]), ())

    @property
    def past(self) -> Past:
        return Past(self.first, self.interest, self.caused)

    @property
    def has_begun(self) -> bool:
        return bool(self.moments)

    def apply(self, entry: Entry) -> None:
        """ChainError where the entry does not follow from those before, or was changed since it was written."""
        for _, broken in broken_links([entry], self.seq, self.head):
            raise ChainError(f"the history is not as it was written: {broken}; restore it")
        try:
            match entry.kind:
                case "request":
                    self._ask(entry)
                case "decision":
                    self._decide(entry)
                case "frontier":
                    self._move(entry)
                case "started":
                    self.rules |= {self._known(entry, rule["rule"]) for rule in entry.body["rules"]}
        except (KeyError, TypeError, ValueError) as error:
            raise ChainError(f"entry {entry.seq} of the history is damaged: {type(error).__name__} {error}") from error
        self.seq, self.head = entry.seq, entry.hash

    def _ask(self, entry: Entry) -> None:
        subtable = self._of([entry.body["sub_table"]])[0]
        shown = PUBLIC_STATES["pending"]
        said = shown.decision, shown.code, shown.message
        in_part = bool(entry.body.get(IN_PART, False))
        owner = owner_of(entry.who, str(entry.body[VISITOR])) if VISITOR in entry.body else entry.who
        self.of_user[owner].append(entry.seq)
        own = len(self.of_user[owner])
        self.requests[entry.seq] = Request(entry.seq, own, entry.at, owner, subtable, *said, -1, in_part)
        self.pending[entry.seq] = None
        self.interest[subtable] += 1

    def _decide(self, entry: Entry) -> None:
        number, outcome = int(entry.body["request"]), entry.body["outcome"]
        request, version = self.requests[number], int(entry.body["version"])
        if outcome == "released":
            self._release(request)
        elif outcome == "released_in_part":
            part = part_at(request.sub_table, entry.body[WITHHELD], self.schema, self.records)
            self.state = self.state.answering(part)
            self._note(request.at, request.sub_table)
        if version != self.state.version:
            raise ChainError(
                f"entry {entry.seq} of the history says version {version}, it comes to {self.state.version}; restore it"
            )
        shown: PublicState = PUBLIC_STATES[outcome]
        self.outcomes[outcome] += 1
        rule = self._known(entry, entry.body["rule"])
        message = self._refusal(rule, request) if shown.decision == "refused" else shown.message
        if outcome == "released" and request.in_part:
            message = WHOLE
        self.requests[number] = replace(
            request, decision=shown.decision, code=shown.code, message=message, version=version
        )
        self.pending.pop(number, None)
        self.waiting.pop(number, None)
        if outcome == "waiting":
            self.waiting[number] = None

    def _known(self, entry: Entry, name: Any) -> str:
        rule = str(current({"rule": name}, "server.rules")["rule"])
        if not is_rule(rule):
            raise ChainError(
                f"entry {entry.seq} of the history names the rule {rule[:80]!r}, which this version of sdc does not "
                "know; use the version that wrote it"
            )
        return rule

    def _refusal(self, rule: str, request: Request) -> str:
        # an earlier version's rule of the same name had another reason
        if is_of_another_rule(rule, self.state.released, request.sub_table, self.schema):
            return NOR_IN_PART if request.in_part else NOT_RELEASED
        return refusal_message(rule, self.rules, self.schema, in_part=request.in_part)

    def _release(self, request: Request) -> None:
        before = self.state.released.sub_tables(self.schema)
        self.state = self.state.releasing(request.sub_table)
        self.caused[request.who] += self.state.released.sub_tables(self.schema) - before
        self._note(request.at, request.sub_table)

    def _move(self, entry: Entry) -> None:
        body = entry.body
        if not self.has_begun:
            released = Release.of(self._of(body["released"]))
            state = State.first(self.schema, released)
            self.state, self.first = state.knowing(self._of(body["unreleasable"])), released.sub_tables(self.schema)
            self._note(entry.at, None)
            return
        unreleasable, undecided = (self._of(body.get(f"{name}_added", ())) for name in FRONTIERS[1:])
        self.state = self.state.knowing(unreleasable, undecided)
        for name, frontier in zip(FRONTIERS, _frontiers(self.state), strict=True):
            came, left = (set(self._of(body[f"{name}_{what}"])) for what in ("added", "removed"))
            if body["version"] != self.state.version or not came <= set(frontier) or left & set(frontier):
                raise ChainError(
                    f"entry {entry.seq} of the history does not lead to the {name} frontier that follows from what was "
                    "released; restore it"
                )
        last = self.moments[-1]
        self.moments[-1] = replace(last, unreleasable=self.state.unreleasable)

    def _note(self, at: str, cause: SubTable | None) -> None:
        state, suppressed = self.state, self.state.suppressed_tables.views
        frontier, count = state.released.frontier, state.released.sub_tables(self.schema)
        self.moments.append(Moment(state.version, at, cause, frontier, state.unreleasable, count, suppressed))

    def _of(self, named: Iterable[Sequence[str]]) -> list[SubTable]:
        return [st.named(names, self.schema) for names in named]


def beginning(state: State, schema: Schema) -> dict[str, Any]:
    """The body of the first frontier entry."""
    return {"version": 0, "released": _named(state.released.frontier, schema)} | {
        name: _named(getattr(state, name), schema) for name in FRONTIERS[1:]
    }


def movement(old: State, new: State, schema: Schema) -> dict[str, Any] | None:
    """The body of a frontier entry: what came to each frontier, and what left it; None where nothing did."""
    changes: dict[str, Any] = {}
    for name, was, will in zip(FRONTIERS, _frontiers(old), _frontiers(new), strict=True):
        changes[f"{name}_added"] = _named([t for t in will if t not in was], schema)
        changes[f"{name}_removed"] = _named([t for t in was if t not in will], schema)
    return {"version": new.version, **changes} if any(changes.values()) else None


def _frontiers(state: State) -> tuple[tuple[SubTable, ...], ...]:
    return state.released.frontier, state.unreleasable, state.undecided


def owner_of(who: str, visitor: str) -> str:
    """Name one visitor of the public; no user is called so, see `NAME` of access."""
    return f"{who}/{visitor}"


def asked(subtable: SubTable, schema: Schema, *, in_part: bool, visitor: str = "") -> dict[str, Any]:
    """The body of a request entry."""
    body: dict[str, Any] = {"sub_table": st.names(subtable, schema), **({IN_PART: True} if in_part else {})}
    return {**body, VISITOR: visitor} if visitor else body


def decided(decision: Decision, number: int, subtable: SubTable, schema: Schema, milliseconds: float) -> dict[str, Any]:
    """The body of a decision entry: rule, criterion, bounds of the witness, and how long it took; suppressed cells."""
    finding = decision.finding
    part = decision.state.part(subtable) if decision.outcome == "released_in_part" else None
    return {
        "request": number,
        "sub_table": st.names(subtable, schema),
        "outcome": decision.outcome,
        "rule": decision.rule,
        "why": decision.why,
        **finding_facts(finding, schema, shows=decision.outcome not in PUBLIC),
        "version": decision.state.version,
        "milliseconds": round(milliseconds, 1),
        **({} if part is None else {WITHHELD: part.places(schema).tolist()}),
    }


def finding_facts(finding: Finding | None, schema: Schema, *, shows: bool = True) -> dict[str, Any]:
    """What the criterion found, as a decision entry has it; `shows` with the cell."""
    witness = finding.witness if finding and shows else None
    return {
        "verdict": finding.verdict.name.lower() if finding else None,
        "min_width": list(finding.min_width) if finding else None,
        "witness": None if witness is None else plain(Witness, witness, schema),
    }


def _named(subtables: Iterable[SubTable], schema: Schema) -> list[list[str]]:
    return [st.names(subtable, schema) for subtable in subtables]
