"""Bounds of cells by HiGHS, in a process of its own: it cannot share one with OR-Tools."""

import time

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


def bounds(patterns: list[int], totals: list[int], variables: int, cells: list[int]) -> tuple[float, list[list[float]]]:
    """Seconds, and the lower and upper end of each cell over all tables of non-negative reals that agree.

    A row a released sub-table, over the cells that have 1 in all of its variables; the totals are those of the table.
    One model serves all ends, so that each starts from the basis of the one before. The model is built before the
    clock starts.
    """
    import highspy

    every = np.arange(1 << variables, dtype=np.int64)
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    model.addVars(len(every), np.zeros(len(every)), np.full(len(every), highspy.kHighsInf))
    for pattern, total in zip(patterns, totals, strict=True):
        within = np.flatnonzero(every & pattern == pattern).astype(np.int32)
        model.addRow(total, total, len(within), within, np.ones(len(within)))
    begun, found = time.perf_counter(), []
    for cell in cells:
        model.changeColCost(cell, 1.0)
        ends = []
        for sense in (highspy.ObjSense.kMinimize, highspy.ObjSense.kMaximize):
            model.changeObjectiveSense(sense)
            model.run()
            if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                raise RuntimeError(f"HiGHS: {model.getModelStatus()}")
            ends.append(float(model.getObjectiveValue()))
        model.changeColCost(cell, 0.0)
        found.append(ends)
    return time.perf_counter() - begun, found
