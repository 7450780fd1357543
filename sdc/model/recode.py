"""Recode: some categories of a variable made one, or the variable left out, and what becomes of a table by that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table


@dataclass(frozen=True)
class Recode:
    """Of a table with this schema, categories of one variable that become one; it has no levels, and is none.

    merged  their codes, ascending, two at least; where they are all of them the variable is left out
    """

    before: Schema
    variable: int
    merged: tuple[int, ...]

    @property
    def leaves_out(self) -> bool:
        """Whether the variable is left out."""
        return len(self.merged) == self.before.sizes[self.variable]

    @property
    def kept(self) -> SubTable:
        """The variables that stay."""
        everything = st.full(len(self.before))
        return everything & ~(1 << self.variable) if self.leaves_out else everything

    @property
    def names(self) -> list[str]:
        """The categories that become one."""
        return [self.before.variables[self.variable].categories[code] for code in self.merged]

    @property
    def schema(self) -> Schema:
        """After it: the categories are `a or b`, in the place of the first of them."""
        if self.leaves_out:
            return self.before.restrict(st.members(self.kept))
        variable, first = self.before.variables[self.variable], self.merged[0]
        categories = list(variable.categories)
        categories[first] = " or ".join(self.names)
        left = tuple(name for code, name in enumerate(categories) if code == first or code not in self.merged)
        variables = list(self.before.variables)
        variables[self.variable] = Variable(variable.name, left)
        return Schema(tuple(variables))

    def sub_table(self, before: SubTable) -> SubTable:
        """What is left of a sub-table, with the variables numbered as after it."""
        return st.within(before, self.kept)

    def release(self, before: Release) -> Release:
        """What is left of the released sub-tables."""
        return Release.of(map(self.sub_table, before.frontier))

    def codes(self, before: Codes, column: int) -> Codes:
        """(n, columns) codes after it, of cells of which this column is the variable."""
        if self.leaves_out:
            return np.delete(before, column, axis=1)
        stays = np.ones(self.before.sizes[self.variable], np.bool_)
        stays[list(self.merged[1:])] = False
        code = np.cumsum(stays) - 1
        code[list(self.merged)] = code[self.merged[0]]
        after = before.copy()
        after[:, column] = code[before[:, column]]
        return after

    def table(self, before: Table) -> Table:
        """The recoded table."""
        column = self.before.levels.column_of[self.variable]
        return Table.of(self.schema, self.codes(before.codes, column), before.counts)

    def known(self, before: Knowledge) -> Knowledge:
        """What is known of the recoded table; InputError where a structural zero or another fact names the variable.

        What is impossible then cannot be said in patterns: a category may be impossible only with some of the others.
        """
        if any(st.has(named, self.variable) for named in before.zeros.subtables):
            name = self.before.names[self.variable]
            raise InputError(f"structural zeros name {name!r}, which then is not recoded; leave it as it is")
        if named := [fact for fact in before.facts if st.has(fact.view, self.variable) and not fact.of_labels]:
            name = self.before.names[self.variable]
            raise InputError(f"{named[0].source} tells of {name!r}, which then is not recoded; leave it as it is")
        zeros = before.zeros.within(self.kept)
        facts = tuple(fact.within(self.kept) for fact in before.facts if not st.has(fact.view, self.variable))
        own = () if self.leaves_out else (st.members(self.kept).index(self.variable),)
        listed = tuple(one for one in before.listed_within(st.members(self.kept)) if one[0] not in own)
        return Knowledge(self.schema, before.total, self.release(before.release), zeros, facts, listed=listed)
