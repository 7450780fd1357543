"""sdc decides which marginal sub-tables of a table of counts may be published, and proves it.

The verbs of the command line, for notebooks. `dir(sdc)` lists them, `help(sdc)` has their signatures; those that are
called as a command are that command: `widths` is `critical_widths`, `release` is `find_release`, and `enumerate` is
`enumerate_tables`. `sdc.bounds`, `sdc.publish` and `sdc.verify` are packages, so that none of them can be a verb too:
theirs are `cell_bounds`, `publish_release` and `verify_run`. `PosteriorLimit` is what limits what is likely,
`Attributes` of which groups too much is told, `knowledge` is what everybody knows of a table.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sdc.version import VERSION

__version__ = VERSION
__all__ = [
    "Attributes",
    "PosteriorLimit",
    "assess",
    "best_release",
    "bisection_release",
    "cell_bounds",
    "check",
    "compare",
    "controlled_rounding",
    "critical_widths",
    "decomposable_models",
    "decomposable_release",
    "enumerate",
    "enumerate_tables",
    "explore",
    "find_release",
    "fit",
    "knowledge",
    "ledger",
    "magnitude_table",
    "ordered_release",
    "posterior",
    "publish_release",
    "read_incomplete",
    "read_table",
    "redesign",
    "release",
    "risk_utility_curve",
    "run",
    "sharp_bounds",
    "simulatable_release",
    "super_cell_bounds",
    "suppress",
    "uniques",
    "verify_run",
    "why",
    "widths",
]
_COMMANDS = {"enumerate": "enumerate_tables", "release": "find_release", "widths": "critical_widths"}

_HOMES = {
    "compare": "sdc.stages.compare",
    "explore": "sdc.stages.explore",
    "ledger": "sdc.record.ledger",
    "run": "flows.run",
    "verify_run": "sdc.stages.verified",
}
"""Of verbs that are about runs and publications, and ask nothing of a table; all others are in `sdc.api`."""

if TYPE_CHECKING:
    from flows.run import run
    from sdc.api import (
        Attributes,
        PosteriorLimit,
        assess,
        best_release,
        bisection_release,
        cell_bounds,
        check,
        controlled_rounding,
        critical_widths,
        decomposable_models,
        decomposable_release,
        enumerate_tables,
        find_release,
        fit,
        knowledge,
        magnitude_table,
        ordered_release,
        posterior,
        publish_release,
        read_incomplete,
        read_table,
        redesign,
        risk_utility_curve,
        sharp_bounds,
        simulatable_release,
        super_cell_bounds,
        suppress,
        uniques,
        why,
    )
    from sdc.record.ledger import ledger
    from sdc.stages.compare import compare
    from sdc.stages.explore import explore
    from sdc.stages.verified import verify_run

    enumerate, release, widths = enumerate_tables, find_release, critical_widths


def __getattr__(name: str) -> Any:
    """Imports the verbs when they are first asked for, so that `sdc --help` answers at once."""
    if name not in __all__:
        raise AttributeError(f"module 'sdc' has no attribute {name!r}")
    from sdc.arguments import checked

    return checked(getattr(import_module(_HOMES.get(name, "sdc.api")), _COMMANDS.get(name, name)))


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
