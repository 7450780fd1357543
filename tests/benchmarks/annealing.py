"""Annealing on cps13 beside a plain Python bit-mask chain; then 30 variables, with the peak of memory.

    python tests/benchmarks/annealing.py

Some four minutes. The plain chain does the same proposals with Python integers as bit sets, marginals at the at-risk
cells kept in a dictionary, and critical widths as a first filter; it has them before its clock starts.
"""

from __future__ import annotations

import math
import random
import time
from itertools import combinations

import numpy as np
from side_by_side import check, data_file, in_child, machine, one_core, peak_mib, say, show
from width_sweep import latent_classes

from sdc.config.release import AnnealingConfig
from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import critical_widths
from sdc.search.annealing import AnnealingChain, cooling_of
from sdc.search.chain_kernel import Cooling, temperature

SMALL_COUNT = 3
MIN_WIDTHS = (3, 4, 5)
CHAINS = 4
STEPS, PLAIN_STEPS = 300_000, 100_000
THIRTY_STEPS = 100_000
THIRTY_SECONDS = 600.0


def main() -> None:
    say(machine())
    with one_core() as pinned:
        beside_plain(read_table(data_file("cps13.parquet")), pinned)
    found = in_child(anneal_thirty, limit=THIRTY_SECONDS)
    row = list(found) if found else ["", "", "", f"more than {THIRTY_SECONDS:.0f}", ""]
    header = ["", "at-risk cells", "steps", "best", "seconds", "peak MiB"]
    show("synthetic, 300,000 records, min width 3, one chain", header, [["30 variables", *row]])


def beside_plain(table: Table, pinned: str) -> None:
    rows = []
    for min_width in MIN_WIDTHS:
        ours = [annealed(table, min_width, seed) for seed in range(CHAINS)]
        plain = PlainChain(table, min_width)
        rate, best = plain.rate(cooling_of(AnnealingConfig(steps=PLAIN_STEPS)))
        warm = max(steps_per_second for steps_per_second, _ in ours[1:])
        check(all(value >= best for _, value in ours), "plain chain found more sub-tables")
        utilities = " ".join(f"{value:.0f}" for _, value in ours)
        rows.append([f"min width {min_width}", ours[0][0], warm, rate, f"{warm / rate:.1f}", "10", utilities, best])
    header = ["", "sdc, first chain", "sdc, later chain", "plain", "times plain", "goal", "best, chains", "best, plain"]
    show(f"cps13, c = {SMALL_COUNT}: proposals a second, one core ({pinned})", header, rows)
    say(f"  {STEPS:,} steps a chain, {PLAIN_STEPS:,} of the plain one over the same temperatures.")
    say("  The first chain counts the marginals that the later ones find; `later` is the fastest of those.")


def annealed(table: Table, min_width: int, seed: int) -> tuple[float, float]:
    """Proposals a second and the best utility of a chain."""
    chain = AnnealingChain(
        Knowledge.of(table, NOTHING, NO_ZEROS, NO_FACTS),
        Criteria.of(SMALL_COUNT, min_width),
        cooling_of(AnnealingConfig(steps=STEPS)),
    )
    state = chain.init(table, seed)
    begun = time.perf_counter()
    state = chain.step(table, state, STEPS)
    return STEPS / (time.perf_counter() - begun), state.best.value


class PlainChain:
    """The chain in plain Python and NumPy: what one writes from the paper."""

    def __init__(self, table: Table, min_width: int) -> None:
        self.variables, self.min_width = len(table.schema), min_width
        self.marginals = CellMarginals(table, table.codes[table.at_risk(SMALL_COUNT)], max_bytes=1 << 30)
        self.wide = set(critical_widths(table, small_count=SMALL_COUNT, floor=min_width).sub_tables.tolist())
        for subtable in self.wide:
            self.marginals.at(subtable)
        self.neighbours = [0] * self.variables
        self.cliques = [1 << v for v in range(self.variables)]
        self.lower = sum(self.marginals.at(c) for c in self.cliques) - (self.variables - 1) * table.total
        self.utility = self.variables

    def rate(self, cooling: Cooling) -> tuple[float, int]:
        """Proposals a second, and the best utility."""
        draw, best, moves = random.Random(1), self.utility, self.legal_moves()
        begun = time.perf_counter()
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
                best = max(best, self.utility)
        return cooling.length / (time.perf_counter() - begun), best

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


def anneal_thirty() -> tuple[int, int, float, float, float]:
    """At-risk cells, steps, best utility, seconds and the peak of memory."""
    table = latent_classes(records=300_000, variables=30, categories=4, classes=12, generator=np.random.default_rng(30))
    chain = AnnealingChain(
        Knowledge.of(table, NOTHING, NO_ZEROS, NO_FACTS),
        Criteria.of(2, 3),
        cooling_of(AnnealingConfig(steps=THIRTY_STEPS)),
    )
    begun = time.perf_counter()
    state = chain.step(table, chain.init(table, 1), THIRTY_STEPS)
    return len(table.at_risk(2)), THIRTY_STEPS, state.best.value, time.perf_counter() - begun, peak_mib()


if __name__ == "__main__":
    main()
