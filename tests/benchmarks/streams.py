"""Random streams of requests on the Czech table: after every step what is public, and what cannot be, by brute force.

    python tests/benchmarks/streams.py [streams]

For each rule every state is safe by exact bounds of all at-risk cells, and its unreleasable frontier is that of all 64
sub-tables. Under myopic, one_step and one_step_frontier nothing can be added in the end, when all was asked for from
fewer variables to more; and of states on the way whatever myopic could release then, by brute force, is released by
these rules when its parts are asked for first. What brute force has said of a release is kept for all streams
and rules. Of the larger releases that the frontiers ask about, bounds are found where they do not follow: whatever is
within a safe release is safe, for with less released no bounds are narrower. Of one stream in `EVERY` all are found.
Two processes, some twelve minutes for 2,000 streams a rule, and 200 of simulatable, which draws tables.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import get_context

from side_by_side import ROOT, check, say, show

from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.release import NOTHING, Release
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.risk.criteria import Criteria
from sdc.server.desk.judge import Judge, one_way, surveyed
from sdc.server.desk.rules import Rule, rules_of
from sdc.server.tryout.simulation import Queries, replayed
from sdc.server.tryout.trial import DEFAULTS, rule_sets_of
from sdc.utility.measures import Weights

sys.path.insert(0, str(ROOT))
from tests.server.streams import BruteForce
from tests.strategies import knows

CZECH = ROOT / "configs" / "czech_auto_workers.csv"

STREAMS, LENGTH, SEED, PROCESSES, EVERY = 2000, 64, 0, 2, 100
FEWER = {"simulatable": 10}  # draws tables for each release: a tenth of the streams
CRITERIA = Criteria.of(2, 6)
UPWARDS = sorted(range(1, 64), key=st.dimension)
NO_DEAD_ENDS = ("myopic", "one_step", "one_step_frontier")
LOOKED = (0, 2, 6, LENGTH)  # requests after which every sub-table that myopic could release is gone for


@dataclass
class Counted:
    """What was checked of one rule, and what was wrong."""

    streams: int = 0
    states: int = 0
    unsafe: int = 0
    wrong_frontiers: int = 0
    not_maximal: int = 0
    reachable: int = 0
    not_reached: int = 0
    ends: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0


def main() -> None:
    streams, rows = int(sys.argv[1]) if len(sys.argv) > 1 else STREAMS, list[list[object]]()
    # processes that live as long as all rules: what one has found of a release serves every rule
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for rule in ("myopic", *DEFAULTS):
            count = max(1, streams // FEWER.get(rule, 1))
            size = -(-count // (4 * PROCESSES))
            parts = [range(first, min(first + size, count)) for first in range(0, count, size)]
            rows.append(row(rule, list(pool.map(partial(checked, rule), parts))))
            say("  " + " ".join(map(str, rows[-1])))
    header = ["", "streams", "states", "unsafe", "other frontier", "not maximal", "releasable", "not reached"]
    header += ["seconds", "sub-tables in the end"]
    show(f"Czech table, min width {CRITERIA.width.min_width}, {LENGTH} uniform requests a stream", header, rows)


def row(rule: str, parts: list[Counted]) -> list[object]:
    def total(key: str) -> int:
        return sum(getattr(part, key) for part in parts)

    check(not total("unsafe"), f"{rule}: {total('unsafe')} states are unsafe")
    check(not total("wrong_frontiers"), f"{rule}: {total('wrong_frontiers')} unreleasable frontiers are others")
    has_ends = rule not in NO_DEAD_ENDS
    check(has_ends or not total("not_maximal"), f"{rule}: {total('not_maximal')} ends are not maximal")
    check(not total("not_reached"), f"{rule}: {total('not_reached')} sub-tables are not reached")
    check(has_ends or total("reachable"), f"{rule}: nothing could be reached")
    ends = sum((part.ends for part in parts), Counter[int]())
    told, seconds = f"{min(ends)} to {max(ends)}", sum(part.seconds for part in parts) / PROCESSES
    reached = [total(key) for key in ("not_maximal", "reachable", "not_reached")]
    wrong = total("unsafe"), total("wrong_frontiers"), *([""] * 3 if has_ends else reached)
    return [rule, total("streams"), total("states"), *wrong, f"{seconds:.0f}", told]


def checked(rule: str, numbers: range) -> Counted:
    """Streams of one rule; under those without dead ends each asks for everything in the end."""
    world, begun, found = _world(), time.monotonic(), Counted()
    queries = Queries("uniform", 8, LENGTH, Weights.equal(6))
    rules = rules_of(rule_sets_of(rule, None)[rule])
    every = [(t, "all") for t in UPWARDS] if rule in NO_DEAD_ENDS else []
    for number in numbers:
        asks = queries.asks(world.first.schema, SEED, number)
        asked = [asks(k, world.first) for k in range(LENGTH)] + every
        decided = replayed(world.judge.anew(), world.first, asked, rules)
        states = [world.first, *(decision.state for decision in decided)]
        last = states[-1].released
        found.streams += 1
        found.states += len(states)
        found.unsafe += sum(not world.is_safe(state.released) for state in states)
        frontier = world.frontier if number % EVERY else world.frontier_by_bounds
        found.wrong_frontiers += sum(set(state.unreleasable) != frontier(state.released) for state in states)
        found.not_maximal += world.can_grow(last)
        found.ends[last.sub_tables(world.first.schema)] += 1
        for state in [states[k] for k in LOOKED] if every else []:
            reached = [world.is_reached(state, t, rules) for t in range(64) if world.is_releasable(state.released, t)]
            found.reachable += len(reached)
            found.not_reached += reached.count(False)
    found.seconds = time.monotonic() - begun
    return found


class World:
    """The table, the server's judge, and brute force with a memory."""

    def __init__(self) -> None:
        table = read_table(CZECH)
        truth = BruteForce(table, CRITERIA)
        self.judge = Judge(table, knows(table, NOTHING), CRITERIA)
        self.first = surveyed(self.judge, State.first(table.schema, one_way(table.schema)))
        self.is_safe, self.frontier_by_bounds = truth.is_safe, cache(truth.unreleasable_frontier)
        self.frontier = cache(self._frontier)
        self._below = [sum(1 << t for t in st.submasks(subtable)) for subtable in range(64)]
        self._safe, self._unsafe = list[int](), list[int]()

    def can_grow(self, release: Release) -> bool:
        return any(self.is_releasable(release, t) for t in range(64))

    def is_releasable(self, release: Release, subtable: SubTable) -> bool:
        """Whether myopic could release it."""
        return subtable not in release and self._follows(release, subtable)

    def is_reached(self, state: State, subtable: SubTable, rules: tuple[Rule, ...]) -> bool:
        """Whether a server with these rules releases it when its parts are asked for first."""
        asked = [(t, "all") for t in UPWARDS if st.is_within(t, subtable)]
        return subtable in replayed(self.judge.anew(), state, asked, rules)[-1].state.released

    def _frontier(self, release: Release) -> set[SubTable]:
        unsafe = [t for t in range(64) if t not in release and not self._follows(release, t)]
        return {t for t in unsafe if not any(st.is_within(s, t) for s in unsafe if s != t)}

    def _follows(self, release: Release, subtable: SubTable) -> bool:
        """Whether the release with one sub-table more is safe, by bounds where it does not follow from others."""
        larger = self._below[subtable]
        for element in release.frontier:
            larger |= self._below[element]
        if any(larger & ~known == 0 for known in self._safe):
            return True
        if any(known & ~larger == 0 for known in self._unsafe):
            return False
        found = self.is_safe(release.add(subtable))
        (self._safe if found else self._unsafe).append(larger)
        return found


@cache
def _world() -> World:
    return World()


if __name__ == "__main__":
    main()
