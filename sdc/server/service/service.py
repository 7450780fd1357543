"""The service: each request is logged, decided and only then answered, one by one whatever the number of servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import fields, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.state import MOST_LISTED, State
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.publish.publication import NO_TEXTS, Texts
from sdc.record.chain import Chain
from sdc.record.database import ChainError
from sdc.server.service.deciding import Deciding, fault_of
from sdc.server.service.history import DECISION, STARTED, RequestLog, finding_facts
from sdc.server.service.judge import Effect
from sdc.server.service.outcome import Explained, Moment, Reply, Request, SuppressedAnswer, Transition
from sdc.server.service.prepare import keep_evidence, prepared, server_of
from sdc.server.service.rules import KEPT, MYOPIC, REVEALED, SUPPRESSED, Rule, lists_of, reveals, with_lists_of
from sdc.server.service.workers import Seat, Worker
from sdc.stages.build import Build
from sdc.stages.table import check_labels

FIND_SECONDS = 20  # for the cell of a request that was refused without looking at the table
MOST_IN_EFFECTS = 20  # variables, of which effects are computed


class Service:
    """The query service over a history, which says what is public; nothing is answered that is not stored.

    Requests are logged and decided by `Deciding`. All but `ask`, `effect` and `round` answer at once.

    ChainUnavailableError from anything where the database is down or read-only.
    """

    def __init__(
        self,
        history: Chain,
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
        self.title, self.schema, self.records, self.texts = title, table.schema, table.total, texts
        self.rules = (*(rule.name for rule in rules), MYOPIC)
        self.log, self._table = RequestLog(history, table.schema, table.total), table
        self.log.begin(first)
        decider, certifier, self._effects = map(begin, (False, True, False))
        self.deciding = Deciding(self.log, rules, slot, decider, certifier, keep)
        # before it listens; if one fails, the requests that need it say so
        wait([worker.warm(self.state.released) for worker in (decider, self._effects)])
        self.deciding.start()

    def close(self) -> None:
        """Ends when what is being decided is stored; what waits is decided after the next start."""
        self.deciding.end()
        self.deciding.decider.close()
        # what these find is not waited for
        self.deciding.certifier.end()
        self._effects.end()
        self.log.history.close()

    @property
    def public_id(self) -> str:
        return self.log.history.public_id

    @property
    def state(self) -> State:
        """What is public now. Users see of it `released`, and where that is published `unreleasable`."""
        return self.log.projection.state

    def ask(self, subtable: SubTable, who: str, *, in_part: bool = False) -> Future[Reply]:
        """A request; the future ends when it is decided and stored, or pending.

        in_part  it accepts suppressed cells where it does not go out whole; not where rules let only draws decide
        """
        return self.deciding.ask(self.schema.levels.closed(subtable), who, in_part=in_part)

    def reply_to(self, own: int, who: str) -> Reply | None:
        """What became of a request of this user; None where there is none of that number."""
        request = self.log.own_request(own, who)
        if request is not None and request.decision == "pending":
            self.log.refresh_now_and_then()
            request = self.log.own_request(own, who)
        return None if request is None else Reply.to(request, self.state)

    def marginal(self, subtable: SubTable) -> Table | None:
        """The exact marginal of a released sub-table; None of any other."""
        if subtable not in self.state.released:
            self.log.refresh_now_and_then()
        return self._table.marginal(subtable) if subtable and subtable in self.state.released else None

    def in_part(self, subtable: SubTable) -> SuppressedAnswer | None:
        """What is public of a suppressed table; None of any other."""
        state = self.state
        if (part := state.part(subtable)) is None:
            return None
        within = st.maximal(one for one in st.over_fewer(subtable, self.schema) if one in state.released)
        shown, known = part.published(self._table.marginal(subtable)), tuple(map(self._table.marginal, within))
        return SuppressedAnswer(shown, part.suppressed, known, self.records)

    def requests(self, who: str | None = None, limit: int = 1000) -> list[Request]:
        """Requests of one user, or of all, newest first."""
        self.log.refresh_now_and_then()
        with self.log.still() as projection:
            numbers = projection.requests if who is None else projection.of_user.get(who, [])
            return [projection.requests[number] for number in islice(reversed(numbers), limit)]

    def explained(self, number: int, *, finds: bool = False) -> Explained | None:
        """Why; None if there is no request of that number.

        finds  find the bounds and the cell now if the decision has none, being known before
        """
        request = self.log.request(number)
        if request is None:
            return None
        label = st.label(request.sub_table, self.schema)
        body = self._decisions(number, label).get(number)
        if body and finds and body["why"] == Transition.IS_KNOWN.why:
            body = {**body, **self._found_now(request.sub_table)}
        return _explained(request, body)

    def all_explained(self, limit: int) -> list[Explained]:
        """The newest requests of all users, and why, by one look at the history."""
        asked = self.requests(None, limit)
        decided = self._decisions(asked[-1].number) if asked else {}
        return [_explained(request, decided.get(request.number)) for request in asked]

    def _decisions(self, after: int, subject: str | None = None) -> dict[int, dict[str, Any]]:
        """The last decision on each request since that one, by its number."""
        entries = self.log.history.entries(after, kinds=[DECISION], subject=subject)
        return {entry.body["request"]: entry.body for entry in entries}

    def _found_now(self, subtable: SubTable) -> dict[str, Any]:
        """Verdict, bounds and cell beside what is public now; nothing if they are not found in time."""
        found = None
        with suppress(BrokenProcessPool, TimeoutError):
            found = self._effects.ask(Seat.find, self.state, subtable)
            return finding_facts(found.result(FIND_SECONDS), self.schema)
        if found:
            found.cancel()  # if nobody has begun it
        return {}

    def moments(self) -> list[Moment]:
        """The frontiers over time, the one of version t at place t."""
        self.log.refresh_now_and_then()
        with self.log.still() as projection:
            return list(projection.moments)

    def round(self) -> Future[int]:
        """Decides what waits for a round, together; the future is the number of requests that were decided."""
        return self.deciding.round()

    def effect(self, subtable: SubTable) -> Future[Effect]:
        """What releasing a sub-table of up to 20 variables would do; ReleaseError beyond."""
        self._require(MOST_IN_EFFECTS, "effects are shown of")
        return self._effects.ask(Seat.effect, self.state, subtable)

    def statuses(self) -> npt.NDArray[np.uint8]:
        """(2^variables,) of each sub-table its `Status`; ReleaseError beyond 14 variables."""
        self._require(MOST_LISTED, "the status of every sub-table is shown of")
        return self.state.statuses

    def _require(self, most: int, what: str) -> None:
        if len(self.schema) > most:
            raise ReleaseError(
                f"the table has {len(self.schema)} variables, {what} at most {most}; look at the frontiers"
            )

    def tally(self) -> tuple[dict[str, int], dict[str, int]]:
        """How many decisions of the history came out how, and how often each fault has begun since the start."""
        with self.log.still() as projection:
            return dict(projection.outcomes), dict(self.deciding.outages)

    def health(self) -> dict[str, Any]:
        """{"status": "ok" or what is wrong, "version": t, "pending": requests without a decision}; it looks now."""
        try:
            fault = self.deciding.fault or self.log.change()
        except ChainError as error:
            fault = fault_of(error)
        return {"status": fault or "ok", "version": self.state.version, "pending": len(self.log.projection.pending)}


def _explained(request: Request, body: dict[str, Any] | None) -> Explained:
    if body is None:
        return Explained(request, "", "it is being looked into", None, None, None, 0.0)
    return Explained(request, *(body[f.name] for f in fields(Explained)[1:]))


FILE = "history.db"  # in a server's folder


@contextmanager
def open_service(build: Build, url: str | None = None) -> Iterator[Service]:
    """The service until the block ends; its history is at the URL, that of the config, or a file in its folder.

    RunFolderError where nothing is prepared; ChainError where the history is of another table or criterion, is in use
    by another server, or cannot be reached.
    """
    ready, server = prepared(build), server_of(build)
    check_labels(build.config, ready.table.schema)
    begins = {SUPPRESSED: REVEALED if build.config.release.reveal_suppressed else KEPT, **lists_of(ready.bench.known)}
    where = url or server.history or str(ready.folder.path / FILE)
    with closing(Chain.open(where, ready.about, begins=begins)) as history:
        known = with_lists_of(history.about, ready.bench.known, ready.table)
        bench = replace(ready.bench, reveals=reveals(history.about), known=known)

        service = Service(
            history,
            ready.table,
            ready.first,
            lambda is_patient: Worker(bench, ready.table, is_patient=is_patient),
            title=build.config.publication.title or build.config.name,
            texts=Texts(build.config.publication, build.config.labels.labels),
            rules=bench.rules,
            slot=server.slot,
            keep=partial(keep_evidence, ready.folder, ready.table, bench.known, bench.criteria),
        )
        try:
            service.log.store(STARTED, "", "", {"rules": [rule.model_dump(mode="json") for rule in server.rules]})
            yield service
        finally:
            service.close()
