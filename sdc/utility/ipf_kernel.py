"""The inner loop of iterative proportional fitting: one pass over the cells for each marginal."""

from __future__ import annotations

from sdc.compiled import kernel

LANES = 4


@kernel
def rescale(values, before, factor, after, lanes):
    """Multiply each cell by the factor of its group in `before`, and sum the new values by group in `after`.

    A step of IPF ([DKS] section 3.2) without the division, which the caller does; exact up to rounding, for any order.

    values  (n,) float64, changed in place
    before, after  (n,) unsigned, the group of each cell in the marginal just summed and in the next
    factor  (groups of before,) float64
    lanes   (LANES, groups of after) float64, written: partial sums. Neighbouring cells usually share a group, and
            separate sums for each of four cells avoid waiting for the previous addition.
    """
    # scaling and summing in one pass: the cells exceed the cache, and reading them takes most of the time
    lanes[:] = 0.0
    whole = len(values) - len(values) % LANES
    for first in range(0, whole, LANES):
        for lane in range(LANES):
            i = first + lane
            value = values[i] * factor[before[i]]
            values[i] = value
            lanes[lane, after[i]] += value
    for i in range(whole, len(values)):
        value = values[i] * factor[before[i]]
        values[i] = value
        lanes[0, after[i]] += value
