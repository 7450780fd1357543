"""Records of two cliques matched at random within their separator, compiled."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import kernel
from sdc.intruder.chain_kernel import State, below

Ints: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = npt.NDArray[np.int32]


@kernel
def match(group: Places, host: Places, pool: Places, start: Ints, state: State, matched: Places) -> None:
    """Gives each record one of the pool at random, without replacement, among those of its group.

    group    (cells of the host,) the group, a cell of the separator, of each cell
    host     (records,) the cell of each record
    pool     (records,) cells of the new clique, a record each, group after group; its order within a group changes
    start    (groups + 1,) where each group begins
    state    (1,) of the generator, splitmix64; moved on
    matched  (records,) is filled with the new clique's cells
    """
    left = np.diff(start)
    for r in range(len(host)):
        g = group[host[r]]
        place = start[g] + below(state, left[g])
        left[g] -= 1
        matched[r] = pool[place]
        # the last one left takes its place; what was taken goes behind, so that the pool stays whole
        last = start[g] + left[g]
        pool[place], pool[last] = pool[last], pool[place]
