"""The audit: a right history passes, and whatever is wrong with another is named with its entry."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pytest

from sdc.model import subtable as st
from sdc.model.errors import ConfigError
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.record.chain import Chain
from sdc.record.database import ChainError
from sdc.record.entry import FIRST, Entry, broken_links
from sdc.risk.criteria import Criteria
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.risk.verdict import Verdict
from sdc.server.service.audit import Standard, audit
from tests import reference
from tests.integration.record.test_chain import disarm, execute
from tests.strategies import dense, knows, schema_of, unknowing

CRITERIA = Criteria.of(2, 6)
EMPTY_CELL = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))
ONE_WAY = Release.of(1 << v for v in range(6))
ASKED = ("A*B", "A*B*C*D*E*F", "A*B*C*D*E", "B", "A*B*D*E*F", "A*C*D*E*F")
"""Each of five variables is safe after those before it, with critical widths of 20, 10 and 10 alone."""
FRONTIER = ("A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F")


class Writer:
    """Writes what a server would, or what a wrong one might."""

    def __init__(self, history: Chain, table: Table, start: Release = ONE_WAY) -> None:
        self.history, self.schema, self.evaluator = history, table.schema, unknowing(table, CRITERIA)
        self.released, self.unreleasable, self.version = start, set[SubTable](), 0
        self.frontier({"released": self.names(start.frontier), "direct": []})

    def names(self, subtables: Iterable[SubTable]) -> list[list[str]]:
        return [st.names(subtable, self.schema) for subtable in sorted(subtables)]

    def is_unsafe(self, release: Release) -> bool:
        return self.evaluator.anew().evaluate(release).verdict is Verdict.UNSAFE

    def frontier(self, body: dict[str, Any]) -> None:
        with self.history.turn() as turn:
            turn.append("frontier", "ann", "", {"version": self.version, **body})

    def decide(self, label: str, outcome: str, **other: Any) -> None:
        """An entry of a request and one of the decision, and what releases nothing."""
        subtable = st.parse(label, self.schema)
        body = {"outcome": outcome, "sub_table": st.names(subtable, self.schema), "rule": "myopic", "code": outcome}
        with self.history.turn() as turn:
            request = turn.append("request", "ann", label, {"variables": body["sub_table"]})
            turn.append("decision", "ann", label, {**body, "request": request.seq, "version": self.version, **other})

    def release(self, label: str, **other: Any) -> None:
        """A decision with its frontiers, as they are."""
        larger = self.released.add(st.parse(label, self.schema))
        self.version += 1
        self.decide(label, "released", **other)
        old, new = set(self.released.frontier), set(larger.frontier)
        self.frontier({"released_added": self.names(new - old), "released_removed": self.names(old - new)})
        self.released = larger

    def refuse(self, label: str) -> None:
        """A decision, and the sub-table among the unreleasable ones."""
        subtable = st.parse(label, self.schema)
        smaller = {subtable, *(u for u in self.unreleasable if not st.is_within(subtable, u))}
        added, removed = smaller - self.unreleasable, self.unreleasable - smaller
        self.frontier({"unreleasable_added": self.names(added), "unreleasable_removed": self.names(removed)})
        self.unreleasable = smaller
        self.decide(label, "refused")

    def ask(self, label: str) -> None:
        """What a myopic server does."""
        subtable = st.parse(label, self.schema)
        if subtable in self.released:
            self.decide(label, "answered")
        elif self.is_unsafe(self.released.add(subtable)):
            self.refuse(label)
        else:
            self.release(label)


def about(table: Table) -> dict[str, Any]:
    return {
        "table": table.digest,
        "criterion": {"small_count": 2, "min_width": 6},
        "variables": list(table.schema.names),
    }


def by(table: Table, criteria: Criteria = CRITERIA, zeros: StructuralZeros = NO_ZEROS) -> Standard:
    return Standard(table, knows(table, NOTHING, zeros), criteria, "a test")


@pytest.fixture
def history(history_url: str, czech: Table) -> Iterator[Chain]:
    with closing(Chain.open(history_url, about(czech))) as opened:
        yield opened


@pytest.fixture
def writer(sqlite_url: str, czech: Table) -> Iterator[Writer]:
    """Of a new history in SQLite, with R(0)."""
    with closing(Chain.open(sqlite_url, about(czech))) as opened:
        yield Writer(opened, czech)


def failures_of(writer: Writer, table: Table) -> list[str]:
    return list(audit(writer.history, by(table)).failures)


def test_a_right_history_is_verified(history: Chain, czech: Table) -> None:
    writer = Writer(history, czech)
    for label in ASKED:
        writer.ask(label)
    found = audit(history, by(czech))
    assert found.failures == ()
    assert found.verified is True
    assert (found.entries, found.decisions) == (history.head(), len(ASKED))
    assert found.releases == writer.version >= 3
    assert found.released == writer.released
    assert found.variables == tuple("ABCDEF")
    assert found.head == history.entries()[-1].hash
    assert writer.unreleasable
    unjudged = audit(history)
    assert unjudged == replace(found, is_judged=False)
    assert unjudged.verified is None


def test_a_history_that_has_only_begun_is_right(sqlite_url: str, czech: Table) -> None:
    with closing(Chain.open(sqlite_url, about(czech))) as history:
        assert audit(history, by(czech)).verified is True
        Writer(history, czech, Release.of([]))
        assert audit(history, by(czech)).verified is True


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["UPDATE entries SET body = '{}' WHERE seq = 4"], "entry 4 was changed: it does not have its hash"),
        (["UPDATE entries SET who = 'eve' WHERE seq = 4"], "entry 4 was changed"),
        (["UPDATE entries SET at = '2001' WHERE seq = 1"], "entry 1 was changed"),
        (["""UPDATE entries SET body = '{"x":1e999}' WHERE seq = 4"""], "entry 4 was changed"),
        (["DELETE FROM entries WHERE seq = 4"], "entry 5 comes after entry 3: what was between is gone"),
        (["DELETE FROM entries WHERE seq = 1"], "entry 2 comes after entry 0"),
        (
            [f"UPDATE entries SET seq = {new} WHERE seq = {old}" for old, new in ((3, 99), (4, 3), (99, 4))],
            "entry 3 does not have the hash of the entry before it",
        ),
    ],
)
def test_tampering_is_named(
    statements: list[str], message: str, history: Chain, history_url: str, czech: Table
) -> None:
    writer = Writer(history, czech)
    writer.release("A*B")
    assert not [*broken_links(history.entries())]
    disarm(history_url)
    execute(history_url, *statements)
    for standard in None, by(czech):
        found = audit(history, standard)
        assert found.verified is False
        assert message in "; ".join(found.failures)


# What does not follow


def without_frontiers(writer: Writer) -> None:
    for label in "A*B", "A*C":
        writer.version += 1
        writer.decide(label, "released")


FAULTS: dict[str, tuple[list[Callable[[Writer], None]], list[str]]] = {
    "versions": (
        [lambda one: one.release("A*B", version=2), lambda one: one.decide("A", "answered", version=0)],
        [
            "entry 4 has version 2, and 1 was due",
            "entry 5 has version 1, and 2 was due",
            "entry 7 has version 0, and 1 was due",
        ],
    ),
    "answers": (
        [
            lambda one: one.decide("A", "answered"),
            lambda one: one.decide("A*B", "answered"),
            lambda one: one.decide("A*C", "maybe"),
            lambda one: one.decide("A*D", "refused", sub_table=["D", "C"]),
        ],
        [
            "entry 6 answers A*B, which was not public",
            "entry 8 has the unknown outcome 'maybe'",
            "entry 10 is about A*D and decides on C*D",
        ],
    ),
    "frontiers": (
        [
            lambda one: one.release("A*B"),
            lambda one: one.frontier({"released_added": [["C", "D"]]}),
            lambda one: one.frontier({"released_removed": [["A", "B"]]}),
            lambda one: one.frontier({"released": [["A", "B"], ["C"], ["D"], ["E"], ["F"]]}),
            lambda one: one.release("A*B*C"),
        ],
        [
            "entry 6 does not record the released frontier of version 1; C*D is wrong",
            "entry 7 does not record the released frontier of version 1; A*B is wrong",
        ],
    ),
    "steps": (
        [
            lambda one: one.release("A*B"),
            lambda one: one.release("C*D"),
            lambda one: one.decide("A*C*E", "refused", rule="one_step"),
            lambda one: one.decide("A*C", "refused", rule="one_step"),  # as it was called when the frontier decided
            lambda one: one.decide("A*C", "refused", rule="one_step_frontier"),
            lambda one: one.decide("A*C*E", "refused", rule="one_step_frontier"),
        ],
        [
            "entry 12 refuses A*C by the rule one_step, which had nothing against it",
            "entry 14 refuses A*C by the rule one_step_frontier, which had nothing against it",
        ],
    ),
    "no frontier": (
        [without_frontiers],
        [f"entry {n} releases a sub-table, and no entry records the frontier after it" for n in (4, 6)],
    ),
    "unreleasable no more": (
        [
            lambda one: one.refuse("A*B*C*D*E*F"),
            lambda one: one.frontier({"unreleasable_removed": [["A", "B", "C", "D", "E", "F"]]}),
        ],
        ["entry 6 records A*B*C*D*E*F as unreleasable no more"],
    ),
    "public": (
        [lambda one: one.frontier({"unreleasable_added": [["A"]]})],
        ["entry 3 records A as unreleasable, which is public", "entry 3 records A as unreleasable, which it is not"],
    ),
    "above the unreleasable": (
        [lambda one: one.frontier({"unreleasable_added": [["A", "B"]]}), lambda one: one.release("A*B*C")],
        [
            "entry 5 releases A*B*C, which contains A*B, recorded as unreleasable",
            "entry 3 records A*B as unreleasable, which it is not",
        ],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_does_not_follow_is_named_with_its_entry(name: str, writer: Writer, czech: Table) -> None:
    steps, expected = FAULTS[name]
    for step in steps:
        step(writer)
    assert failures_of(writer, czech) == expected


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("decision", {}),
        ("decision", {"outcome": "refused", "sub_table": 3, "version": 0}),
        ("decision", {"outcome": "refused", "sub_table": [["A"]], "version": 0}),
        ("decision", {"outcome": "refused", "sub_table": ["A"], "version": True}),
        ("decision", {"outcome": "refused", "sub_table": [str(v) for v in range(64)], "version": 0}),
        ("frontier", {"version": 0, "released_added": "A"}),
        ("frontier", {"version": "0"}),
        ("frontier", {"version": 0, "unreleasable_added": ["AB"]}),
    ],
)
def test_what_no_server_writes_is_named(kind: str, body: dict[str, Any], writer: Writer) -> None:
    with writer.history.turn() as turn:
        turn.append(kind, "ann", "A", body)
    failures = audit(writer.history).failures
    assert any("entry 3 " in failure for failure in failures), failures


def test_a_decision_needs_a_frontier_and_a_history_one_beginning(sqlite_url: str, czech: Table) -> None:
    with closing(Chain.open(sqlite_url, about(czech))) as history:
        with history.turn() as turn:
            body = {"outcome": "refused", "sub_table": ["A", "B"], "version": 0}
            turn.append("decision", "ann", "A*B", body)
            turn.append("opened", "ann", "", {"about": {}})
        assert audit(history, by(czech)).failures == (
            "entry 2 decides before the first frontier is recorded",
            "entry 3 begins a history again",
        )


# Against the table


def test_a_release_that_breaks_the_criterion_is_found(writer: Writer, czech: Table) -> None:
    for label in "A*B", "B*C", "A*B*C*D*E*F", "C*D":
        writer.release(label)
    (failure,) = failures_of(writer, czech)
    assert failure.startswith("entry 10 releases A*B*C*D*E*F, and what is public from then on (version 3) breaks the ")
    assert failure.endswith("min width 0 to 0, required 6")
    assert audit(writer.history, by(czech)).is_judged
    assert audit(writer.history).failures == ()


@pytest.mark.parametrize("criteria", [Criteria.of(2, 1000), Criteria.of(2, 5), Criteria.of(1, 6)])
def test_a_history_of_another_criterion_is_refused(criteria: Criteria, writer: Writer, czech: Table) -> None:
    writer.release("A*B*D*E*F")
    assert audit(writer.history, by(czech)).verified is True
    asked = f'{{"min_width":{criteria.width.min_width},"small_count":{criteria.small_count}}}'
    message = f'records the criterion {{"min_width":6,"small_count":2}}, and that of a test is {asked}; '
    with pytest.raises(ChainError, match=re.escape(message)):
        audit(writer.history, by(czech, criteria))


@dataclass
class Kept:
    """A history in memory, which says of itself whatever is wanted."""

    about: dict[str, Any]
    name: str = "kept"
    _entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.append("opened", "", "", {"about": self.about})

    def append(self, kind: str, who: str, subject: str, body: dict[str, Any]) -> Entry:
        previous = self._entries[-1].hash if self._entries else FIRST
        entry = Entry(len(self._entries) + 1, kind, "2026", who, subject, body, previous)
        self._entries.append(replace(entry, hash=entry.digest))
        return self._entries[-1]

    @contextmanager
    def turn(self) -> Iterator["Kept"]:
        yield self

    def entries(self) -> list[Entry]:
        return self._entries


def keeps(counts: np.ndarray, release: Release, criteria: Criteria) -> bool:
    """Whether every small count could be another one, by listing all tables that agree with the release."""
    public = [st.members(t) for t in release.frontier]
    return reference.is_releasable(counts, public, criteria.small_count, criteria.width.min_width)


def test_random_histories_are_judged_by_the_criterion_asked_whatever_they_say_of_it(night: list[int]) -> None:
    """200 of them, or as many as have some of each kind; every third forged: it says that any width is enough.

    Judged by enumeration.
    """
    seen = Counter[str]()
    for number in range(600):
        if number >= 200 and min(seen[name] for name in ("forged", "True", "False")) > 15:
            break
        rng = np.random.default_rng([5, number, *night])
        sizes, asked = ([2, 3], [1, 2, 3]) if number % 4 else ([2, 2, 2], [3, 5, 6])
        counts = rng.integers(0, 6, sizes)
        counts.flat[0] += 1
        table = dense(schema_of(counts.shape), counts.reshape(-1).tolist())
        criteria = Criteria.of(int(rng.integers(1, 3)), int(rng.integers(2, 6)))
        said = Criteria.of(1, 1) if number % 3 == 0 else criteria
        kept = Kept({"table": table.digest, "criterion": said.facts, "variables": list(table.schema.names)})
        writer = Writer(cast(Chain, kept), table, Release.of([]))
        for subtable in rng.choice(asked, 2, p=[0.45, 0.45, 0.1]).tolist():
            if subtable not in writer.released:
                writer.release(st.label(subtable, table.schema))
        if said != criteria:
            with pytest.raises(ChainError, match="find out who changed it"):
                audit(writer.history, by(table, criteria))
            # what it says would let it pass
            seen["forged"] += bool(audit(writer.history, by(table, said)).verified) and not keeps(
                counts, writer.released, criteria
            )
            continue
        found = audit(writer.history, by(table, criteria))
        is_right = keeps(counts, writer.released, criteria)
        assert (found.verified, bool(found.failures)) == (is_right, not is_right)
        seen[str(is_right)] += 1
    assert min(seen[name] for name in ("forged", "True", "False")) > 15


def test_a_table_of_another_history_judges_nothing(writer: Writer, czech: Table) -> None:
    writer.release("A*B*C*D*E*F")
    found = audit(writer.history, by(czech.marginal(st.parse("A*B*C", czech.schema))))
    assert not found.is_judged
    assert found.failures[0].startswith(f"entry 1 says that the history is of the table {czech.digest[:12]}, given is ")
    assert found.failures[1] == "the history names the variable D, which the table does not have"


@pytest.mark.parametrize("zeros", [NO_ZEROS, EMPTY_CELL])
def test_what_is_impossible_is_known_to_whoever_judges(zeros: StructuralZeros, czech: Table) -> None:
    """The published release has a width of 9, and of 6 for whoever knows the cell."""
    criteria = Criteria.of(2, 7)
    told = {**about(czech), "criterion": criteria.facts, "structural_zeros": zeros.labels(czech.schema)}
    writer = Writer(cast(Chain, Kept(told)), czech)
    for label in FRONTIER:
        writer.release(label)
    found = audit(writer.history, by(czech, criteria, zeros))
    assert (found.is_judged, found.verified) == (True, not zeros)
    other = audit(writer.history, by(czech, criteria, NO_ZEROS if zeros else EMPTY_CELL))
    assert other.failures == ("entry 1 says that the history is of other structural zeros than are given",)
    assert not other.is_judged


def test_a_criterion_that_is_not_monotone_is_refused(writer: Writer, czech: Table) -> None:
    with pytest.raises(ConfigError, match="has a limit on the posterior, so that the last release does not tell"):
        audit(writer.history, by(czech, Criteria.of(2, 6, PosteriorLimit(max_probability=0.5))))
