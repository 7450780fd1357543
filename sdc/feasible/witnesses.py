"""Feasible tables of the whole table: earlier proofs, lifted from their components, which speak for every release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Differences
from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.keys import KeySpace
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table

Ints = npt.NDArray[np.int64]
RECORDS_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Witnesses:
    """Feasible tables of the whole table for anyone who knows `known`, as differences from the true one.

    lacking  why proofs of what was published before could not be used, for people
    """

    known: Knowledge
    differences: Differences
    lacking: tuple[str, ...] = ()

    @staticmethod
    def of(table: Table, known: Knowledge, claimed: Differences, lacking: tuple[str, ...] = ()) -> Witnesses:
        """The claimed differences that are feasible, checked in integers against all that is known."""
        return Witnesses(known, claimed.rows(claimed.feasible(table, known)), lacking)

    def within(self, variables: SubTable) -> tuple[Differences, Knowledge]:
        """Those differences of a component's table that change it, and the knowledge that allows them."""
        schema, of = self.known.schema, self.differences.of
        inside = schema.restrict(st.members(variables))
        cells = schema.marginal_cells(self.differences.cells, variables)
        found = Differences.summed(len(self.differences), of, cells, self.differences.changes, inside)
        return found.rows(np.diff(found.start) > 0), self.known.within(variables)


def lifted(proof: Proof, table: Table) -> Differences:
    """The feasible tables of a proof's components as differences of the whole table.

    Every record that leaves a cell of a component takes the values of the cell that it goes to. Its values of the other
    variables go, branch by branch of the tree of components, to a record with the same values at the separator. So the
    marginal table of every other component stays as it is.
    """
    parts = [Differences.none(len(table.schema.axes))]
    for number, part in enumerate(proof.parts):
        branches = list(_branches(proof, number))
        for some in _slices(part.differences):
            parts.append(_lifted(some, part.variables, branches, table))
    found = Differences.concatenated(parts)
    return found.rows(np.diff(found.start) > 0)


def _slices(differences: Differences) -> Iterator[Differences]:
    """The differences, about so many moved records at once."""
    moved = np.cumsum(np.bincount(differences.of, np.abs(differences.changes), len(differences)))
    batch = (moved // RECORDS_AT_ONCE).astype(np.int64)
    for number in np.unique(batch):
        yield differences.rows(batch == number)


def _branches(proof: Proof, number: int) -> Iterator[SubTable]:
    """The variables of each part of the tree of components that is left without one of them."""
    cliques = [part.variables for part in proof.parts]
    beside = dict[int, set[int]]({k: set() for k in range(len(cliques))})
    for child, separator in enumerate(proof.separators, start=1):
        parent = next(k for k in range(child) if st.is_within(separator, cliques[k]))
        beside[child].add(parent)
        beside[parent].add(child)
    for first in beside[number]:
        reached, waiting = {number, first}, [first]
        while waiting:
            new = beside[waiting.pop()] - reached
            reached |= new
            waiting += new
        yield st.union(cliques[k] for k in reached - {number})


def _lifted(found: Differences, component: SubTable, branches: list[SubTable], table: Table) -> Differences:
    schema = table.schema
    own, axes = schema.restrict(st.members(component)), np.array(schema.axes)
    leaving, going = found.changes < 0, found.changes > 0
    # which record of the table leaves, record by record: the first ones of its cell
    first, group = own.keys.distinct(schema.marginal_cells(table.codes, component))
    order = np.argsort(group, kind="stable")
    until = np.concatenate([[0], np.cumsum(table.counts[order])])
    begin = until[np.searchsorted(group[order], np.arange(len(first)))]
    place = own.keys.matching(schema.marginal_cells(table.codes[first], component), found.cells[leaving])
    number = -found.changes[leaving]
    record = np.repeat(begin[place], number) + _each(number)
    before = table.codes[order[np.searchsorted(until, record, side="right") - 1]]
    of_before, of_after = np.repeat(found.of[leaving], number), np.repeat(found.of[going], found.changes[going])
    target = np.repeat(found.cells[going], found.changes[going], axis=0)
    after = np.zeros_like(before)
    members = st.members(component)
    for column, axis in enumerate(own.axes):
        if members[axis] in schema.axes:
            after[:, schema.axes.index(members[axis])] = target[:, column]
    for branch in branches:
        taken = np.flatnonzero([st.has(branch & ~component, axis) for axis in axes])
        separator = branch & component
        inside = own.restrict(st.members(st.within(separator, component))) if separator else None
        sizes = () if inside is None else inside.keys.sizes
        both = np.concatenate(
            [
                _at(of_before, schema.marginal_cells(before, separator)),
                _at(of_after, own.marginal_cells(target, st.within(separator, component))),
            ]
        )
        at = KeySpace((len(found), *sizes)).numbers(both)
        one, other = np.argsort(at[: len(before)], kind="stable"), np.argsort(at[len(before) :], kind="stable")
        after[other[:, None], taken] = before[one[:, None], taken]
    changes = np.repeat([-1, 1], [len(before), len(after)])
    of = np.concatenate([of_before, of_after])
    return Differences.summed(len(found), of, np.concatenate([before, after]), changes, schema)


def _each(number: Ints) -> Ints:
    """0, 1, ... of each of so many."""
    return np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)


def _at(of: Ints, cells: Codes) -> Ints:
    return np.concatenate([of[:, None], cells], axis=1).astype(np.int64)
