"""A service without a history, for tests of what stands before one: the myopic rule on a small table, at once."""

import copy
from collections import Counter
from concurrent.futures import Future
from typing import Any

from sdc.model import subtable as st
from sdc.model.state import State, sub_tables
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.publish.publication import NO_TEXTS
from sdc.risk.assessment import Witness
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Verdict
from sdc.server.service.judge import Effect, one_way
from sdc.server.service.outcome import PUBLIC_STATES, Explained, Moment, Outcome, Reply, Request
from sdc.server.service.service import Service
from tests.strategies import unknowing

AT = "2026-01-01T00:00:00.000Z"


class SmallService(Service):
    """Starts with the one-way sub-tables."""

    public_id = "0" * 32

    def __init__(self, table: Table, criteria: Criteria) -> None:
        self.title, self.schema, self.records = "Small", table.schema, table.total
        self.texts = NO_TEXTS
        self.rules: tuple[str, ...] = ("myopic",)
        self._table, self._evaluator = table, unknowing(table, criteria)
        self._state = self._surveyed(State.first(table.schema, one_way(table.schema)))
        self._told: list[tuple[Request, Witness | None]] = []
        self._moments = [self._moment(None)]

    def copy(self) -> "SmallService":
        """Another one that goes on from here."""
        found = copy.copy(self)
        found._told, found._moments = list(self._told), list(self._moments)
        return found

    @property
    def state(self) -> State:
        return self._state

    def ask(self, subtable: SubTable, who: str, *, in_part: bool = False) -> Future[Reply]:
        witness: Witness | None = None
        outcome: Outcome = "answered"
        if subtable not in self.state.released:
            evaluation = self._evaluator.evaluate(self.state.released.add(subtable))
            witness, outcome = next(iter(evaluation.assessment.witnesses), None), "refused"
            if evaluation.verdict is Verdict.SAFE:
                self._state, outcome = self._surveyed(self.state.releasing(subtable)), "released"
                self._moments.append(self._moment(subtable))
        told, own = PUBLIC_STATES[outcome], len(self.requests(who)) + 1
        said = told.decision, told.code, told.message
        request = Request(len(self._told) + 1, own, AT, who, subtable, *said, self.state.version)
        self._told.append((request, witness))
        future = Future[Reply]()
        future.set_result(Reply.to(request, self.state))
        return future

    def reply_to(self, own: int, who: str) -> Reply | None:
        found = (request for request, _ in self._told if (request.own, request.owner) == (own, who))
        return next((Reply.to(request, self.state) for request in found), None)

    def marginal(self, subtable: SubTable) -> Table | None:
        return self._table.marginal(subtable) if subtable in self.state.released and subtable else None

    def requests(self, who: str | None = None, limit: int = 1000) -> list[Request]:
        return [request for request, _ in self._told[::-1] if who in (None, request.owner)][:limit]

    def all_explained(self, limit: int) -> list[Explained]:
        return [one for one in map(self.explained, [r.number for r in self.requests(None, limit)]) if one]

    def explained(self, number: int, *, finds: bool = False) -> Explained | None:
        if not 1 <= number <= len(self._told):
            return None
        request, witness = self._told[number - 1]
        shown = None
        if witness is not None:
            cell = self.schema.named(list(witness.cell))
            shown = {"cell": cell, "count": witness.count, "outer": list(witness.outer), "inner": list(witness.inner)}
        return Explained(request, "myopic", "a cell is too narrow", "unsafe" if shown else None, None, shown, 1.0)

    def moments(self) -> list[Moment]:
        return list(self._moments)

    def _moment(self, cause: SubTable | None) -> Moment:
        state = self.state
        frontier, number = state.released.frontier, state.released.sub_tables(self.schema)
        return Moment(state.version, AT, cause, frontier, state.unreleasable, number)

    def round(self) -> Future[int]:
        future = Future[int]()
        future.set_result(0)
        return future

    def effect(self, subtable: SubTable) -> Future[Effect]:
        old, future = self.state, Future[Effect]()
        new = self._surveyed(old.releasing(subtable))
        released = tuple(t for t in st.subsets(subtable, self.schema) if t not in old.released)
        unreleasable = tuple(t for t in new.unreleasable if t not in old.unreleasable)
        newly = len(released), int((new.statuses == 3).sum() - (old.statuses == 3).sum())
        is_safe = self._evaluator.evaluate(new.released).verdict is Verdict.SAFE
        status = old.status(subtable)
        future.set_result(Effect(subtable, status, is_safe, released, unreleasable, newly, new, 1, 1))
        return future

    def tally(self) -> tuple[dict[str, int], dict[str, int]]:
        return Counter(request.decision for request, _ in self._told), {}

    def health(self) -> dict[str, Any]:
        return {"status": "ok", "version": self.state.version, "pending": 0}

    def _surveyed(self, state: State) -> State:
        for subtable in sorted(sub_tables(self.schema).tolist(), key=st.dimension):
            larger = state.released.add(subtable)
            if self._evaluator.evaluate(larger).verdict is Verdict.UNSAFE:
                state = state.knowing([subtable])
        return state
