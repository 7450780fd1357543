"""sdc decides which marginal sub-tables of a table of counts may be published, and proves it.

The verbs of the command line, for notebooks. `dir(sdc)` lists them, `help(sdc)` has their signatures; those that are
called as a command are that command: `widths` is `critical_widths`, `release` is `find_release`, and `enumerate` is
`enumerate_tables`. `sdc.bounds`, `sdc.publish` and `sdc.verify` are packages, so that none of them can be a verb too:
theirs are `cell_bounds`, `publish_release` and `verify_run`. `criteria` is what a release must satisfy, where
`PosteriorLimit` limits what is likely, by `Losses` too, and `AttributeDisclosure` of which groups too much is told;
`knowledge` is what everybody knows of a table; a `Watch` hears of a search while it runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

from sdc.version import VERSION

__version__ = VERSION
__all__ = [
    "AttributeDisclosure",
    "Losses",
    "PosteriorLimit",
    "Watch",
    "assess",
    "attack",
    "best_release",
    "bisection_release",
    "cell_bounds",
    "check",
    "compare",
    "controlled_rounding",
    "criteria",
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
    "read_weights",
    "redesign",
    "release",
    "risk_utility_curve",
    "run",
    "sharp_bounds",
    "simulatable_release",
    "super_cell_bounds",
    "suppress",
    "synthesize",
    "uniques",
    "verify_run",
    "why",
    "widths",
]
_COMMANDS = {"enumerate": "enumerate_tables", "release": "find_release", "widths": "critical_widths"}

_HOMES = {
    "AttributeDisclosure": "sdc.risk.attribute_disclosure",
    "Losses": "sdc.intruder.losses",
    "PosteriorLimit": "sdc.risk.posterior_limit",
    "Watch": "sdc.stages.assemble",
    "attack": "sdc.stages.answers",
    "compare": "sdc.stages.finished",
    "criteria": "sdc.risk.asked",
    "critical_widths": "sdc.risk.critical_width",
    "explore": "sdc.stages.finished",
    "knowledge": "sdc.stages.resolved",
    "ledger": "sdc.record.ledger",
    "publish_release": "sdc.stages.release",
    "read_incomplete": "sdc.public.incomplete",
    "read_table": "sdc.data.reading",
    "read_weights": "sdc.data.reading",
    "run": "flows.run",
    "synthesize": "sdc.public.synthetic",
    "verify_run": "sdc.stages.verified",
}
"""Of what is not in `sdc.api`."""
_FORMER = {"Attributes": "AttributeDisclosure"}

if TYPE_CHECKING:
    from flows.run import run
    from sdc.api import (
        assess,
        best_release,
        bisection_release,
        cell_bounds,
        check,
        controlled_rounding,
        decomposable_models,
        decomposable_release,
        enumerate_tables,
        find_release,
        fit,
        magnitude_table,
        ordered_release,
        posterior,
        redesign,
        risk_utility_curve,
        sharp_bounds,
        simulatable_release,
        super_cell_bounds,
        suppress,
        uniques,
        why,
    )
    from sdc.data.reading import read_table, read_weights
    from sdc.intruder.losses import Losses
    from sdc.public.incomplete import read_incomplete
    from sdc.public.synthetic import synthesize
    from sdc.record.ledger import ledger
    from sdc.risk.asked import criteria
    from sdc.risk.attribute_disclosure import AttributeDisclosure
    from sdc.risk.critical_width import critical_widths
    from sdc.risk.posterior_limit import PosteriorLimit
    from sdc.stages.answers import attack
    from sdc.stages.assemble import Watch
    from sdc.stages.finished import compare, explore
    from sdc.stages.release import publish_release
    from sdc.stages.resolved import knowledge
    from sdc.stages.verified import verify_run

    enumerate, release, widths = enumerate_tables, find_release, critical_widths


def __getattr__(name: str) -> Any:
    """Imports the verbs when they are first asked for, so that `sdc --help` answers at once."""
    if name in _FORMER:
        warn(f"sdc.{name} is called sdc.{_FORMER[name]} now; use that", DeprecationWarning, stacklevel=2)
        name = _FORMER[name]
    if name not in __all__:
        raise AttributeError(f"module 'sdc' has no attribute {name!r}")
    from sdc.verb import checked

    verb = _COMMANDS.get(name, name)
    return checked(getattr(import_module(_HOMES.get(verb, "sdc.api")), verb))


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
