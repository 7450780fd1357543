"""One event loop that logs requests as they come, decides them in their order, and answers each in its slot."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sdc.events import PROBLEM, SERVER, emit
from sdc.feasible.proof import Proof
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.record.database import ChainError, ChainUnavailableError
from sdc.risk.verdict import Verdict
from sdc.server.service.decision import BY_CRITERION, Decision, at_once
from sdc.server.service.history import RequestLog
from sdc.server.service.judge import FoundSuppression
from sdc.server.service.outcome import Reply, Request, Transition
from sdc.server.service.rules import Past, Rule
from sdc.server.service.workers import Answer, Seat, Worker

MOST_AT_ONCE = 64  # requests that are logged in one turn
MOST_TRIES = 3  # of a decision whose evidence did not last
IDLE = 1.0  # seconds without a request
AGAIN = 1.0  # seconds until a decision is tried again that could not be stored
ENDS = ChainUnavailableError("this server ends; ask again")

FAULT = "a request cannot be decided"
FAULTS = {
    ChainError: "the history cannot be read or written",
    BrokenProcessPool: "a process that decides has died",
}
"""What anybody may hear of what is wrong: no address, and nothing of the table."""


def fault_of(error: Exception) -> str:
    return next((text for kind, text in FAULTS.items() if isinstance(error, kind)), FAULT)


def promised() -> Future[Any]:
    """A future that cannot be cancelled, so that it takes its result even if nobody waits for it any more."""
    found = Future[Any]()
    found.set_running_or_notify_cancel()
    return found


@dataclass(frozen=True)
class Arrival:
    """A request that is not stored yet."""

    subtable: SubTable
    who: str
    in_part: bool
    at: float = field(default_factory=time.monotonic)
    reply: Future[Reply] = field(default_factory=promised)


@dataclass
class Attempt:
    """A request that this server is deciding: how often it was looked into for longer, and the suppressed table found.

    found  or why there is none
    """

    tries: int = 0
    parts_tried: int = 0
    found: FoundSuppression | str | None = None


@dataclass(eq=False)
class Deciding:
    """The loop, in a thread of its own; nothing is answered that is not stored.

    A request for what is public is answered at once, any other one `slot` seconds after it came, whatever it is and
    why; without a slot as soon as there is anything to say. One that is not decided by then is pending. `fault` is
    what is wrong with deciding, empty if nothing is; `outages` how often each fault has begun.
    """

    log: RequestLog
    rules: tuple[Rule, ...]
    slot: float
    decider: Worker
    certifier: Worker
    keep: Callable[[State, Proof], None]
    fault: str = ""
    outages: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._loop, self._lock, self._ends = asyncio.new_event_loop(), threading.Lock(), False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._arrivals: asyncio.Queue[Arrival | None] = asyncio.Queue()
        self._numbers: asyncio.Queue[int | Future[int] | None] = asyncio.Queue()
        self._waiting, self._attempts = dict[int, Future[Reply]](), dict[int, Attempt]()
        self._promises, self._tasks = set[Future[Any]](), set[asyncio.Task[None]]()
        self._left, self._looked = set[int](), 0.0  # what nobody seemed to decide at the last look, and when that was
        self._is_stale = False  # what is kept of the evidence

    def start(self) -> None:
        """Also takes up what has no decision yet."""
        for number in self.log.projection.pending:
            self._take(number)
        self._thread.start()

    def end(self) -> None:
        """Return when what is being decided is stored; what waits is decided after the next start."""
        with self._lock:
            if not self._ends:
                self._ends = True
                self._loop.call_soon_threadsafe(self._arrivals.put_nowait, None)
                self._loop.call_soon_threadsafe(self._numbers.put_nowait, None)
        self._thread.join()

    def ask(self, subtable: SubTable, who: str, *, in_part: bool) -> Future[Reply]:
        """Log and decide a request; ChainUnavailableError by the future if it cannot be stored."""
        arrival = Arrival(subtable, who, in_part)
        self._put(self._arrivals, arrival, arrival.reply)
        return arrival.reply

    def round(self) -> Future[int]:
        """Decide what waits for a round; the future is how many requests that were."""
        held: Future[int] = promised()
        self._put(self._numbers, held, held)
        return held

    def _put(self, into: asyncio.Queue[Any], item: object, future: Future[Any]) -> None:
        # with the lock: what comes to a loop that has ended would wait for ever
        with self._lock:
            if self._ends:
                future.set_exception(ENDS)
            else:
                self._promises.add(future)
                future.add_done_callback(self._promises.discard)
                self._loop.call_soon_threadsafe(into.put_nowait, item)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._work())
        except Exception as error:  # whatever it is, nobody is to wait for a loop that is gone
            self.say(FAULT, error)
        with self._lock:
            self._ends = True
        for future in list(self._promises):
            future.set_exception(ENDS)

    async def _work(self) -> None:
        await asyncio.gather(self._log_requests(), self._decide_requests())
        for number in list(self._waiting):
            self._answer(number)
        await self._keep_evidence()

    # Requests come in

    async def _log_requests(self) -> None:
        is_open = True
        while is_open:
            batch = [await self._arrivals.get()]
            while len(batch) < MOST_AT_ONCE and not self._arrivals.empty():
                batch.append(self._arrivals.get_nowait())
            arrivals = [arrival for arrival in batch if arrival]
            is_open = len(arrivals) == len(batch)
            try:
                numbers = await asyncio.to_thread(self._store, arrivals) if arrivals else []
            except Exception as error:  # whatever it is, those who come next are to be heard
                for arrival in arrivals:
                    arrival.reply.set_exception(error)
            else:
                for arrival, number in zip(arrivals, numbers, strict=True):
                    self._wait(arrival, number)

    def _wait(self, arrival: Arrival, number: int) -> None:
        """Who asked for what is public need not wait."""
        self._waiting[number], decision = arrival.reply, self.log.projection.requests[number].decision
        if decision == "pending":
            self._take(number)
        if decision == "answered" or (decision != "pending" and not self.slot):
            self._answer(number)
        elif self.slot:
            self._loop.call_later(arrival.at + self.slot - time.monotonic(), self._answer, number)

    def _answer(self, number: int) -> None:
        """By what has become of the request by now."""
        if reply := self._waiting.pop(number, None):
            reply.set_result(Reply.to(self.log.projection.requests[number], self.log.projection.state))

    def _store(self, batch: list[Arrival]) -> list[int]:
        numbers, projection = list[int](), self.log.projection
        with self.log.turn() as turn:
            for arrival in batch:
                subtable, in_part = arrival.subtable, arrival.in_part
                numbers.append(turn.ask(subtable, arrival.who, in_part=in_part))
                if (decision := at_once(self.rules, projection.state, subtable, in_part=in_part)) is not None:
                    turn.decide(decision, numbers[-1], subtable)
        return numbers

    # One decision after the other

    def _take(self, number: int) -> None:
        self._attempts.setdefault(number, Attempt())
        self._numbers.put_nowait(number)

    async def _decide_requests(self) -> None:
        while (asked := await self._next()) is not None and not self._ends:
            try:
                if isinstance(asked, int):
                    await self._decide(asked)
                else:
                    asked.set_result(await self._hold_round())
                self.say("")
            except Exception as error:  # whatever it is, the next ones are to be decided
                # what cannot be decided or stored is not released, and tried again
                self.say(fault_of(error), error)
                if isinstance(asked, int):
                    self._loop.call_later(AGAIN, self._numbers.put_nowait, asked)
                else:
                    text = f"the round was not held: {self.fault}; hold it again"
                    asked.set_exception(ChainUnavailableError(text))
            if not self.slot and isinstance(asked, int):
                self._answer(asked)

    def say(self, fault: str, error: Exception | None = None) -> None:
        """Set what is wrong from now on, or nothing; a change is logged without a word of the error."""
        if fault != self.fault:
            self.fault = fault
            self.outages.update([fault] if fault else [])
            emit(PROBLEM, fault or "it is well again", SERVER, error=type(error).__name__ if error else None)

    async def _next(self) -> int | Future[int] | None:
        """The next request or round; meanwhile what was left behind, and where none comes the evidence is kept."""
        while True:
            if time.monotonic() - self._looked > IDLE:
                await self._take_up_what_was_left()
            try:
                async with asyncio.timeout(IDLE):
                    return await self._numbers.get()
            except TimeoutError:
                await self._keep_evidence()

    async def _take_up_what_was_left(self) -> None:
        """Requests whose server has died, or did not learn that they were stored; each is decided once, by whomever."""
        self._looked = time.monotonic()
        try:
            await asyncio.to_thread(self.log.refresh)
        except Exception as error:
            self.say(fault_of(error), error)
            return
        if self.fault == FAULTS[ChainError]:
            self.say("")
        with self.log.still() as projection:
            left = set(projection.pending) - set(self._attempts)
        # at the second look: another server may be at it
        for number in sorted(left & self._left):
            self._take(number)
        self._left = left

    async def _decide(self, number: int) -> None:
        """Decides a request that has no decision yet; again where something was released meanwhile."""
        begun, attempt = time.perf_counter(), self._attempts.get(number)
        # of two takes of one request the first has decided it
        while attempt and (left := self._undecided(number)) is not None:
            request, state, past = left
            subtable, who = request.sub_table, request.who
            decision = await self._asked(self.decider, Seat.decide, state, past, subtable, who)
            is_new = decision.finding is not None and attempt.tries < MOST_TRIES
            if decision.transition is Transition.UNPROVEN and is_new:
                attempt.tries += 1
                self._look_longer(number, self._certify(attempt, state, subtable))
                return
            if request.in_part and decision.transition in BY_CRITERION:
                whole = decision, attempt.found
                decision = await self._asked(self.decider, Seat.decide_in_part, past, subtable, who, *whole)
                if decision.transition is Transition.NOT_IN_PART and attempt.parts_tried < MOST_TRIES:
                    attempt.parts_tried += 1
                    self._look_longer(number, self._find_in_part(attempt, decision.state, subtable))
                    return
            milliseconds = 1000 * (time.perf_counter() - begun)
            await self._stored(state, [(request, decision.lasting(subtable))], milliseconds, waited=False)
        self._attempts.pop(number, None)

    async def _asked(self, worker: Worker, method: Callable[..., Answer], *args: Any) -> Answer:
        return await asyncio.wrap_future(worker.ask(method, *args))

    def _undecided(self, number: int) -> tuple[Request, State, Past] | None:
        """A request without a decision, and what comes before it; None where it has one."""
        with self.log.still() as projection:
            return (projection.requests[number], *self.log.before()) if number in projection.pending else None

    async def _stored(
        self, state: State, decided: Sequence[tuple[Request, Decision]], milliseconds: float = 0.0, *, waited: bool
    ) -> bool:
        """Whether the decisions are stored; not where there are others by now, or what they rest on has changed."""

        def store() -> bool:
            with self.log.turn() as turn:
                known, projection = self.log.projection.state, self.log.projection
                left = projection.waiting if waited else projection.pending
                if known.version != state.version or any(request.number not in left for request, _ in decided):
                    return False
                for request, decision in decided:
                    turn.decide_from(known, decision, request, milliseconds)
                    known = decision.state.knowing(known.unreleasable, known.undecided)
            return True

        is_stored = await asyncio.to_thread(store)
        releases = (Transition.SAFE, Transition.SAFE_IN_PART)
        self._is_stale |= is_stored and any(one.transition in releases for _, one in decided)
        return is_stored

    # Rounds

    async def _hold_round(self) -> int:
        """Decides all that waits: what the round chose is released, and the rest refused, or public by then."""
        while True:
            with self.log.still() as projection:
                requests = [projection.requests[number] for number in projection.waiting]
                state, past = self.log.before()
            waiting = [(request.sub_table, request.who, request.in_part) for request in requests]
            decided = await self._asked(self.decider, Seat.round, state, past, waiting)
            if await self._stored(state, [(requests[place], decision) for place, decision in decided], waited=True):
                return len(decided)

    # What takes long

    def _look_longer(self, number: int, looking: Coroutine[Any, Any, None]) -> None:
        """Looks into it meanwhile; then it is decided again, without an answer as what stays undecided at worst."""

        async def look() -> None:
            try:
                await looking
            except ChainError as error:
                self.say(fault_of(error), error)
            except Exception as error:
                emit(PROBLEM, "a request was not looked into for longer", SERVER, error=type(error).__name__)
            self._numbers.put_nowait(number)

        task = asyncio.create_task(look())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _certify(self, attempt: Attempt, state: State, subtable: SubTable) -> None:
        finding, proof = await self._asked(self.certifier, Seat.certify, state, subtable)
        if proof is not None:
            # of a decider that dies just now nothing is learnt
            with suppress(BrokenProcessPool):
                self.decider.ask(Seat.learn, proof, state.releasing(subtable))
        else:
            # longer than this nobody looks; unsafe or undecided is found again at once, or answered as undecided
            attempt.tries = MOST_TRIES
        if finding.verdict is Verdict.UNSAFE:
            await asyncio.to_thread(self._know_unsafe, subtable)

    async def _find_in_part(self, attempt: Attempt, state: State, subtable: SubTable) -> None:
        attempt.found = await self._asked(self.certifier, Seat.find_in_part, state, subtable)
        if isinstance(attempt.found, str):
            # longer than this nobody looks
            attempt.parts_tried = MOST_TRIES

    def _know_unsafe(self, subtable: SubTable) -> None:
        with self.log.turn() as turn:
            old = self.log.projection.state
            turn.move(old, old.knowing([subtable]), subtable)

    async def _keep_evidence(self) -> None:
        """Where there is more. Without it nothing is less safe, it would be found again at the next start."""
        if not self._is_stale:
            return
        self._is_stale, state = False, self.log.projection.state
        with suppress(Exception):
            proof = await self._asked(self.decider, Seat.proof, state)
            await asyncio.to_thread(self.keep, state, proof)
