"""Proposals of simulated annealing over decomposable releases, beside a chain in plain Python with NumPy arrays."""

import math
import random
from functools import partial
from itertools import combinations

import numpy as np

from sdc.config.release import AnnealingConfig
from sdc.data.reading import read_table
from sdc.model import subtable as st
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import critical_widths
from sdc.search.annealing import AnnealingChain, cooling_of
from sdc.search.chain_kernel import Cooling, temperature
from tests.benchmarks.measure import DATA, Limits, NotMeasured, Row, check, lacks, one_core, seconds
from tests.strategies import czech, knows

RIVAL, FILE = "plain Python", "cps13.parquet"
ROUNDS, STEPS, PLAIN_STEPS = 3, 300_000, 30_000
SHORT_STEPS, SHORT_PLAIN_STEPS = 20_000, 2_000


def rows(short: bool, limits: Limits) -> list[Row | NotMeasured]:
    """CPS-13 at small count 3 and width 3; the short form is the Czech table at width 6."""
    job = f"annealing, a proposal ({'Czech table' if short else 'CPS-13'})"
    if absent := lacks(job, RIVAL, files=() if short else [FILE]):
        return list(absent)
    if short:
        return [beside(job, czech(), Criteria.of(2, 6), 1, SHORT_STEPS, SHORT_PLAIN_STEPS)]
    return [beside(job, read_table(DATA / FILE), Criteria.of(3, 3), ROUNDS, STEPS, PLAIN_STEPS)]


def beside(job: str, table: Table, criteria: Criteria, rounds: int, steps: int, plain_steps: int) -> Row:
    """The same law of proposals and the same temperatures; the chains draw other numbers."""
    annealed(table, criteria, steps, seed=0)  # counts the marginals that later chains find
    ours, theirs = list[float](), list[float]()
    with one_core():
        for number in range(1, rounds + 1):
            took, best = annealed(table, criteria, steps, number)
            ours.append(took / steps)
            plain = PlainChain(table, criteria)
            theirs.append(
                seconds(partial(plain.run, cooling_of(AnnealingConfig(steps=plain_steps)), number)) / plain_steps
            )
            check(best >= plain.best, f"{job}: ours found {best:.0f} sub-tables, {RIVAL} {plain.best} in fewer steps")
            check(plain.is_safe(), f"{job}: the release of {RIVAL} is not safe")
    note = (
        f"one core, marginals counted before; {steps:,} proposals, {plain_steps:,} in Python; the same temperatures; "
        "ours finds at least as many sub-tables"
    )
    return Row(job, RIVAL, ours, theirs, unit="a proposal", note=note)


def annealed(table: Table, criteria: Criteria, steps: int, seed: int) -> tuple[float, float]:
    """Seconds and the best utility of a chain."""
    chain = AnnealingChain(knows(table, NOTHING), criteria, cooling_of(AnnealingConfig(steps=steps)))
    state = chain.init(table, seed)
    found = []
    took = seconds(lambda: found.append(chain.step(table, state, steps)))
    return took, found[0].best.value


class PlainChain:
    """The chain as one writes it from the paper: cliques as integers, marginals at the at-risk cells in a dictionary.

    Critical widths are a first filter; they are there before the clock starts.
    """

    def __init__(self, table: Table, criteria: Criteria) -> None:
        self.variables, self.min_width, self.total = len(table.schema), criteria.floor, table.total
        small = criteria.small_count
        self.marginals = CellMarginals(table, table.codes[table.at_risk(small)], max_bytes=1 << 30)
        self.wide = set(critical_widths(table, small_count=small, floor=self.min_width).sub_tables.tolist())
        for subtable in self.wide:
            self.marginals.at(subtable)
        self.neighbours = [0] * self.variables
        self.cliques = [1 << v for v in range(self.variables)]
        self.lower = sum(self.marginals.at(c) for c in self.cliques) - (self.variables - 1) * self.total
        self.utility = self.best = self.variables

    def run(self, cooling: Cooling, seed: int) -> None:
        draw, moves = random.Random(seed), self.legal_moves()
        for step in range(cooling.length):
            u, v = draw.choice(moves)
            separator = self.neighbours[u] & self.neighbours[v]
            if self.neighbours[u] >> v & 1:
                loss = 2 ** separator.bit_count()
                accepted = draw.random() < math.exp(-loss / temperature(cooling, step))
                if accepted:
                    self.toggle(u, v, separator, -1)
            else:
                accepted = self.add(u, v, separator)
            if accepted:
                moves = self.legal_moves()
                self.best = max(self.best, self.utility)

    def add(self, u: int, v: int, separator: int) -> bool:
        clique = separator | 1 << u | 1 << v
        if clique not in self.wide:
            return False
        lower = self.lower + self.change(u, v, separator)
        upper = np.minimum.reduce([self.marginals.at(c) for c in [*self.cliques, clique]])
        if (upper - np.maximum(lower, 0)).min() < self.min_width:
            return False
        self.toggle(u, v, separator, 1)
        return True

    def change(self, u: int, v: int, separator: int) -> np.ndarray:
        at = self.marginals.at
        return at(separator | 1 << u | 1 << v) + at(separator) - at(separator | 1 << u) - at(separator | 1 << v)

    def toggle(self, u: int, v: int, separator: int, sign: int) -> None:
        self.lower = self.lower + sign * self.change(u, v, separator)
        self.neighbours[u] ^= 1 << v
        self.neighbours[v] ^= 1 << u
        self.utility += sign * 2 ** separator.bit_count()
        made = [separator | 1 << u | 1 << v] if sign > 0 else [separator | 1 << u, separator | 1 << v]
        gone = made if sign > 0 else [separator | 1 << u | 1 << v]
        self.cliques = [c for c in self.cliques if not any(st.is_within(c, g) for g in gone)]
        self.cliques += [m for m in made if not any(st.is_within(m, c) for c in self.cliques)]

    def legal_moves(self) -> list[tuple[int, int]]:
        return [pair for pair in combinations(range(self.variables), 2) if self.is_legal(*pair)]

    def is_legal(self, u: int, v: int) -> bool:
        separator = self.neighbours[u] & self.neighbours[v]
        if self.neighbours[u] >> v & 1:
            return all(separator & ~self.neighbours[w] == 1 << w for w in st.members(separator))
        reached = fresh = 1 << u
        while fresh:
            around = 0
            for w in st.members(fresh):
                around |= self.neighbours[w]
            fresh = around & ~separator & ~reached
            reached |= fresh
        return not reached >> v & 1

    def is_safe(self) -> bool:
        upper = np.minimum.reduce([self.marginals.at(c) for c in self.cliques])
        return bool((upper - np.maximum(self.lower, 0)).min() >= self.min_width)
