"""Labels: how variables and categories are called for readers; no decision depends on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sdc.model.errors import InputError
from sdc.model.schema import Schema, Variable, is_plain

NOT_PLAIN = "it has a control character or one that turns the direction of text; write it without"


@dataclass(frozen=True)
class VariableLabels:
    """The label of a variable, a note, its unit, and labels of some categories."""

    label: str | None = None
    note: str | None = None
    unit: str | None = None
    categories: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def given(self) -> dict[str, object]:
        """The labels for programs, without empty ones."""
        given = {"label": self.label, "note": self.note, "unit": self.unit, "categories": dict(self.categories)}
        return {what: text for what, text in given.items() if text}

    @property
    def texts(self) -> Iterator[str]:
        """All texts that readers see."""
        yield from filter(None, (self.label, self.note, self.unit))
        yield from self.categories.values()


@dataclass(frozen=True)
class Labels:
    """The labels of a table's variables, by name; the default label is the name."""

    variables: Mapping[str, VariableLabels] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for name, labels in self.variables.items():
            if wrong := next((text for text in labels.texts if not is_plain(text)), None):
                raise InputError(f"label {wrong!r} of variable {name!r}: {NOT_PLAIN}")

    def __bool__(self) -> bool:
        return bool(self.variables)

    def of(self, name: str) -> VariableLabels:
        """All labels of a variable."""
        return self.variables.get(name, _NONE)

    def variable(self, name: str) -> str:
        """The label of a variable."""
        return self.of(name).label or name

    def category(self, name: str, category: str) -> str:
        """The label of a category of the variable `name`."""
        return self.of(name).categories.get(category) or category

    def categories(self, variable: Variable) -> tuple[str, ...]:
        """The labels of all categories, in order."""
        return tuple(self.category(variable.name, category) for category in variable.categories)

    def of_categories(self, names: Collection[str]) -> Labels:
        """The labels, with those of categories only for these variables."""
        return Labels(
            {
                name: own if name in names else VariableLabels(own.label, own.note, own.unit)
                for name, own in self.variables.items()
            }
        )

    def require(self, schema: Schema) -> None:
        """InputError for a label of something unknown, or two equal labels of one kind."""
        for name, labels in self.variables.items():
            variable = schema.variables[schema.index(name)]
            _require_categories(labels, variable)
            if twice := _twice(self.categories(variable)):
                raise InputError(
                    f"two categories of {variable.name!r} would have the label {twice!r}; give each its own"
                )
        if twice := _twice([self.variable(name) for name in schema.names]):
            raise InputError(f"two variables would have the label {twice!r}; give each its own")


_NONE = VariableLabels()
NO_LABELS = Labels()


def _require_categories(labels: VariableLabels, variable: Variable) -> None:
    for category in labels.categories:
        if category not in variable.categories:
            raise InputError(
                f"the label {labels.categories[category]!r} is of the category {category!r}, and variable "
                f"{variable.name!r} has none of that name; correct it, or take the label out",
                f"{variable.name} has the categories {', '.join(variable.categories)}",
            )


def _twice(texts: Iterable[str]) -> str | None:
    return next((text for text, times in Counter(texts).items() if times > 1), None)
