"""The log of requests: the history of a server, followed and written to, with the projection that it comes to."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sdc.model import subtable as st
from sdc.model.schema import Schema
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.record.chain import Chain, Turn
from sdc.record.database import ChainError
from sdc.record.entry import Entry
from sdc.server.service.decision import Decision, Past
from sdc.server.service.projection import DECISION, FRONTIER, HistoryProjection, beginning, decided, movement
from sdc.server.service.views import Request

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

    def decide(self, decision: Decision, number: int, subtable: SubTable, milliseconds: float = 0.0) -> None:
        """What became of the request of this number."""
        body = decided(decision, number, subtable, self.schema, milliseconds)
        self.append(DECISION, "", st.label(subtable, self.schema), body)

    def decide_from(self, old: State, decision: Decision, request: Request, milliseconds: float = 0.0) -> None:
        """And what it moves, with what was found out beside it."""
        self.decide(decision, request.number, request.sub_table, milliseconds)
        self.move(old, decision.state.knowing(old.unreleasable, old.undecided), request.sub_table)

    def move(self, old: State, new: State, subtable: SubTable) -> None:
        """The frontiers after a sub-table, where they move."""
        if body := movement(old, new, self.schema):
            self.append(FRONTIER, "", st.label(subtable, self.schema), body)


class RequestLog:
    """A history and its projection, for any thread; `followers` hear of each entry, of other servers too."""

    def __init__(self, history: Chain, schema: Schema, records: int) -> None:
        self.history, self.projection = history, HistoryProjection(schema, records)
        self.followers = list[Callable[[Entry], None]]()
        self._lock, self._fresh = threading.RLock(), 0.0

    def begin(self, first: State) -> None:
        """Takes over the whole history, and begins it where it is new."""
        self.refresh()
        if not self.projection.has_begun:
            with self.turn() as turn:
                if not self.projection.has_begun:
                    turn.append(FRONTIER, "", "", beginning(first, self.projection.schema))

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
        """What is wrong with the history, read now: nothing where the last entry known here is there, as it was.

        ChainError where it cannot be read.
        """
        with self._lock:
            seq, head = self.projection.seq, self.projection.head
        found = self.history.entries(seq - 1, limit=1)
        return "" if [entry.hash for entry in found] == [head] else CHANGED
