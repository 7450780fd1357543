"""What decides: one request after the other and round after round, with what takes long beside it."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial

from sdc.events import PROBLEM, SERVER, emit
from sdc.feasible.proof import Proof
from sdc.model.errors import SdcError
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.record.database import ChainError, ChainUnavailableError
from sdc.risk.verdict import Verdict
from sdc.server.service.decision import BY_CRITERION, Decision, Past
from sdc.server.service.intake import Queue, after
from sdc.server.service.judge import Finding, FoundSuppression
from sdc.server.service.log import RequestLog
from sdc.server.service.outcome import Transition
from sdc.server.service.views import Request
from sdc.server.service.workers import Answer, Seat, Worker

MOST_TRIES = 3  # of a decision whose evidence did not last
IDLE = 1.0  # seconds without a request
AGAIN = 1.0  # seconds until a decision is tried again that could not be stored

FAULT = "a request cannot be decided"
FAULTS = {
    ChainError: "the history cannot be read or written",
    BrokenProcessPool: "a process that decides has died",
}
"""What anybody may hear of what is wrong: no address, and nothing of the table."""


def fault_of(error: Exception) -> str:
    return next((text for kind, text in FAULTS.items() if isinstance(error, kind)), FAULT)


class Deciding(threading.Thread):
    """Decides the requests that are handed on, in their order; `fault` is what is wrong with that, empty of nothing.

    `outages` has how often each fault has begun.
    """

    def __init__(
        self,
        log: RequestLog,
        waiting: Queue,
        decider: Worker,
        certifier: Worker,
        keep: Callable[[State, Proof], None],
    ) -> None:
        super().__init__(daemon=True)
        self._log, self._waiting, self._keep = log, waiting, keep
        self._decider, self._certifier = decider, certifier
        self._numbers: queue.SimpleQueue[int | Future[int] | None] = queue.SimpleQueue()
        self._tries, self._parts_tried = Counter[int](), Counter[int]()
        self._found = dict[int, FoundSuppression | str]()  # of requests the suppressed table, or why there is none
        self._busy = set[int]()  # queued here, being certified, or tried again later
        self._left, self._looked = set[int](), 0.0  # what nobody seemed to decide at the last look, and when that was
        self._ends = threading.Event()
        self._is_stale = False  # what is kept of the evidence
        self.fault, self.outages = "", Counter[str]()

    def take(self, number: int) -> None:
        self._busy.add(number)
        self._numbers.put(number)

    def take_round(self, held: Future[int]) -> None:
        """A round, whose future is the number of requests that it decides."""
        self._numbers.put(held)

    def end(self) -> None:
        """Ends when what is being decided is stored; what waits is decided after the next start."""
        self._ends.set()
        self._numbers.put(None)

    def run(self) -> None:
        while (asked := self._next()) is not None and not self._ends.is_set():
            try:
                if isinstance(asked, Future):
                    asked.set_result(self._hold_round())
                else:
                    self._decide(asked)
                self._say("")
            except Exception as error:  # whatever it is, the next ones are to be decided
                # what cannot be decided or stored is not released, and tried again
                self._say(fault_of(error), error)
                if isinstance(asked, Future):
                    asked.set_exception(ChainUnavailableError(f"the round was not held: {self.fault}; hold it again"))
                else:
                    self._waiting.tell_early(asked)
                    self._busy.add(asked)
                    after(AGAIN, self._numbers.put, asked)

    def _say(self, fault: str, error: Exception | None = None) -> None:
        """Set what is wrong from now on, or nothing; a change is logged without a word of the error."""
        if fault != self.fault:
            self.fault = fault
            self.outages.update([fault] if fault else [])
            emit(PROBLEM, fault or "it is well again", SERVER, error=type(error).__name__ if error else None)

    def _next(self) -> int | Future[int] | None:
        """The next request or round; meanwhile what was left behind, and where none comes the evidence is kept."""
        while True:
            if time.monotonic() - self._looked > IDLE:
                self._take_up_what_was_left()
            try:
                return self._numbers.get(timeout=IDLE)
            except queue.Empty:
                self.keep_evidence()

    def _take_up_what_was_left(self) -> None:
        """Requests whose server has died, or did not learn that they were stored; each is decided once, by whomever."""
        self._looked = time.monotonic()
        try:
            self._log.refresh()
        except ChainError as error:
            self._say(fault_of(error), error)
            return
        if self.fault == FAULTS[ChainError]:
            self._say("")
        with self._log.still() as projection:
            left = set(projection.pending) - self._busy
        # at the second look: another server may be at it
        for number in sorted(left & self._left):
            self.take(number)
        self._left = left

    def _decide(self, number: int) -> None:
        """Decides a request that has no decision yet; again where something was released meanwhile."""
        begun = time.perf_counter()
        self._busy.discard(number)
        while (left := self._asked(number)) is not None:
            request, state, past = left
            decision = self._decider.ask(Seat.decide, state, past, request.sub_table, request.who).result()
            is_new = decision.finding is not None and self._tries[number] < MOST_TRIES
            if decision.transition is Transition.UNPROVEN and is_new:
                self._tries[number] += 1
                self._look_longer(request, state, Seat.certify, partial(self._certified, request, state))
                break
            if request.in_part and decision.transition in BY_CRITERION:
                asked = past, request.sub_table, request.who, decision, self._found.get(number)
                decision = self._decider.ask(Seat.decide_in_part, *asked).result()
                if decision.transition is Transition.NOT_IN_PART and self._parts_tried[number] < MOST_TRIES:
                    self._parts_tried[number] += 1
                    take = partial(self._found_in_part, number)
                    self._look_longer(request, decision.state, Seat.find_in_part, take)
                    break
            milliseconds = 1000 * (time.perf_counter() - begun)
            if self._stored(state, [(request, decision.lasting(request.sub_table))], milliseconds, waited=False):
                self._found.pop(number, None)
                break
        self._waiting.tell_early(number)

    def _asked(self, number: int) -> tuple[Request, State, Past] | None:
        """A request without a decision, and what comes before it; None where it has one."""
        with self._log.still() as projection:
            return (projection.requests[number], *self._log.before()) if number in projection.pending else None

    def _stored(
        self, state: State, decided: Sequence[tuple[Request, Decision]], milliseconds: float = 0.0, *, waited: bool
    ) -> bool:
        """Whether the decisions are stored; not where there are others by now, or what they rest on has changed.

        waited  of requests that waited for a round
        """
        with self._log.turn() as turn:
            known, projection = self._log.projection.state, self._log.projection
            left = projection.waiting if waited else projection.pending
            if known.version != state.version or any(request.number not in left for request, _ in decided):
                return False
            for request, decision in decided:
                turn.decide_from(known, decision, request, milliseconds)
                known = decision.state.knowing(known.unreleasable, known.undecided)
        self._is_stale |= any(one.transition in (Transition.SAFE, Transition.SAFE_IN_PART) for _, one in decided)
        return True

    # Rounds

    def _hold_round(self) -> int:
        """Decides all that waits: what the round chose is released, and the rest refused, or public by then."""
        while True:
            with self._log.still() as projection:
                requests = [projection.requests[number] for number in projection.waiting]
                state, past = self._log.before()
            waiting = [(request.sub_table, request.who, request.in_part) for request in requests]
            decided = self._decider.ask(Seat.round, state, past, waiting).result()
            if self._stored(state, [(requests[place], decision) for place, decision in decided], waited=True):
                return len(decided)

    # What takes long

    def _look_longer(
        self, request: Request, state: State, method: Callable[..., Answer], take: Callable[[Answer], None]
    ) -> None:
        """Looks into it beside what is decided meanwhile; `take` has what is found, and then it is decided again."""
        self._busy.add(request.number)

        def done(found: Future[Answer]) -> None:
            if self._ends.is_set():
                return  # it is pending still, and looked into after the next start
            # without an answer the next try decides without evidence: at worst it stays undecided
            if not found.cancelled() and found.exception() is None:
                take(found.result())
            self._numbers.put(request.number)

        self._certifier.ask(method, state, request.sub_table).add_done_callback(done)

    def _certified(self, request: Request, state: State, found: tuple[Finding, Proof | None]) -> None:
        finding, proof = found
        if proof is not None:
            # of a decider that dies just now nothing is learnt
            with suppress(BrokenProcessPool):
                self._decider.ask(Seat.learn, proof, state.releasing(request.sub_table))
        else:
            # longer than this nobody looks; unsafe or undecided is found again at once, or answered as undecided
            self._tries[request.number] = MOST_TRIES
        if finding.verdict is Verdict.UNSAFE:
            self._know_unsafe(request.sub_table)

    def _found_in_part(self, number: int, found: FoundSuppression | str) -> None:
        self._found[number] = found
        if isinstance(found, str):
            # longer than this nobody looks
            self._parts_tried[number] = MOST_TRIES

    def _know_unsafe(self, subtable: SubTable) -> None:
        try:
            with self._log.turn() as turn:
                old = self._log.projection.state
                turn.move(old, old.knowing([subtable]), subtable)
        except ChainError as error:
            self._say(fault_of(error), error)

    def keep_evidence(self) -> None:
        """Where there is more. Without it nothing is less safe, it would be found again at the next start."""
        if not self._is_stale:
            return
        self._is_stale, state = False, self._log.projection.state
        with suppress(BrokenProcessPool, SdcError, OSError):
            self._keep(state, self._decider.ask(Seat.proof, state).result())
