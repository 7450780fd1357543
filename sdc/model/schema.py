"""Schema: the variables of a table and their categories, in order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from sdc.model.errors import InputError
from sdc.model.keys import KeySpace

MAX_VARIABLES = 63  # a sub-table is a bit set, and kernels hold bit sets in int64
MAX_CATEGORIES = 65_536  # a code is a uint16

_NOT_PLAIN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # controls
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of text
    "\u2028\u2029\ufeff\ud800-\udfff]"  # other ends of lines, byte order marks, halves of characters
)


def is_plain(text: str) -> bool:
    """Whether what is read is what is there: no control characters, and none that turns the direction of text."""
    return _NOT_PLAIN.search(text) is None


@dataclass(frozen=True)
class Variable:
    """A categorical variable; a cell stores the position of its category in `categories`."""

    name: str
    categories: tuple[str, ...]

    def __post_init__(self) -> None:
        # sub-tables are written `a*b`, lists of variables `a,b`: a name must not read as one of these
        if not self.name or set(self.name) & set("*,") or self.name[0] in "=+-@":
            raise InputError(
                f"variable {self.name!r}: a name is not empty, has no '*' or ',' and does not begin with = + - or @; "
                "rename it"
            )
        if not is_plain(self.name):
            raise InputError(f"variable {self.name!r} has a control character in its name; rename it")
        if hidden := [category for category in self.categories if not is_plain(category)]:
            raise InputError(
                f"variable {self.name!r} has {len(hidden)} categories with a control character or one that turns the "
                "direction of text, so that what is read is not what is there; recode them",
                f"categories {hidden[:100]}",
            )
        if not self.categories:
            raise InputError(f"variable {self.name!r} has no categories; give it at least one")
        if len(set(self.categories)) != len(self.categories):
            raise InputError(
                f"variable {self.name!r} names a category twice; name each once", f"categories {list(self.categories)}"
            )
        if len(self.categories) > MAX_CATEGORIES:
            raise InputError(
                f"variable {self.name!r} has {len(self.categories)} categories; at most {MAX_CATEGORIES} can be coded"
            )


@dataclass(frozen=True)
class Schema:
    """The variables of a table; variable v is bit v of every sub-table."""

    variables: tuple[Variable, ...]

    def __post_init__(self) -> None:
        names = [variable.name for variable in self.variables]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"variable {twice[0]!r} occurs {names.count(twice[0])} times; rename or drop one")
        # one at least: a table without variables would be its total, and a cell without codes
        if not 1 <= len(names) <= MAX_VARIABLES:
            raise InputError(f"{len(names)} variables; a table has 1 to {MAX_VARIABLES}, choose them by `variables`")

    def __len__(self) -> int:
        return len(self.variables)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self.variables)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each variable."""
        return tuple(len(variable.categories) for variable in self.variables)

    @cached_property
    def cells(self) -> int:
        """Cells of the full table, zeros included; a Python int, it may exceed 2^64."""
        return self.keys.cells

    @cached_property
    def keys(self) -> KeySpace:
        """The cells of the full table as numbers."""
        return KeySpace(self.sizes)

    def index(self, name: str) -> int:
        """Position of the variable called `name`; InputError where there is none."""
        if name not in self.names:
            raise InputError(f"unknown variable {name!r}; the table has {', '.join(self.names)}")
        return self.names.index(name)

    def named(self, cell: Iterable[int]) -> dict[str, str]:
        """The category of each variable in a cell, by name."""
        return {v.name: v.categories[code] for v, code in zip(self.variables, cell, strict=True)}

    def written(self, cell: Iterable[int]) -> str:
        """A cell as messages have it: `age = old, sex = f`."""
        return ", ".join(f"{name} = {category}" for name, category in self.named(cell).items())

    def restrict(self, variables: Iterable[int]) -> Schema:
        """The schema of the given variables, in the given order."""
        return Schema(tuple(self.variables[v] for v in variables))
