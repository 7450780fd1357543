"""Where requests come in: each is stored before it is answered, many in one turn of the history."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from sdc.model import subtable as st
from sdc.model.subtable import SubTable
from sdc.record.database import ChainUnavailableError
from sdc.server.service.decision import at_once
from sdc.server.service.log import RequestLog
from sdc.server.service.outcome import PUBLIC
from sdc.server.service.projection import REQUEST, asked
from sdc.server.service.rules import Rule
from sdc.server.service.views import Reply, Request

MOST_AT_ONCE = 64  # requests that are logged in one turn
ENDS = ChainUnavailableError("this server ends; ask again")


def promised() -> Future[Any]:
    """A future that cannot be cancelled, so that it takes its result even if nobody waits for it any more."""
    found = Future[Any]()
    found.set_running_or_notify_cancel()
    return found


def after(seconds: float, does: Callable[[int], None], number: int) -> None:
    """Does something about a request later, unless the process ends before."""
    timer = threading.Timer(seconds, does, (number,))
    timer.daemon = True
    timer.start()


@dataclass(frozen=True)
class Arrival:
    """A request that is not stored yet."""

    subtable: SubTable
    who: str
    in_part: bool = False
    at: float = field(default_factory=time.monotonic)
    reply: Future[Reply] = field(default_factory=promised)

    def fail(self, error: Exception) -> None:
        """Nothing is answered that was not stored, or is not known to be."""
        if not self.reply.done():
            self.reply.set_exception(error)


class Queue:
    """Requests that wait for a decision: answered one `slot` after they came, whatever it is; at once without a slot.

    One that is not stored by then is pending.
    """

    def __init__(self, log: RequestLog, slot: float) -> None:
        self._log, self._slot = log, slot
        self._waiting: dict[int, Future[Reply]] = {}

    def reply(self, request: Request) -> Reply:
        """The answer to a request now."""
        decision, subtable, state = request.decision, request.sub_table, self._log.projection.state
        parts = () if decision in PUBLIC else state.projection(subtable)
        job = request.own if decision == "pending" else None
        shown = decision, request.code, request.message
        return Reply(*shown, subtable, state.version, parts, job, request.in_part)

    def add(self, arrival: Arrival, request: Request) -> None:
        """Who asked for what is public need not wait."""
        if request.decision == "answered" or (request.decision != "pending" and not self._slot):
            arrival.reply.set_result(self.reply(request))
            return
        self._waiting[request.number] = arrival.reply
        if self._slot:
            after(max(0.0, arrival.at + self._slot - time.monotonic()), self.tell, request.number)

    def tell(self, number: int) -> None:
        """What has become of a request by now."""
        future, request = self._waiting.pop(number, None), self._log.request(number)
        if future is not None and request is not None:
            future.set_result(self.reply(request))

    def tell_early(self, number: int) -> None:
        """As soon as there is anything to tell, where no slot is waited for."""
        if not self._slot:
            self.tell(number)

    def end(self) -> None:
        """Answer all that wait."""
        for number in list(self._waiting):
            self.tell(number)


class Intake(threading.Thread):
    """Stores requests as they come, answers what is public already, and hands on the rest."""

    def __init__(self, log: RequestLog, rules: Iterable[Rule], waiting: Queue, hand_on: Callable[[int], None]) -> None:
        super().__init__(daemon=True)
        self._log, self._rules, self._waiting, self._hand_on = log, tuple(rules), waiting, hand_on
        self._arrivals: queue.SimpleQueue[Arrival | None] = queue.SimpleQueue()
        self._ends = False

    def take(self, arrival: Arrival) -> Future[Reply]:
        if self._ends:
            arrival.fail(ENDS)
        else:
            self._arrivals.put(arrival)
        return arrival.reply

    def end(self) -> None:
        """Ends when what came before is stored."""
        self._ends = True
        self._arrivals.put(None)

    def run(self) -> None:
        while (batch := self._next()) is not None:
            try:
                self._store(batch)
            except Exception as error:  # whatever it is, those who come next are to be heard
                for arrival in batch:
                    arrival.fail(error)

    def _next(self) -> list[Arrival] | None:
        """What has come since, one at least; None where the service ends."""
        batch = [self._arrivals.get()]
        while len(batch) < MOST_AT_ONCE and not self._arrivals.empty():
            batch.append(self._arrivals.get())
        arrivals = [arrival for arrival in batch if arrival]
        if len(arrivals) == len(batch):
            return arrivals
        for arrival in arrivals:
            arrival.fail(ENDS)
        return None

    def _store(self, batch: list[Arrival]) -> None:
        numbers, projection = list[int](), self._log.projection
        with self._log.turn() as turn:
            for arrival in batch:
                subtable, in_part = arrival.subtable, arrival.in_part
                who, _, visitor = arrival.who.partition("/")
                body = asked(subtable, projection.schema, in_part=in_part, visitor=visitor)
                numbers.append(turn.append(REQUEST, who, st.label(subtable, projection.schema), body).seq)
                if (decision := at_once(self._rules, projection.state, subtable, in_part=in_part)) is not None:
                    turn.decide(decision, numbers[-1], subtable)
        for arrival, number in zip(batch, numbers, strict=True):
            request = projection.requests[number]
            self._waiting.add(arrival, request)
            if request.decision == "pending":
                self._hand_on(number)
