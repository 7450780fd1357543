"""An item of a paper: what it prints, what is computed of the same data, and what an independent check has found."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from markupsafe import Markup

from tests.papers.sources import FILES, Sources

Value: TypeAlias = str | int | float | Sequence["Value"] | Mapping[str, "Value"]
"""As JSON has it: a figure, a few words, a list of these, or several by their names."""


class Standing(Enum):
    """How an item stands. DIFFERS: for a known reason; NEEDS: data that are not here; UNEXPLAINED: neither is so."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NEEDS = "needs"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Item:
    """A table, a figure of a table or a statement of a paper.

    key      by which `--only` asks for it
    paper    one of the references, such as KDSF
    where    table, section or equation
    what     it is, in a sentence
    printed  by the paper, or that of its words which can be computed
    compute  the same by the product's verbs; None where the data were never published, or it takes too long
    checked  what another computation than ours has found, where what is printed is not that
    why      it is not
    needs    what is missing where it cannot be computed: a file of `sources.FILES`, or words
    within   by how much figures that agree may differ: half of the last digit that is printed, or of what is sampled
    draw     a picture of it, by what was computed
    """

    key: str
    paper: str
    where: str
    what: str
    printed: Value
    compute: Callable[[Sources], Value] | None
    checked: Value | None = None
    why: str = ""
    needs: str = ""
    within: float = 0.0
    draw: Callable[[Sources, Value], Markup] | None = None

    def standing(self, computed: Value | None) -> Standing:
        """How it stands beside what was computed, None where nothing was."""
        if computed is None:
            return Standing.NEEDS
        if alike(self.printed, computed, self.within):
            return Standing.AGREES
        explained = self.checked is not None and alike(self.checked, computed, self.within)
        return Standing.DIFFERS if explained else Standing.UNEXPLAINED


@dataclass(frozen=True)
class Outcome:
    """An item with what was computed of it, None where it could not be, and its picture."""

    item: Item
    computed: Value | None
    picture: Markup | None = None

    @property
    def standing(self) -> Standing:
        return self.item.standing(self.computed)

    @property
    def why(self) -> str:
        """What is missing, or why it differs; nothing where it agrees, and where nobody knows."""
        if self.standing is Standing.NEEDS:
            return f"needs {self.item.needs}{' of --data' if self.item.needs in FILES else ''}"
        return self.item.why if self.standing is Standing.DIFFERS else ""

    @property
    def facts(self) -> dict[str, Any]:
        """As the document has it."""
        item = self.item
        return {
            "key": item.key,
            "paper": item.paper,
            "item": item.where,
            "what": item.what,
            "printed": item.printed,
            "computed": self.computed,
            "agrees": self.standing is Standing.AGREES if self.computed is not None else None,
            "standing": self.standing.value,
            "why": self.why or None,
        }

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Name, printed and computed, of each part of the item, as its table has them."""
        printed, computed = [*_parts(self.item.printed)], [*_parts(self.computed)]
        if len(printed) != len(computed) or [n for n, _ in printed] != [n for n, _ in computed]:
            return [("", written(self.item.printed), written(self.computed))]
        return [(name, one, other) for (name, one), (_, other) in zip(printed, computed, strict=True)]


def alike(one: Value, other: Value, within: float) -> bool:
    """Whether two values are equal, numbers of them but for so much."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(one[name], other[name], within) for name in one)
    if isinstance(one, Sequence) and isinstance(other, Sequence):
        return len(one) == len(other) and all(alike(a, b, within) for a, b in zip(one, other, strict=True))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= within
    return False


def written(value: Value | None) -> str:
    """On one line, as people write it."""
    if value is None:
        return "not computed"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {written(one)}" for name, one in value.items())
    if isinstance(value, float):
        return f"{value:.3g}" if value >= 0.001 else f"{value:g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, str):
        return value
    words = [written(one) for one in value]
    is_interval = len(value) == 2 and all(isinstance(one, int) for one in value)
    return f"[{words[0]}, {words[1]}]" if is_interval else ", ".join(words)


def _parts(value: Value | None) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from ((name, written(one)) for name, one in value.items())
    else:
        yield "", written(value)
