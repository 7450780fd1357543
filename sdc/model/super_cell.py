"""Super-cells: the cells with some categories of each axis, and bounds of their counts ([DKS] section 4)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.cell_bounds import end_columns
from sdc.model.documents import rows
from sdc.model.errors import InputError, many
from sdc.model.named import Named
from sdc.model.release import Release, release_facts
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table

Flags: TypeAlias = npt.NDArray[np.bool_]
Chosen: TypeAlias = Mapping[str, str | Sequence[str]]
"""By variable one or several categories; unnamed variables have all."""

SuperCells: TypeAlias = str | Chosen | Sequence[str | Chosen]
"""Super-cells as text or by variable; "at-risk" or "all" means single cells."""

EXAMPLE = "'age in (young, old), sex = f'"
_QUOTED, _BARE = r'"[^"]*"', r'[^,()"]+'
_CATEGORY = re.compile(rf"\s*({_QUOTED}|{_BARE})\s*(?:,|$)")
_VARIABLE = re.compile(
    rf"""\s*(?P<name>[^,="]+?)\s*(?:=|\sin(?=[\s(]))\s*
    (?:\((?P<several>(?:{_QUOTED}|[^()"])*)\)|(?P<one>{_QUOTED}|[^,"(\s][^,"]*))\s*(?:,|$)""",
    re.VERBOSE,
)


def is_written(text: str) -> bool:
    """Whether a text is a super-cell and not a keyword."""
    return "=" in text or "(" in text


def each(given: SuperCells) -> list[str | Chosen]:
    """The super-cells as a list; InputError if it is empty."""
    found = [given] if isinstance(given, str | Mapping) else [*given]
    if not found:
        raise InputError(f"no super-cell is given; give one such as {EXAMPLE}")
    return found


@dataclass(frozen=True)
class SuperCell:
    """The cells with one of these codes of each axis: a product of non-empty sets of categories.

    codes  for each axis of a schema, in order, its codes, ascending
    """

    codes: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(one: str | Chosen, schema: Schema) -> SuperCell:
        """From text or by variable; InputError as `parse` and `named`."""
        return SuperCell.parse(one, schema) if isinstance(one, str) else SuperCell.named(one, schema)

    @staticmethod
    def parse(text: str, schema: Schema) -> SuperCell:
        """From `age in (young, old), sex = f`; categories with a comma or bracket are in double quotes.

        InputError for other texts, and as `named`.
        """
        chosen, at = dict[str, Sequence[str]](), 0
        while at < len(text) or not chosen:
            found = _VARIABLE.match(text, at)
            if found is None:
                raise InputError(f"the super-cell {text!r} is not written such as {EXAMPLE}; write it so")
            if (name := found["name"]) in chosen:
                raise InputError(f"the super-cell {text!r} names {name!r} twice; name each variable once")
            chosen[name] = _listed(text, found["several"]) if found["one"] is None else [_bare(found["one"])]
            at = found.end()
        return SuperCell.named(chosen, schema)

    @staticmethod
    def named(chosen: Chosen, schema: Schema) -> SuperCell:
        """From categories by variable; categories of a level stand for those of its axis.

        InputError for an unknown variable or category, and if no category remains.
        """
        flags = {axis: np.ones(schema.sizes[axis], np.bool_) for axis in schema.axes}
        for name, categories in chosen.items():
            v = schema.index(name)
            codes = _codes([categories] if isinstance(categories, str) else categories, name, schema)
            flags[schema.levels.axis_of[v]] &= np.isin(schema.levels.groups[v], codes)
        for axis, own in flags.items():
            if not own.any():
                raise InputError(f"a super-cell has no category of {schema.names[axis]!r}; name at least one")
        return SuperCell(tuple(tuple(np.flatnonzero(own).tolist()) for own in flags.values()))

    @staticmethod
    def of_cells(cells: Codes) -> list[SuperCell]:
        """Each of (n, axes) cells as a super-cell."""
        return [SuperCell(tuple((code,) for code in cell)) for cell in cells.tolist()]

    def holds(self, cells: npt.NDArray[np.integer]) -> Flags:
        """(n,) whether it contains each of (n, axes) cells."""
        found = np.ones(len(cells), np.bool_)
        for own, column in zip(self.codes, cells.T, strict=True):
            found &= np.isin(column, own)
        return found

    def count(self, table: Table) -> int:
        """The sum of the counts of its cells."""
        return int(table.counts[self.holds(table.codes)].sum())

    def places(self, schema: Schema) -> npt.NDArray[np.int64]:
        """The positions of its cells in C order."""
        places: npt.NDArray[np.int64] = np.ravel_multi_index(np.ix_(*self.codes), schema.keys.sizes).reshape(-1)
        return places

    def within(self, subtable: SubTable, schema: Schema) -> tuple[SuperCell | None, SuperCell]:
        """In the marginal of a closed sub-table: the largest super-cell inside it (None if empty) and the smallest
        around it.

        If both are equal, the marginal implies the count.
        """
        inside, touched, is_part = dict[int, tuple[int, ...]](), dict[int, tuple[int, ...]](), False
        for axis, codes in zip(schema.axes, self.codes, strict=True):
            finest_of_axis = st.members(schema.levels.finest(subtable & schema.levels.of_axis[axis]))
            if not finest_of_axis:
                is_part |= len(codes) < schema.sizes[axis]
                continue
            groups, finest = schema.levels.groups[finest_of_axis[0]], finest_of_axis[0]
            own, each = (np.bincount(of, minlength=schema.sizes[finest]) for of in (groups[list(codes)], groups))
            touched[finest] = tuple(np.flatnonzero(own).tolist())
            inside[finest] = tuple(np.flatnonzero(own == each).tolist())
            is_part |= not inside[finest]
        # axes are in the order of the remaining variables
        wholly, partly = (SuperCell(tuple(of[v] for v in sorted(of))) for of in (inside, touched))
        return None if is_part else wholly, partly

    def categories(self, schema: Schema) -> dict[str, list[str]]:
        """By axis its categories, of axes with a restriction."""
        pairs = ((schema.variables[axis], codes) for axis, codes in zip(schema.axes, self.codes, strict=True))
        return {v.name: [v.categories[c] for c in codes] for v, codes in pairs if len(codes) < len(v.categories)}

    def label(self, schema: Schema) -> str:
        """By names: `age=young or old sex=f`."""
        named = (f"{name}={' or '.join(own)}" for name, own in self.categories(schema).items())
        return " ".join(named) or "(total)"


@dataclass(frozen=True, eq=False, repr=False)
class SuperCellBounds(Named):
    """Bounds of some super-cells under a release, as `CellBounds` for cells.

    counts  (n,) int64 true counts; None if no table is known to be the true one
    outer   (n, 2) contains the sharp range; inner  (n, 2) both ends reached, so it lies inside: int64, or of tables of
            fractions too `Fraction`s
    method  name of the method
    """

    super_cells: tuple[SuperCell, ...]
    counts: Counts | None
    outer: npt.NDArray[Any]
    inner: npt.NDArray[Any]
    method: str

    def __len__(self) -> int:
        return len(self.super_cells)

    @property
    def headline(self) -> str:
        return f"Bounds of {many(len(self), 'super-cell')} by {self.method}, {int(self.exact.sum()):,} of them exact"

    @property
    def exact(self) -> Flags:
        """(n,) where both intervals agree and so are sharp."""
        equal: Flags = (self.outer == self.inner).all(axis=1)
        return equal

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The super-cells by names, with counts and bounds."""
        ends = {name: list(map(written, own)) for name, own in end_columns(self.outer, self.inner).items()}
        labels = [one.label(schema) for one in self.super_cells]
        counts = {} if self.counts is None else {"count": self.counts.tolist()}
        return {"super_cell": labels, **counts, **ends, "exact": self.exact.tolist()}

    @staticmethod
    def concatenated(parts: Sequence[SuperCellBounds]) -> SuperCellBounds:
        """The bounds of different super-cells, in order; ValueError without parts."""
        methods = dict.fromkeys(name for part in parts for name in part.method.split(" + "))
        return SuperCellBounds(
            tuple(one for part in parts for one in part.super_cells),
            np.concatenate([part.counts for part in parts if part.counts is not None]),
            np.concatenate([part.outer for part in parts]),
            np.concatenate([part.inner for part in parts]),
            " + ".join(methods),
        )


def written(end: Any) -> Any:
    """An end of bounds in documents: an integer, or a fraction as text, `2/3`."""
    return int(end) if isinstance(end, int | np.integer) else str(end)


def _codes(categories: Sequence[str], name: str, schema: Schema) -> list[int]:
    own = schema.variables[schema.index(name)].categories
    if not categories:
        raise InputError(f"a super-cell has no category of {name!r}; name at least one")
    if unknown := [category for category in categories if category not in own]:
        raise InputError(
            f"a super-cell names {unknown[0]!r}, which is not a category of {name!r}; choose one of its own",
            f"{name} has the categories {', '.join(own)}",
        )
    return [own.index(category) for category in categories]


def _listed(text: str, several: str) -> list[str]:
    """The categories in brackets; InputError for other text between commas."""
    found, at = list[str](), 0
    while several.strip() and at < len(several):
        one = _CATEGORY.match(several, at)
        if one is None or not _bare(one[1]):
            raise InputError(f"the super-cell {text!r} is not written such as {EXAMPLE}; write it so")
        found.append(_bare(one[1]))
        at = one.end()
    return found


def _bare(category: str) -> str:
    return category.strip().strip('"')


def super_cell_facts(release: Release | None, bounds: SuperCellBounds, schema: Schema) -> dict[str, Any]:
    """Bounds under a release, one row for each super-cell, by the categories of restricted variables.

    Without a release, the table itself states what is known.
    """
    # without a true table, a count is known by its bounds only
    counts: Any = [int(low) if low == high == int(low) else None for low, high in bounds.outer]
    columns = {
        "cell": [one.categories(schema) for one in bounds.super_cells],
        "count": counts if bounds.counts is None else bounds.counts,
        "outer": [list(map(written, ends)) for ends in bounds.outer],
        "inner": [list(map(written, ends)) for ends in bounds.inner],
        "exact": map(bool, bounds.exact),
    }
    release_entry = {} if release is None else {"release": release_facts(release, schema)["frontier"]}
    return {**release_entry, "method": bounds.method, "cells": rows(columns)}
