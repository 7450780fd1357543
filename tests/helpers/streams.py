"""Random streams of requests, and what is right after each of them, found without the server's code."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from sdc.bounds.exact import bounds as exact_bounds
from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.server.service.decision import Decider, Decision
from sdc.server.service.rules import Past
from tests.strategies import knows

USERS = ("ada", "bob", "cyd")


class BruteForce:
    """Safe or not, by the exact bounds of the at-risk cells, with nothing carried from one release to the next."""

    def __init__(self, table: Table, criteria: Criteria) -> None:
        at_risk = np.asarray(table.codes[table.at_risk(criteria.small_count)])

        @cache
        def is_safe(release: Release) -> bool:
            found = exact_bounds(table, knows(table, release), at_risk)
            assert found.exact.all()
            return bool((found.outer[:, 1] - found.outer[:, 0]).min() >= criteria.width.min_width)

        self.is_safe, self.variables = is_safe, len(table.schema)

    def unreleasable_frontier(self, released: Release) -> set[SubTable]:
        """UF(t), the minimal ones of all sub-tables that would break the criterion."""
        found = set[SubTable]()
        for t in sorted(range(1 << self.variables), key=st.dimension):
            if t not in released and not any(st.is_within(s, t) for s in found) and not self.is_safe(released.add(t)):
                found.add(t)
        return found


def stream(seed: int, variables: int, length: int) -> Iterator[tuple[SubTable, str]]:
    """Sub-tables of a variable or more, each with its user."""
    generator = np.random.default_rng(seed)
    for subtable, user in zip(
        generator.integers(1, 1 << variables, length).tolist(), generator.integers(0, len(USERS), length), strict=True
    ):
        yield subtable, USERS[user]


def decisions(decider: Decider, state: State, asked: Iterator[tuple[SubTable, str]]) -> Iterator[Decision]:
    """What becomes of one request after the other."""
    past = Past(state.released.sub_tables(state.schema), Counter(), Counter())
    for subtable, who in asked:
        before = state.released.sub_tables(state.schema)
        decision = decider.decide(state, past, subtable, who)
        state = decision.state
        caused = Counter(past.caused) + Counter({who: state.released.sub_tables(state.schema) - before})
        past = replace(past, interest=Counter(past.interest) + Counter([subtable]), caused=caused)
        yield decision
