"""What a criterion is, and the registry by which config, searches, server and report find all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from sdc.config.features import by_name
from sdc.config.methods import CRITERIA
from sdc.model.errors import InputError

if TYPE_CHECKING:
    from sdc.model.knowledge import Knowledge
    from sdc.model.schema import Schema
    from sdc.model.structural_zeros import StructuralZeros
    from sdc.model.subtable import SubTable
    from sdc.model.table import Counts, Table
    from sdc.risk.assessment import Assessment, Broken
    from sdc.risk.effort import Effort
    from sdc.risk.support import Support


class Criterion:
    """What a release must satisfy beside the minimum width. A subclass is one file and overrides what it needs.

    key        its argument in Python, by which it is registered
    setting    its place in a config; `sdc.config.methods.CRITERIA` declares there what it works with
    document   its name in histories and manifests, where that is another one: `sdc verify` finds it by that
    monotone   whether a release that satisfies it still does when less is released: searches may cut by a refusal
    is_of_counts  whether it is of published counts alone: it is judged first, for it takes no bounds
    is_of_values  whether it needs a feasible table for each value of a cell, and not for the ends alone
    """

    key: ClassVar[str]
    setting: ClassVar[str]
    document: ClassVar[str] = ""
    monotone: ClassVar[bool] = True
    is_of_counts: ClassVar[bool] = False
    is_of_values: ClassVar[bool] = False

    @classmethod
    def read(cls, given: Any) -> Self:
        """From the argument of Python, or from what the config has at its setting, as plain values."""
        return given if isinstance(given, cls) else cls(**given)

    @property
    def facts(self) -> Any:
        """As documents and messages have it."""
        raise NotImplementedError

    @property
    def sentence(self) -> str:
        """What page one of the report says of it."""
        raise NotImplementedError

    @property
    def hides(self) -> int:
        """A suppressed table hides each count from 1 up to this."""
        return 0

    def check(self, schema: Schema) -> None:
        """InputError where it names what the table does not have."""

    def require_total(self, table: Table) -> None:
        """NothingReleasableError where not even the number of records may be published."""

    def keeps(self, table: Table, zeros: StructuralZeros, subtable: SubTable) -> bool:
        """Whether a sub-table may be published whole, and all within it, by published counts alone."""
        return True

    def broken(self, table: Table, known: Knowledge) -> Broken | None:
        """The first published sub-table that breaks it, by published counts alone."""
        return None

    def with_likely(self, answer: Assessment, table: Table, known: Knowledge, rows: Counts) -> Assessment:
        """The answer with its own, by what is known, on at-risk rows of the table that no bound refutes."""
        return answer

    def with_shown(self, answer: Assessment, support: Support, effort: Effort | None = None) -> Assessment:
        """The answer with its own, by feasible tables; within an effort it looks for more of them."""
        return answer

    def unproven(self, support: Support) -> int:
        """Of how many at-risk cells feasible tables do not show it."""
        return 0


_REGISTERED: dict[str, type[Criterion]] = {}
C = TypeVar("C", bound=Criterion)


def register(kind: type[C]) -> type[C]:
    """Lets everything find a criterion. ValueError for a name that another one has, or a setting that is undeclared."""
    if kind.key in _REGISTERED:
        raise ValueError(f"two criteria are named {kind.key}: {_REGISTERED[kind.key].__name__} and {kind.__name__}")
    if kind.setting not in by_name(CRITERIA):
        raise ValueError(f"{kind.__name__} has the setting {kind.setting}, which CRITERIA of sdc.config.methods lacks")
    _REGISTERED[kind.key] = kind
    return kind


def registered() -> tuple[type[Criterion], ...]:
    """Each once, in the order of the declarations."""
    places = [one.name for one in CRITERIA]
    return tuple(sorted(_REGISTERED.values(), key=lambda kind: places.index(kind.setting)))


def of_config(risk: Any) -> Iterator[Criterion]:
    """Those that the section `risk` of a config asks for."""
    for kind in registered():
        if (given := getattr(risk, kind.setting.removeprefix("risk."))) is not None:
            yield kind.read(given.model_dump() if hasattr(given, "model_dump") else given)


def of_settings(settings: Mapping[str, Any]) -> Iterator[Criterion]:
    """Those that arguments of Python give, None for none. InputError for an unknown name."""
    if unknown := sorted(settings.keys() - _REGISTERED.keys()):
        raise InputError(f"{unknown[0]!r} is not a criterion; choose from {', '.join(_REGISTERED)}")
    for kind in registered():
        if (given := settings.get(kind.key)) is not None:
            yield kind.read(given)
