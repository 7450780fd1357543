"""The shuttle's compiled propagation: t1 + t3 = t2 along one axis of all super-cells."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdc.compiled import kernel

Counts = npt.NDArray[np.int64]


@kernel
def narrow(low: Counts, up: Counts, splits: Counts, subsets: int, step: int) -> bool:
    """In place on (super-cells,) bounds, along the axis with so many subsets and that step; returns whether any
    changed.

    splits  (n, 3) t1, t3, t2 on the axis
    """
    moved = False
    for begin in range(0, len(low), subsets * step):
        for s in range(len(splits)):
            one, three, two = begin + splits[s, 0] * step, begin + splits[s, 1] * step, begin + splits[s, 2] * step
            for k in range(step):
                low1, low3, low2 = low[one + k], low[three + k], low[two + k]
                up1, up3, up2 = up[one + k], up[three + k], up[two + k]
                most, least = min(up2, up1 + up3), max(low2, low1 + low3)
                new1, new3 = min(up1, most - low3), min(up3, most - low1)
                old1, old3 = max(low1, least - up3), max(low3, least - up1)
                if most < up2 or least > low2 or new1 < up1 or new3 < up3 or old1 > low1 or old3 > low3:
                    moved = True
                    up[two + k], low[two + k] = most, least
                    up[one + k], up[three + k], low[one + k], low[three + k] = new1, new3, old1, old3
    return moved
