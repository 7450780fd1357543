"""The service: each request is logged, decided and only then answered, one by one whatever the number of servers."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.events import FAULTY, SERVER, tell
from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError, SdcError
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.publish.publication import NO_TEXTS, Texts
from sdc.record.history import Entry, History, HistoryError, HistoryUnavailableError, Turn
from sdc.risk.verdict import Verdict
from sdc.server.desk.course import DECISION, FRONTIER, PENDING, REQUEST, Course, beginning, decided, movement
from sdc.server.desk.decision import Decision, Outcome, Past, at_once
from sdc.server.desk.desk import Explained, Moment, Reply, Request
from sdc.server.desk.effect import Effect
from sdc.server.desk.rules import MYOPIC, Batch, Rule
from sdc.server.desk.state import State
from sdc.server.desk.workers import Seat, Worker

MOST_AT_ONCE = 64  # requests that are logged in one turn
MOST_TRIES = 3  # of a decision whose evidence did not last
MOST_VARIABLES, MOST_IN_EFFECTS = 14, 20  # of which all statuses are told, and whose effects
IDLE = 1.0  # seconds without a request
AGAIN = 1.0  # seconds until a decision is tried again that could not be stored
FRESH = 0.1  # seconds for which what others released may not be seen here

ENDS = HistoryUnavailableError("this server ends; ask again")
FAULT = "a request cannot be decided"
CHANGED = "the history is not as it was"
FAULTS = {
    HistoryError: "the history cannot be read or written",
    BrokenProcessPool: "a process that decides has died",
}
"""What anybody may hear of what is wrong: no address, and nothing of the table."""


@dataclass(frozen=True)
class _Arrival:
    subtable: SubTable
    who: str
    at: float
    reply: Future[Reply]


class Service:
    """A desk over a history. What is public is what the history says; nothing is told that is not stored.

    Two threads: one logs requests as they come, many in one turn, and answers what is public already; the other
    decides the rest in their order. A decision is told one `slot` after the request came, whatever was decided and why;
    one that is not stored by then is pending.
    """

    def __init__(
        self,
        history: History,
        table: Table,
        first: State,
        begin: Callable[[bool], Worker],
        *,
        title: str,
        texts: Texts = NO_TEXTS,
        rules: tuple[Rule, ...],
        slot: float,
        keep: Callable[[State, Proof], None] = lambda state, proof: None,
    ) -> None:
        self.title, self.schema, self.records, self._rules = title, table.schema, table.total, rules
        self.texts = texts
        self.history, self._table, self._slot, self._keep = history, table, slot, keep
        self.course = Course(table.schema)
        self.followers = list[Callable[[Entry], None]]()  # who hears of each entry, of other servers too
        self._lock = threading.RLock()
        self._arrivals: queue.SimpleQueue[_Arrival | None] = queue.SimpleQueue()
        self._numbers: queue.SimpleQueue[int | Future[int] | None] = queue.SimpleQueue()
        self._told: dict[int, Future[Reply]] = {}
        self._tries: Counter[int] = Counter()
        self._busy = set[int]()  # queued here, being certified, or tried again later
        self._left, self._looked = set[int](), 0.0  # what nobody seemed to decide at the last look, and when that was
        self._fresh, self._fault, self._is_closing = 0.0, "", threading.Event()
        self._is_stale = False  # what is kept of the evidence
        self._begin(first)
        self._decider, self._certifier, self._effects = map(begin, (False, True, False))
        self._threads = [
            threading.Thread(target=self._log, daemon=True),
            threading.Thread(target=self._decide_all, daemon=True),
        ]
        self._decider.warm(self.state.released)
        self._effects.warm(self.state.released)
        for number in self.course.pending:
            self._queue(number)
        for thread in self._threads:
            thread.start()

    def _begin(self, first: State) -> None:
        """Takes over the whole history, and begins it where it is new."""
        self._apply(self.history.entries())
        if not self.course.has_begun:
            with self.history.turn() as turn:
                self._catch_up(turn)
                if not self.course.has_begun:
                    turn.append(FRONTIER, "", "", beginning(first, self.schema))
            self._refresh()

    def close(self) -> None:
        """Ends when what is being decided is stored; what waits is decided after the next start."""
        self._is_closing.set()
        self._arrivals.put(None)
        self._numbers.put(None)
        for thread in self._threads:
            thread.join()
        for number in list(self._told):
            self._tell(number)
        if self._is_stale:
            self._keep_evidence()
        self._decider.close()
        # what these find is not waited for
        self._certifier.end()
        self._effects.end()
        self.history.close()

    # What is asked of it

    @property
    def public_id(self) -> str:
        return self.history.public_id

    @property
    def rules(self) -> tuple[str, ...]:
        return (*(rule.name for rule in self._rules), MYOPIC)

    @property
    def state(self) -> State:
        return self.course.state

    def ask(self, subtable: SubTable, who: str) -> Future[Reply]:
        arrival = _Arrival(self.schema.closed(subtable), who, time.monotonic(), _promised())
        if self._is_closing.is_set():
            self._fail([arrival], ENDS)
        else:
            self._arrivals.put(arrival)
        return arrival.reply

    def reply_to(self, number: int, who: str) -> Reply | None:
        request = self._request(number)
        if request is not None and request.decision == PENDING:
            self._refresh_now_and_then()
            request = self._request(number)
        return self._reply(request) if request is not None and request.who == who else None

    def marginal(self, subtable: SubTable) -> Table | None:
        if subtable not in self.state.released:
            self._refresh_now_and_then()
        return self._table.marginal(subtable) if subtable and subtable in self.state.released else None

    def requests(self, who: str | None = None, limit: int = 1000) -> list[Request]:
        self._refresh_now_and_then()
        with self._lock:
            newest = reversed(self.course.requests.values())
            found = (request for request in newest if who is None or request.who == who)
            return [request for request, _ in zip(found, range(limit), strict=False)]

    def explained(self, number: int) -> Explained | None:
        request = self._request(number)
        if request is None:
            return None
        label = st.label(request.sub_table, self.schema)
        entries = self.history.entries(number, kinds=[DECISION], subject=label)
        bodies = [entry.body for entry in entries if entry.body["request"] == number]
        if not bodies:
            return Explained(request, "", "it is being looked into", None, None, None, 0.0)
        body = bodies[-1]
        width = None if body["min_width"] is None else (body["min_width"][0], body["min_width"][1])
        facts = body["rule"], body["why"], body["verdict"], width, body["witness"], body["milliseconds"]
        return Explained(request, *facts)

    def moments(self) -> list[Moment]:
        self._refresh_now_and_then()
        with self._lock:
            return list(self.course.moments)

    def effect(self, subtable: SubTable) -> Future[Effect]:
        """Of a table of up to 20 variables; ReleaseError beyond."""
        if len(self.schema) > MOST_IN_EFFECTS:
            raise ReleaseError(
                f"the table has {len(self.schema)} variables, effects are shown of at most {MOST_IN_EFFECTS}; look at "
                "the frontiers"
            )
        return self._effects.ask(Seat.effect, self.state, subtable)

    def statuses(self) -> npt.NDArray[np.uint8]:
        if len(self.schema) > MOST_VARIABLES:
            raise ReleaseError(
                f"the table has {len(self.schema)} variables, the status of every sub-table is told of at most "
                f"{MOST_VARIABLES}; look at the frontiers"
            )
        return self.state.statuses

    def health(self) -> dict[str, Any]:
        status = self._fault or self._fault_of_history() or "ok"
        return {"status": status, "version": self.state.version, "pending": len(self.course.pending)}

    def _fault_of_history(self) -> str:
        """What is wrong with it now, by reading it: nothing where the last entry known here is there, as it was."""
        with self._lock:
            seq, head = self.course.seq, self.course.head
        try:
            found = self.history.entries(seq - 1, limit=1)
        except HistoryError as error:
            return _fault_of(error)
        return "" if [entry.hash for entry in found] == [head] else CHANGED

    def store(self, kind: str, who: str, subject: str, body: Mapping[str, Any]) -> Entry:
        """Another entry of the history, such as a key's."""
        with self.history.turn() as turn:
            self._catch_up(turn)
            entry = turn.append(kind, who, subject, body)
        self._apply([entry])
        return entry

    def round(self) -> Future[int]:
        """Decides what waits for a round, together; the future is the number of requests that were decided."""
        done: Future[int] = _promised()
        self._numbers.put(done)
        return done

    # Following the history

    def _apply(self, entries: Iterable[Entry]) -> None:
        with self._lock:
            for entry in entries:
                # the other thread may have read it as somebody else's
                if entry.seq > self.course.seq:
                    self.course.apply(entry)
                    for follower in self.followers:
                        follower(entry)
            self._fresh = time.monotonic()

    def _catch_up(self, turn: Turn) -> None:
        self._apply(turn.entries(self.course.seq))
        if turn.last != (self.course.seq, self.course.head):
            raise HistoryError("the history has lost or changed entries that were read before; restore it")

    def _refresh(self) -> None:
        self._apply(self.history.entries(self.course.seq))

    def _refresh_now_and_then(self) -> None:
        if time.monotonic() - self._fresh > FRESH:
            self._refresh()

    def _request(self, number: int) -> Request | None:
        with self._lock:
            return self.course.requests.get(number)

    # Logging

    def _log(self) -> None:
        while (batch := self._next_arrivals()) is not None:
            try:
                self._note(batch)
            except Exception as error:  # whatever it is, those who come next are to be heard
                self._fail(batch, error)

    def _fail(self, batch: Iterable[_Arrival], error: Exception) -> None:
        """Of what was not stored, or is not known to be, nothing is told."""
        for arrival in batch:
            if not arrival.reply.done():
                arrival.reply.set_exception(error)

    def _next_arrivals(self) -> list[_Arrival] | None:
        """What has come since, one at least; None where the service ends."""
        batch = [self._arrivals.get()]
        while len(batch) < MOST_AT_ONCE and not self._arrivals.empty():
            batch.append(self._arrivals.get())
        arrivals = [arrival for arrival in batch if arrival]
        if len(arrivals) == len(batch):
            return arrivals
        self._fail(arrivals, ENDS)
        return None

    def _note(self, batch: list[_Arrival]) -> None:
        entries, numbers = list[Entry](), list[int]()
        with self.history.turn() as turn:
            self._catch_up(turn)
            for arrival in batch:
                label, names = st.label(arrival.subtable, self.schema), st.names(arrival.subtable, self.schema)
                asked = turn.append(REQUEST, arrival.who, label, {"sub_table": names})
                numbers.append(asked.seq)
                entries.append(asked)
                if (decision := at_once(self._rules, self.state, arrival.subtable)) is not None:
                    entries.append(self._append(turn, decision, asked.seq, arrival.subtable, 0.0))
        self._apply(entries)
        for arrival, number in zip(batch, numbers, strict=True):
            self._tell_in_time(arrival, number)

    def _append(self, turn: Turn, decision: Decision, number: int, subtable: SubTable, milliseconds: float) -> Entry:
        body = decided(decision, number, subtable, self.schema, milliseconds)
        return turn.append(DECISION, "", st.label(subtable, self.schema), body)

    def _append_with_frontier(
        self, turn: Turn, decision: Decision, request: Request, old: State, milliseconds: float
    ) -> list[Entry]:
        entries = [self._append(turn, decision, request.number, request.sub_table, milliseconds)]
        # with what was found out beside it
        new = decision.state.knowing(old.unreleasable, old.undecided)
        if body := movement(old, new, self.schema):
            entries.append(turn.append(FRONTIER, "", st.label(request.sub_table, self.schema), body))
        return entries

    def _tell_in_time(self, arrival: _Arrival, number: int) -> None:
        request = self.course.requests[number]
        if request.decision == "answered" or (request.decision != PENDING and not self._slot):
            arrival.reply.set_result(self._reply(request))
            return
        self._told[number] = arrival.reply
        if request.decision == PENDING:
            self._queue(number)
        if self._slot:
            left = max(0.0, arrival.at + self._slot - time.monotonic())
            timer = threading.Timer(left, self._tell, (number,))
            timer.daemon = True
            timer.start()

    def _tell(self, number: int) -> None:
        """What has become of a request by now."""
        future, request = self._told.pop(number, None), self._request(number)
        if future is not None and request is not None:
            future.set_result(self._reply(request))

    def _reply(self, request: Request) -> Reply:
        decision, subtable, state = request.decision, request.sub_table, self.state
        parts = () if decision in ("answered", "released") else state.projection(subtable)
        job = request.number if decision == PENDING else None
        return Reply(decision, request.code, request.message, subtable, state.version, parts, job)

    # Deciding

    def _decide_all(self) -> None:
        while (asked := self._next()) is not None and not self._is_closing.is_set():
            try:
                if isinstance(asked, Future):
                    asked.set_result(self._hold_round())
                else:
                    self._decide(asked)
                self._say("")
            except Exception as error:  # whatever it is, the next ones are to be decided
                # what cannot be decided or stored is not released, and tried again
                self._say(_fault_of(error), error)
                if isinstance(asked, Future):
                    asked.set_exception(
                        HistoryUnavailableError(f"the round was not held: {self._fault}; hold it again")
                    )
                else:
                    self._later(asked, AGAIN)
                    if not self._slot:
                        self._tell(asked)

    def _say(self, fault: str, error: Exception | None = None) -> None:
        """What is wrong from now on, nothing where it is empty; told where it changes, without a word of the error."""
        if fault != self._fault:
            self._fault = fault
            tell(FAULTY, fault or "it is well again", SERVER, error=type(error).__name__ if error else None)

    def _next(self) -> int | Future[int] | None:
        """The next request or round; meanwhile what was left behind, and where none comes the evidence is kept."""
        while True:
            if time.monotonic() - self._looked > IDLE:
                self._take_up_what_was_left()
            try:
                return self._numbers.get(timeout=IDLE)
            except queue.Empty:
                if self._is_stale:
                    self._keep_evidence()

    def _take_up_what_was_left(self) -> None:
        """Requests whose server has died, or did not learn that they were stored; each is decided once, by whomever."""
        self._looked = time.monotonic()
        try:
            self._refresh()
        except HistoryError as error:
            self._say(_fault_of(error), error)
            return
        if self._fault == FAULTS[HistoryError]:
            self._say("")
        with self._lock:
            left = set(self.course.pending) - self._busy
        # at the second look: another server may be at it
        for number in sorted(left & self._left):
            self._queue(number)
        self._left = left

    def _queue(self, number: int) -> None:
        self._busy.add(number)
        self._numbers.put(number)

    def _later(self, number: int, seconds: float) -> None:
        if not self._slot:
            self._tell(number)
        self._busy.add(number)
        timer = threading.Timer(seconds, self._numbers.put, (number,))
        timer.daemon = True
        timer.start()

    def _decide(self, number: int) -> None:
        """Decides a request that has no decision yet; again where something was released meanwhile."""
        begun = time.perf_counter()
        self._busy.discard(number)
        while (asked := self._asked(number)) is not None:
            request, state, past = asked
            question = state, past, request.sub_table, request.who
            decision = self._decider.ask(Seat.decide, *question).result()
            if decision.outcome == "undecided":
                if decision.finding is not None and self._tries[number] < MOST_TRIES:
                    self._certify(request, state)
                    return
                decision = replace(decision, state=decision.state.knowing(undecided=[request.sub_table]))
            if self._stored(decision, request, state, 1000 * (time.perf_counter() - begun)):
                break
        if not self._slot:
            self._tell(number)

    def _asked(self, number: int) -> tuple[Request, State, Past] | None:
        with self._lock:
            if number not in self.course.pending:
                return None
            past = self.course.past
            copied = Past(past.first, Counter(past.interest), Counter(past.caused))
            return self.course.requests[number], self.course.state, copied

    def _stored(self, decision: Decision, request: Request, state: State, milliseconds: float) -> bool:
        """Whether the decision is stored; not where what it rests on has changed."""
        with self.history.turn() as turn:
            self._catch_up(turn)
            if request.number not in self.course.pending:
                return True
            if self.state.version != state.version:
                return False
            entries = self._append_with_frontier(turn, decision, request, self.state, milliseconds)
        self._apply(entries)
        self._is_stale |= decision.outcome == "released"
        return True

    # Rounds

    def _hold_round(self) -> int:
        """Decides all that waits: what the round chose is released, and the rest refused, or public by then."""
        while True:
            with self._lock:
                waiting = [self.course.requests[number] for number in self.course.waiting]
                state, past = self.course.state, self.course.past
            interest = Counter(request.sub_table for request in waiting)
            chosen = self._decider.ask(Seat.round, state, interest).result()
            found = list(self._of_round(state, past, waiting, chosen))
            if self._stored_together(state, found):
                return len(found)

    def _of_round(
        self, state: State, past: Past, waiting: list[Request], chosen: Iterable[SubTable]
    ) -> Iterator[tuple[Request, Decision]]:
        first = {request.sub_table: request for request in reversed(waiting)}
        decided_first = set[int]()
        for subtable in chosen:
            request = first[subtable]
            decision = self._decider.ask(Seat.decide_in_round, state, past, subtable, request.who).result()
            if decision.outcome == "undecided":
                decision = replace(decision, state=decision.state.knowing(undecided=[subtable]))
            state = decision.state
            decided_first.add(request.number)
            yield request, decision
        for request in waiting:
            if request.number not in decided_first:
                is_public = request.sub_table in state.released
                outcome: Outcome = "answered" if is_public else "refused"
                why = "it is public since this round" if is_public else "this round released what serves more interest"
                yield request, Decision(outcome, Batch.name, why, state)

    def _stored_together(self, state: State, found: list[tuple[Request, Decision]]) -> bool:
        with self.history.turn() as turn:
            self._catch_up(turn)
            if self.state.version != state.version or any(r.number not in self.course.waiting for r, _ in found):
                return False
            entries = list[Entry]()
            for request, decision in found:
                entries += self._append_with_frontier(turn, decision, request, state, 0.0)
                state = decision.state
        self._apply(entries)
        self._is_stale |= bool(found)
        return True

    # What takes long

    def _certify(self, request: Request, state: State) -> None:
        """Looks into it for longer, beside what is decided meanwhile, and then decides again."""
        if not self._slot:
            self._tell(request.number)
        self._tries[request.number] += 1
        self._busy.add(request.number)
        future = self._certifier.ask(Seat.certify, state, request.sub_table)
        future.add_done_callback(lambda done: self._certified(done, request, state))

    def _certified(self, done: Future[Any], request: Request, state: State) -> None:
        number = request.number
        if self._is_closing.is_set():
            return  # it is pending still, and looked into after the next start
        if done.cancelled() or done.exception() is not None:
            # the next try decides without evidence: at worst it stays undecided
            self._numbers.put(number)
            return
        finding, proof = done.result()
        if proof is not None:
            # of a decider that dies just now nothing is learnt
            with suppress(BrokenProcessPool):
                self._decider.ask(Seat.learn, proof, state.released.add(request.sub_table))
        else:
            # longer than this nobody looks; unsafe or undecided is found again at once, or told as undecided
            self._tries[number] = MOST_TRIES
        if finding.verdict is Verdict.UNSAFE:
            self._know_unsafe(request.sub_table)
        self._numbers.put(number)

    def _know_unsafe(self, subtable: SubTable) -> None:
        try:
            with self.history.turn() as turn:
                self._catch_up(turn)
                old = self.state
                body = movement(old, old.knowing([subtable]), self.schema)
                entries = [turn.append(FRONTIER, "", st.label(subtable, self.schema), body)] if body else []
            self._apply(entries)
        except HistoryError as error:
            self._say(_fault_of(error), error)

    def _keep_evidence(self) -> None:
        """Without it nothing is less safe: after the next start it would only have to be found again."""
        self._is_stale, state = False, self.state
        with suppress(BrokenProcessPool, SdcError, OSError):
            self._keep(state, self._decider.ask(Seat.proof, state).result())


def _promised() -> Future[Any]:
    """A future that is kept whoever still waits for it: none that is cancelled, which would not take its result."""
    found = Future[Any]()
    found.set_running_or_notify_cancel()
    return found


def _fault_of(error: Exception) -> str:
    return next((text for kind, text in FAULTS.items() if isinstance(error, kind)), FAULT)
