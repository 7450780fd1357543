"""Compiled random matching of two cliques' records within their separator."""

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
    """Give each record a random one of the pool, without replacement, within its group.

    group    (cells of the host,) the group (cell of the separator) of each cell
    host     (records,) the cell of each record
    pool     (records,) cells of the new clique for each record, group by group; the order within a group changes
    start    (groups + 1,) where each group begins
    state    (1,) of the generator, splitmix64; advanced
    matched  (records,) filled with the new clique's cells
    """
    left = start[1:] - start[:-1]
    for r in range(len(host)):
        g = group[host[r]]
        place = start[g] + below(state, left[g])
        left[g] -= 1
        matched[r] = pool[place]
        # the last remaining one takes its place, and the taken one goes behind, so that the pool stays complete
        last = start[g] + left[g]
        pool[place], pool[last] = pool[last], pool[place]
