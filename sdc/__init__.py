"""sdc decides which marginal sub-tables of a table of counts may be published, and proves it.

`__all__` lists the stable names: functions, the table, the release, the knowledge, and the results. `help(sdc.publish)`
has the arguments of one with an example. The names of commands work too: `sdc.bounds`, `sdc.enumerate`, `sdc.release`,
`sdc.verify` and `sdc.widths` are `cell_bounds`, `enumerate_tables`, `find_release`, `verify_run` and `critical_widths`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any
from warnings import warn

from sdc.version import VERSION

__version__ = VERSION
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
    from flows.run import run as run
    from sdc.api import *
    from sdc.api import critical_widths, enumerate_tables, find_release

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


def _stable() -> list[str]:
    """The stable names: `run`, and those of `sdc.api`."""
    names = vars(import_module("sdc.api")).items()
    return sorted(["run", *(name for name, value in names if name[0] != "_" and not isinstance(value, ModuleType))])


def _function(name: str) -> Any:
    from sdc.verb import checked

    return checked(getattr(import_module("flows.run" if name == "run" else "sdc.api"), name))


def __getattr__(name: str) -> Any:
    """Imports what is first asked for, so that `sdc --help` answers at once."""
    if name == "__all__":
        return _stable()
    if name.startswith("_"):
        raise AttributeError(f"module 'sdc' has no attribute {name!r}")
    if find_spec(f"sdc.{name}"):  # a module that is not imported yet
        return import_module(f"sdc.{name}")
    if (stable := _COMMANDS.get(name, name)) == "run" or stable in _stable():
        return _function(stable)
    if name in _FORMER:
        warn(f"sdc.{name} is called sdc.{_FORMER[name]} now; use that", DeprecationWarning, stacklevel=2)
        return _function(_FORMER[name])
    from sdc.verb import OLD_NAMES, old

    if name in OLD_NAMES:
        return old(name, _function(OLD_NAMES[name].function))
    raise AttributeError(f"module 'sdc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_stable(), "__version__"])
