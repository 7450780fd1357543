"""Candidates of a growth: those that are left, and of the pairs those that open up most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from sdc.model import subtable as st
from sdc.model.graph import component_with, independence_graph
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.search.step import SearchStep

LeftOut = tuple[SubTable, ...]


def left_of(release: Release, candidates: Sequence[SubTable], refused: LeftOut = ()) -> list[SubTable]:
    """Candidates that are not released, and contain nothing that was refused: they could go out only with that."""
    sets = np.array(candidates, np.int64)
    is_out = st.within_one_of(sets, release.frontier)
    for smaller in refused:
        is_out |= sets & smaller == smaller
    return [candidates[k] for k in np.flatnonzero(~is_out).tolist()]


def opening_pairs(known: Knowledge, candidates: Sequence[SubTable], refused: LeftOut) -> Iterator[SubTable]:
    """Two-way candidates that are left; first those that make small components and open up the most.

    A pair opens up the candidates that have it and whose other pairs are released.
    """
    release, sets, schema = known.release, np.array(candidates, np.int64), known.schema
    graph = independence_graph(release.frontier, len(schema))
    left = [t for t in candidates if st.ways(t, schema) == 2 and t not in release and t not in refused]

    def size(pair: SubTable) -> int:
        ends = schema.levels.finest(pair)
        part = component_with(known.structure.components, known.structure.independence_graph, release, ends)
        return st.ways(schema.levels.closed(part), schema)

    def opened(pair: SubTable) -> int:
        u, v = st.members(schema.levels.finest(pair))
        around = pair | graph[u] & graph[v]
        return int(((sets & pair == pair) & (sets & ~around == 0)).sum())

    # mostly the first is accepted, and only pairs of its size need to be distinguished
    for _, alike in groupby(sorted(((size(pair), k, pair) for k, pair in enumerate(left))), key=itemgetter(0)):
        yield from sorted((pair for _, _, pair in alike), key=lambda pair: -opened(pair))


def stopped_by_few(steps: Iterable[SearchStep], refused: LeftOut, times: int) -> list[SubTable]:
    """Of what was refused alone what nothing was proven of, by the number of cells that were open when it was.

    times  what was asked about more often alone is left out
    """
    steps = [step for step in steps if len(step.added) == 1 and step.answer is None]
    asked = Counter(step.added[0] for step in steps)
    open_ = {step.added[0]: step.undecided_cells for step in steps if asked[step.added[0]] <= times}
    return sorted((t for t in refused if t in open_), key=lambda t: open_[t])
