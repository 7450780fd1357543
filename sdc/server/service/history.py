"""The history of a server: what its entries say, the state that they lead to, and the log that is written to.

The same entries give the same projection.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from sdc.config.old_keys import current
from sdc.model import subtable as st
from sdc.model.documents import plain
from sdc.model.release import Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable
from sdc.record.chain import Chain, Turn
from sdc.record.database import ChainError
from sdc.record.entry import FIRST, Entry, broken_links
from sdc.risk.assessment import Witness
from sdc.server.service.decision import Decision
from sdc.server.service.judge import Finding
from sdc.server.service.outcome import NOR_IN_PART, NOT_RELEASED, PUBLIC, PUBLIC_STATES, WHOLE, Moment, Request
from sdc.server.service.rules import Past, is_of_another_rule, is_rule, refusal_message

LEVELS = "levels"


def levels_of(schema: Schema) -> dict[str, Any]:
    """What a history says of levels: of each its axis and the groups of that; nothing where there are none."""
    levels = {v.name: {"of": v.of.axis, "groups": list(v.of.groups)} for v in schema.variables if v.of is not None}
    return {LEVELS: levels} if levels else {}


def schema_in(about: Mapping[str, Any]) -> Schema | None:
    """Variables and levels as a history has them, categories by number; None for a history without levels.

    KeyError, TypeError, ValueError, AttributeError or InputError for what no server wrote.
    """
    if LEVELS not in about:
        return None
    of = {name: Coarser(level["of"], tuple(level["groups"])) for name, level in about[LEVELS].items()}
    sizes = {level.axis: len(level.groups) for level in of.values()}
    sizes |= {name: len(set(level.groups)) for name, level in of.items()}
    return Schema(
        tuple(Variable(name, tuple(map(str, range(sizes.get(name, 1)))), of.get(name)) for name in about["variables"])
    )


def implied_levels(schema: Schema) -> dict[str, list[str]]:
    """The coarser levels of each variable that has some: a table of the variable implies them."""
    told = zip(schema.names, schema.levels.coarser, strict=True)
    return {name: [schema.names[v] for v in st.members(coarser)] for name, coarser in told if coarser}


NO_PARTS_HERE = (
    "This server suppresses no cells: which ones would depend on the records, and its rule simulatable lets "
    "nothing depend on them but what is released whole; ask for the table as it is."
)


def part_at(view: SubTable, places: Any, schema: Schema, total: int) -> SuppressedTable:
    """The sub-table of N records without the cells at these places.

    TypeError or ValueError as `require_places`, ValueError too where it has no such cells.
    """
    require_places(places)
    if places[-1] >= st.cells(view, schema):
        raise ValueError(f"it has no cell at the place {places[-1]}")
    return SuppressedTable.at(view, np.array(places, np.int64), schema, total)


def require_places(places: Any) -> None:
    """TypeError where they are not a list of whole numbers, ValueError where there are none, or not ascending ones."""
    if not isinstance(places, list) or not all(type(place) is int for place in places):
        raise TypeError("the places of suppressed cells are not a list of whole numbers")
    if not places or places[0] < 0 or any(one >= other for one, other in pairwise(places)):
        raise ValueError("the places of suppressed cells are not in ascending order")


REQUEST, DECISION, FRONTIER = "request", "decision", "frontier"
FRONTIERS = ("released", "unreleasable", "undecided")
IN_PART, WITHHELD, VISITOR = "in_part", "withheld", "visitor"
STARTED = "started"


@dataclass(eq=False)
class HistoryProjection:
    """What is public, and what was asked of N records; `apply` takes every entry of the history, in order.

    seq, head  number and hash of the last entry
    requests   by their number, which is that of their entry; `of_user` the numbers of those of each owner, in order
    rules      of any server so far, by name; `outcomes` how many decisions came out how
    pending    numbers of requests without a decision, in order; `waiting` those for the next round
    """

    schema: Schema
    records: int
    seq: int = 0
    head: str = FIRST
    state: State = field(init=False)
    requests: dict[int, Request] = field(default_factory=dict)
    of_user: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    pending: dict[int, None] = field(default_factory=dict)
    waiting: dict[int, None] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    past: Past = field(default_factory=lambda: Past(0))
    rules: set[str] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.state = State(self.schema, Release.of([]), ())

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
            raise ChainError(
                f"entry {entry.seq} of the history is corrupt: {type(error).__name__} {error}; restore the history"
            ) from error
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
        self.past.interest[subtable] += 1

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
                f"entry {entry.seq} of the history has version {version} instead of {self.state.version}; restore "
                "the history"
            )
        shown = PUBLIC_STATES[outcome]
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
        self.past.caused[request.who] += self.state.released.sub_tables(self.schema) - before
        self._note(request.at, request.sub_table)

    def _move(self, entry: Entry) -> None:
        body = entry.body
        if not self.has_begun:
            released = Release.of(self._of(body["released"]))
            state = State.first(self.schema, released)
            self.state = state.knowing(self._of(body["unreleasable"]))
            self.past = replace(self.past, first=released.sub_tables(self.schema))
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


def _frontiers(state: State) -> tuple[tuple[SubTable, ...], ...]:
    return state.released.frontier, state.unreleasable, state.undecided


def owner_of(who: str, visitor: str) -> str:
    """Name one visitor of the public; no user is called so, see `NAME` of access."""
    return f"{who}/{visitor}"


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


FRESH = 0.1  # seconds for which what others released may not be seen here
CHANGED = "the history is not as it was"


@dataclass
class Writing:
    """What one turn writes; `entries` as far as it has."""

    turn: Turn
    schema: Schema
    entries: list[Entry] = field(default_factory=list)

    def append(self, kind: str, who: str, subject: str, body: Mapping[str, Any]) -> Entry:
        self.entries.append(self.turn.append(kind, who, subject, body))
        return self.entries[-1]

    def begin(self, state: State) -> None:
        """What is public first."""
        frontiers = zip(FRONTIERS, _frontiers(state), strict=True)
        named = {name: _named(frontier, self.schema) for name, frontier in frontiers}
        self.append(FRONTIER, "", "", {"version": 0, **named})

    def ask(self, subtable: SubTable, owner: str, *, in_part: bool) -> int:
        """A request; its number is that of its entry."""
        who, _, visitor = owner.partition("/")
        more = ({IN_PART: True} if in_part else {}) | ({VISITOR: visitor} if visitor else {})
        label, names = st.label(subtable, self.schema), st.names(subtable, self.schema)
        return self.append(REQUEST, who, label, {"sub_table": names, **more}).seq

    def decide(self, decision: Decision, number: int, subtable: SubTable, milliseconds: float = 0.0) -> None:
        """What became of a request: rule, criterion, bounds and cell of a refusal, suppressed cells."""
        body = {
            "request": number,
            "sub_table": st.names(subtable, self.schema),
            "outcome": decision.outcome,
            "rule": decision.rule,
            "why": decision.why,
            **finding_facts(decision.finding, self.schema, shows=decision.outcome not in PUBLIC),
            "version": decision.state.version,
            "milliseconds": round(milliseconds, 1),
        }
        if decision.outcome == "released_in_part" and (part := decision.state.part(subtable)):
            body[WITHHELD] = part.places(self.schema).tolist()
        self.append(DECISION, "", st.label(subtable, self.schema), body)

    def decide_from(self, old: State, decision: Decision, request: Request, milliseconds: float = 0.0) -> None:
        """And what it moves, with what was found out beside it."""
        self.decide(decision, request.number, request.sub_table, milliseconds)
        self.move(old, decision.state.knowing(old.unreleasable, old.undecided), request.sub_table)

    def move(self, old: State, new: State, subtable: SubTable) -> None:
        """What came to each frontier after a sub-table, and what left it; no entry where nothing did."""
        changes: dict[str, Any] = {}
        for name, was, will in zip(FRONTIERS, _frontiers(old), _frontiers(new), strict=True):
            changes[f"{name}_added"] = _named([t for t in will if t not in was], self.schema)
            changes[f"{name}_removed"] = _named([t for t in was if t not in will], self.schema)
        if any(changes.values()):
            self.append(FRONTIER, "", st.label(subtable, self.schema), {"version": new.version, **changes})


class RequestLog:
    """A history and its projection, for any thread; `followers` hear of each entry, of other servers too."""

    def __init__(self, history: Chain, schema: Schema, records: int) -> None:
        self.history, self.projection = history, HistoryProjection(schema, records)
        self.followers = list[Callable[[Entry], None]]()
        self._lock, self._fresh = threading.RLock(), 0.0

    def begin(self, first: State) -> None:
        """Takes over the whole history, and begins it where it is new.

        ChainError where something is public first that is not public by the history, which judged without it.
        """
        self.refresh()
        if not self.projection.has_begun:
            with self.turn() as turn:
                if not self.projection.has_begun:
                    turn.begin(first)
        public = self.projection.state.released
        if more := [view for view in first.released.frontier if view not in public]:
            schema = self.projection.schema
            raise ChainError(
                f"{self.history.called} began with another first release, and what it released was judged without "
                f"{st.label(more[0], schema)}, which server.start has; set server.start as it was, or name another "
                "history"
            )

    @contextmanager
    def turn(self) -> Iterator[Writing]:
        """Alone with the history, all of it read; what is written is taken over when it is stored."""
        with self.history.turn() as turn:
            self._apply(turn.entries(self.projection.seq))
            if turn.last != (self.projection.seq, self.projection.head):
                raise ChainError("the history has lost or changed entries that were read before; restore it")
            writing = Writing(turn, self.projection.schema)
            yield writing
        self._apply(writing.entries)

    def store(self, kind: str, who: str, subject: str, body: Mapping[str, Any]) -> Entry:
        """Another entry of the history, such as a key's."""
        with self.turn() as turn:
            return turn.append(kind, who, subject, body)

    def refresh(self) -> None:
        """Takes over what others wrote."""
        self._apply(self.history.entries(self.projection.seq))

    def refresh_now_and_then(self) -> None:
        if time.monotonic() - self._fresh > FRESH:
            self.refresh()

    def _apply(self, entries: Iterable[Entry]) -> None:
        with self._lock:
            for entry in entries:
                # the other thread may have read it as somebody else's
                if entry.seq > self.projection.seq:
                    self.projection.apply(entry)
                    for follower in self.followers:
                        follower(entry)
            self._fresh = time.monotonic()

    @contextmanager
    def still(self) -> Iterator[HistoryProjection]:
        """The projection while nothing is taken over."""
        with self._lock:
            yield self.projection

    def request(self, number: int) -> Request | None:
        with self._lock:
            return self.projection.requests.get(number)

    def own_request(self, own: int, who: str) -> Request | None:
        """The request that its user knows by this number."""
        with self._lock:
            numbers = self.projection.of_user.get(who, [])
            return self.projection.requests[numbers[own - 1]] if 1 <= own <= len(numbers) else None

    def before(self) -> tuple[State, Past]:
        """What is public, and what was asked so far."""
        with self._lock:
            past = self.projection.past
            return self.projection.state, Past(past.first, Counter(past.interest), Counter(past.caused))

    def change(self) -> str:
        """What is wrong with the history, read now; ChainError where it cannot be read."""
        with self._lock:
            seq, head = self.projection.seq, self.projection.head
        found = self.history.entries(seq - 1, limit=1)
        return "" if [entry.hash for entry in found] == [head] else CHANGED
