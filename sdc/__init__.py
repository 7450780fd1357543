"""sdc decides which marginal sub-tables of a table of counts may be published, and proves it.

The verbs of the command line, for notebooks: `read_table`, `critical_widths`, `cell_bounds`,
`assess`, `ordered_release`, `decomposable_release`, `best_release`, `simulatable_release`, `risk_utility_curve`,
`enumerate_tables`, `posterior`, `publish_release`, `why`; and `PosteriorLimit`, which some of them take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sdc.version import VERSION

__version__ = VERSION
__all__ = [
    "PosteriorLimit",
    "assess",
    "best_release",
    "cell_bounds",
    "critical_widths",
    "decomposable_release",
    "enumerate_tables",
    "ordered_release",
    "posterior",
    "publish_release",
    "read_table",
    "risk_utility_curve",
    "simulatable_release",
    "why",
]

if TYPE_CHECKING:
    from sdc.api import (
        PosteriorLimit,
        assess,
        best_release,
        cell_bounds,
        critical_widths,
        decomposable_release,
        enumerate_tables,
        ordered_release,
        posterior,
        publish_release,
        read_table,
        risk_utility_curve,
        simulatable_release,
        why,
    )


def __getattr__(name: str) -> Any:
    """Imports the verbs when they are first asked for, so that `sdc --help` answers at once."""
    if name not in __all__:
        raise AttributeError(f"module 'sdc' has no attribute {name!r}")
    from sdc import api

    return getattr(api, name)
