"""The functions of `import sdc`: names in, values out. The command line calls the same ones."""

from sdc.api.cells import (
    cell_bounds,
    decomposable_models,
    enumerate_tables,
    fit,
    posterior,
    sharp_bounds,
    super_cell_bounds,
    uniques,
)
from sdc.api.releases import assess, critical_widths, decide, find_release, publish, redesign, risk_utility_curve, why
from sdc.api.tables import check, magnitude_table, round, suppress

__all__ = [
    "assess",
    "cell_bounds",
    "check",
    "critical_widths",
    "decide",
    "decomposable_models",
    "enumerate_tables",
    "find_release",
    "fit",
    "magnitude_table",
    "posterior",
    "publish",
    "redesign",
    "risk_utility_curve",
    "round",
    "sharp_bounds",
    "super_cell_bounds",
    "suppress",
    "uniques",
    "why",
]
