"""Names of what can be asked for together: methods, verbs, and the features of a config; and groups of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar


class Kind(Enum):
    """METHOD: one of `release.method`; VERB: what is called, one at a time; FEATURE: what a config may have beside."""

    METHOD = "method"
    VERB = "verb"
    FEATURE = "feature"


@dataclass(frozen=True)
class Capability:
    """What is asked for by this name, or by a command or a verb of Python in `also`.

    keys    of the config, the first as messages name it: who gives something there asks for it
    values  where only these, or a list with one of them, ask for it
    """

    name: str
    kind: Kind
    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """As messages name it."""
        if self.kind is Kind.VERB:
            return OPTIONS.get(self.name, f"sdc {self.name}")
        return f"{self.keys[0]} = {self.values[0]}" if len(self.values) == 1 else self.name

    def is_asked(self, value: Any) -> bool:
        """Whether who gives this value at one of its keys asks for it."""
        if not self.values:
            return value not in (None, (), {}, False)
        given = (value,) if isinstance(value, str) else value or ()
        return any(set(_named(one)) & set(self.values) for one in given)


@dataclass(frozen=True)
class Declared:
    """What works with one feature, as the feature itself declares it: a key of the config, or the first of several.

    refused  others, and why they do not work with it and what to do
    """

    name: str
    works: tuple[str, ...]
    refused: tuple[tuple[tuple[str, ...], str], ...]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


D = TypeVar("D", bound=_Named)


def by_name(declared: Iterable[D]) -> dict[str, D]:
    """Those that declare themselves, by their names, in order; ValueError for a name that two of them have."""
    found = dict[str, D]()
    for one in declared:
        if one.name in found:
            raise ValueError(f"two features are declared under the name {one.name}; give each its own")
        found[one.name] = one
    return found


def _named(value: Any) -> tuple[Any, ...]:
    """What of a value in a list may ask for something."""
    if ways := getattr(value, "ways", None):
        return tuple(ways)
    return (A_MODEL if is_model(value) else getattr(value, "rule", value),)


def is_model(law: Any) -> bool:
    """Whether a law is written as a model, such as [a,b][b,c]."""
    return isinstance(law, str) and law.strip().startswith("[")


ZEROS, HIERARCHIES, WEIGHT = "table.structural_zeros", "table.hierarchies", "table.weight"
MISSING = "table.missing_counts"
REQUIRE, FORBID, OUTER = "release.require", "release.forbid", "risk.accept_undecided"
ONLY, MINUTES, SHARP, IN_PART = "release.required_only", "release.minutes", "assessment", "release.protect"
OBJECTIVE, AT_LEAST = "release.objective", "release.at_least"
ROUND, COARSEN = "release.protect.rounding", "release.protect.recoding"
FORMATS, CHILDREN, LISTED, TOTALS, KEY = (
    f"publication.{name}" for name in ("formats", "children", "zeros", "totals", "signing_key")
)
BEFORE, IMPOSSIBLE = ("earlier", "ledger"), (ZEROS, HIERARCHIES)
CONSTRAINTS = (OBJECTIVE, REQUIRE, FORBID, ONLY, MINUTES, AT_LEAST)
IN_PARTS = (IN_PART, ROUND, COARSEN)
OF_WHOLE = ("curve", "remedies")
"""What is asked of whole sub-tables alone."""
UPLOAD = "output.upload"
IN_FOLDER = ("labels", FORMATS, CHILDREN, LISTED, TOTALS, KEY)
FILES = (*IN_FOLDER, UPLOAD)
MODEL, A_MODEL = "posterior.laws", "a model"
UNIQUES, ATTACK = "uniques", "attack"
ESTIMATED = (UNIQUES, ATTACK)
STATED, LIKELY = ("curve", "remedies", "posterior", *ESTIMATED), ("posterior", MODEL)
REPORTED = (*STATED, MODEL)
DRAWING, SERVED = "server.rules", ("server", "server.rules")
RICH = ("csvw", "json-stat", "px", "sdmx-csv", "xml", "xlsx", "pxapi")
"""Formats beside csv and parquet."""
FORMAT_NAMES = ("csv", "parquet", *RICH)
"""All formats; `sdc.publish.formats` has a writer of each, and `sdc.verify.published` a reader."""
if TYPE_CHECKING:
    FormatName: TypeAlias = str
else:  # the config refuses others by their names
    FormatName = Literal[FORMAT_NAMES]
VERBS = {
    "run": (),
    "plan": (),
    "verify": ("verify_run",),
    "compare": (),
    "explore": (),
    "widths": ("critical_widths",),
    "sweep": (),
    "bounds": ("cell_bounds", "sharp_bounds", "super_cell_bounds"),
    "assess": (),
    "why": (),
    "redesign": (),
    "enumerate": ("enumerate_tables",),
    "fit": ("decomposable_models",),
    "release": ("find_release",),
    "publish": ("publish",),
    "suppress": (),
    "round": ("rounded_table",),
    "magnitude": ("magnitude_table",),
    "check": (),
    "simulate": (),
    "replay": (),
    "audit": (),
}
"""With other names, as Python or other commands call them."""
OPTIONS = {"redesign": "sdc why --redesign", "publish": "sdc release --out"}
OF_CONFIGS = tuple(name for name in VERBS if name != "magnitude")
