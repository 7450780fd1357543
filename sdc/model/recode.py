"""Recoding: merge categories of a variable or leave it out, and the resulting table and knowledge."""

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
    """Categories of one variable of this schema that become one. The variable is not a level and has none.

    merged  their codes, ascending, at least two; if all, the variable is left out
    """

    before: Schema
    variable: int
    merged: tuple[int, ...]

    @property
    def leaves_out(self) -> bool:
        return len(self.merged) == self.before.sizes[self.variable]

    @property
    def remaining(self) -> SubTable:
        """The variables that remain."""
        everything = st.full(len(self.before))
        return everything & ~(1 << self.variable) if self.leaves_out else everything

    @property
    def names(self) -> list[str]:
        """The merged categories."""
        return [self.before.variables[self.variable].categories[code] for code in self.merged]

    @property
    def schema(self) -> Schema:
        """The recoded schema: the merged category `a or b` takes the place of the first one."""
        if self.leaves_out:
            return self.before.restrict(st.members(self.remaining))
        variable, first = self.before.variables[self.variable], self.merged[0]
        categories = list(variable.categories)
        categories[first] = " or ".join(self.names)
        left = tuple(name for code, name in enumerate(categories) if code == first or code not in self.merged)
        variables = list(self.before.variables)
        variables[self.variable] = Variable(variable.name, left)
        return Schema(tuple(variables))

    def sub_table(self, before: SubTable) -> SubTable:
        """The remaining sub-table, numbered as in the recoded table."""
        return st.within(before, self.remaining)

    def release(self, before: Release) -> Release:
        """The remaining released sub-tables."""
        return Release.of(map(self.sub_table, before.frontier))

    def codes(self, before: Codes, column: int) -> Codes:
        """(n, columns) recoded codes of cells whose column `column` is the variable."""
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
        """The knowledge on the recoded table; InputError if a structural zero or other fact names the variable.

        Patterns cannot express the impossible cells then: a category may be impossible only with some of the others.
        """
        if any(st.has(named, self.variable) for named in before.zeros.subtables):
            name = self.before.names[self.variable]
            raise InputError(f"structural zeros name {name!r}, so it cannot be recoded; leave it as it is")
        if named := [fact for fact in before.facts if st.has(fact.view, self.variable) and not fact.of_labels]:
            name = self.before.names[self.variable]
            raise InputError(f"{named[0].source} has facts on {name!r}, which then cannot be recoded; leave it")
        zeros = before.zeros.within(self.remaining)
        facts = tuple(fact.within(self.remaining) for fact in before.facts if not st.has(fact.view, self.variable))
        own = () if self.leaves_out else (st.members(self.remaining).index(self.variable),)
        listed = tuple(one for one in before.listed_within(st.members(self.remaining)) if one[0] not in own)
        return Knowledge(self.schema, before.total, self.release(before.release), zeros, facts, listed=listed)
