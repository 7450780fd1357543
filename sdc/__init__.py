"""sdc decides which marginal sub-tables of a table of counts may be published, and proves it.

`__all__` lists the stable names: functions, the table, the release, the knowledge, and the results. `help(sdc.publish)`
has the arguments of one with an example. The names of commands work too: `sdc.bounds`, `sdc.enumerate`, `sdc.release`,
`sdc.verify` and `sdc.widths` are `cell_bounds`, `enumerate_tables`, `find_release`, `verify_run` and `critical_widths`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any
from warnings import warn

from sdc.version import VERSION

__version__ = VERSION
__all__ = [
    "Assessment",
    "AttributeDisclosure",
    "CellBounds",
    "CriticalWidths",
    "FoundRelease",
    "Knowledge",
    "Losses",
    "MagnitudeTable",
    "PosteriorLimit",
    "PublishedFolder",
    "Release",
    "ReleasedTable",
    "Rounded",
    "Suppressed",
    "Table",
    "Watch",
    "assess",
    "attack",
    "cell_bounds",
    "check",
    "compare",
    "criteria",
    "critical_widths",
    "decide",
    "decomposable_models",
    "enumerate_tables",
    "explore",
    "find_release",
    "fit",
    "knowledge",
    "ledger",
    "magnitude_table",
    "posterior",
    "publish",
    "read_incomplete",
    "read_table",
    "read_weights",
    "redesign",
    "risk_utility_curve",
    "round",
    "run",
    "sharp_bounds",
    "super_cell_bounds",
    "suppress",
    "synthesize",
    "uniques",
    "verify_run",
    "why",
]
_HOMES = {
    "Assessment": "sdc.risk.assessment",
    "AttributeDisclosure": "sdc.risk.attribute_disclosure",
    "CellBounds": "sdc.model.cell_bounds",
    "CriticalWidths": "sdc.risk.critical_width",
    "FoundRelease": "sdc.search.best",
    "Knowledge": "sdc.model.knowledge",
    "Losses": "sdc.intruder.losses",
    "MagnitudeTable": "sdc.protect.magnitude",
    "PosteriorLimit": "sdc.risk.posterior_limit",
    "PublishedFolder": "sdc.stages.release",
    "Release": "sdc.model.release",
    "ReleasedTable": "sdc.search.found",
    "Rounded": "sdc.protect.rounding",
    "Suppressed": "sdc.protect.one_table",
    "Table": "sdc.model.table",
    "Watch": "sdc.stages.assemble",
    "attack": "sdc.stages.answers",
    "compare": "sdc.stages.finished",
    "criteria": "sdc.risk.asked",
    "explore": "sdc.stages.finished",
    "knowledge": "sdc.stages.resolved",
    "ledger": "sdc.record.ledger",
    "read_incomplete": "sdc.public.incomplete",
    "read_table": "sdc.data.reading",
    "read_weights": "sdc.data.reading",
    "run": "flows.run",
    "synthesize": "sdc.public.synthetic",
    "verify_run": "sdc.stages.verified",
}
"""Of what is not in `sdc.api`."""
_COMMANDS = {
    "bounds": "cell_bounds",
    "enumerate": "enumerate_tables",
    "release": "find_release",
    "verify": "verify_run",
    "widths": "critical_widths",
}
_PACKAGES = {"bounds": "cell_bounds", "publish": "publish", "verify": "verify_run"}
"""Packages that are called as functions too."""
_FORMER = {"Attributes": "AttributeDisclosure"}

if TYPE_CHECKING:
    from flows.run import run
    from sdc.api import (
        assess,
        cell_bounds,
        check,
        critical_widths,
        decide,
        decomposable_models,
        enumerate_tables,
        find_release,
        fit,
        magnitude_table,
        posterior,
        publish,
        redesign,
        risk_utility_curve,
        round,
        sharp_bounds,
        super_cell_bounds,
        suppress,
        uniques,
        why,
    )
    from sdc.data.reading import read_table, read_weights
    from sdc.intruder.losses import Losses
    from sdc.model.cell_bounds import CellBounds
    from sdc.model.knowledge import Knowledge
    from sdc.model.release import Release
    from sdc.model.table import Table
    from sdc.protect.magnitude import MagnitudeTable
    from sdc.protect.one_table import Suppressed
    from sdc.protect.rounding import Rounded
    from sdc.public.incomplete import read_incomplete
    from sdc.public.synthetic import synthesize
    from sdc.record.ledger import ledger
    from sdc.risk.asked import criteria
    from sdc.risk.assessment import Assessment
    from sdc.risk.attribute_disclosure import AttributeDisclosure
    from sdc.risk.critical_width import CriticalWidths
    from sdc.risk.posterior_limit import PosteriorLimit
    from sdc.search.best import FoundRelease
    from sdc.search.found import ReleasedTable
    from sdc.stages.answers import attack
    from sdc.stages.assemble import Watch
    from sdc.stages.finished import compare, explore
    from sdc.stages.release import PublishedFolder
    from sdc.stages.resolved import knowledge
    from sdc.stages.verified import verify_run

    enumerate, release, widths = enumerate_tables, find_release, critical_widths


class _Function(ModuleType):
    """A package whose name is that of a function: `sdc.publish(...)`."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)

    @property
    def function(self) -> Any:
        """The function."""
        return _function(_PACKAGES[self.__name__.partition(".")[2]])

    @property
    def __signature__(self) -> Any:
        import inspect

        return inspect.signature(self.function)


class _Sdc(ModuleType):
    """The package, which makes those of its packages callable that are functions too, when they are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PACKAGES and isinstance(value, ModuleType):
            value.__class__ = _Function
            value.__doc__ = f"{value.__doc__}\n\nAs a function: see `help(sdc.{name}.function)`."
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Sdc


def _function(name: str) -> Any:
    from sdc.verb import checked

    return checked(getattr(import_module(_HOMES.get(name, "sdc.api")), name))


def __getattr__(name: str) -> Any:
    """Imports what is first asked for, so that `sdc --help` answers at once."""
    if name in _PACKAGES:
        return import_module(f"sdc.{name}")
    if (stable := _COMMANDS.get(name, name)) in __all__:
        return _function(stable)
    if name in _FORMER:
        warn(f"sdc.{name} is called sdc.{_FORMER[name]} now; use that", DeprecationWarning, stacklevel=2)
        return _function(_FORMER[name])
    if name.startswith("_"):
        raise AttributeError(f"module 'sdc' has no attribute {name!r}")
    from sdc.verb import OLD_NAMES, old

    if name in OLD_NAMES:
        return old(name, _function(OLD_NAMES[name].function))
    raise AttributeError(f"module 'sdc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
