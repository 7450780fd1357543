"""The search for a refutation: a narrow cell under as few released sub-tables as will do, in a budget of steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sdc.bounds import duality, linear_program
from sdc.bounds.collapse import MAX_VARIABLES, Collapse
from sdc.bounds.duality import MarginalCell, Multipliers
from sdc.bounds.method import is_small
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import NamedCell
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.assessment import Witness
from sdc.risk.program_units import Priced
from sdc.risk.refutation import Bounds, Refutation, propagated

MOST_CELLS = 3  # of an answer that are tried
# super-cells of all propagations for one refutation, and what each takes beside: some 0.5 s
STEPS, STEPS_AT_LEAST = 1 << 24, 1 << 14
MOST_VARIABLES = 13  # of a support that goes by the shuttle: verify works it out again in 50 MB and some seconds


def refutation_of(
    table: Table, knowledge: Knowledge, witnesses: Sequence[Witness], min_width: int, priced: Sequence[Priced] = ()
) -> Refutation | None:
    """What shows of one of the first witnesses that it is narrower than that; None where nothing was found.

    Larger components are priced only where the linear program has done so already.
    Nothing is, where a width rests on facts beside whole marginals and structural zeros, on the sum of several
    components' lower ends with levels, or on a search for tables that has no short proof. Deterministic: by the table,
    the knowledge and the cells alone.
    """
    for witness in witnesses[:MOST_CELLS]:
        for zeros in dict.fromkeys([NO_ZEROS, knowledge.zeros]):
            search = _Search(table, zeros, witness.cell, min_width, STEPS)
            found = search.by_propagation(knowledge.release) or search.by_multipliers(knowledge, priced)
            # worked out again as it will be by others: what they cannot see is none
            if found is not None and found.holds(table, knowledge.zeros):
                return found
    return None


@dataclass
class _Search:
    """One cell; `left` are the steps that propagations may still take."""

    table: Table
    zeros: StructuralZeros
    cell: NamedCell
    min_width: int
    left: int

    def by_propagation(self, release: Release) -> Refutation | None:
        """By the shuttle, its support cut until each sub-table of it is needed, or the steps are spent."""
        if self.table.total < self.min_width:
            return self._refutation((0, self.table.total), ())
        support = self._kept(release)
        if not support or not self._refutes(support):
            return None
        support = self._smaller(self._fewer(self._first(support)))
        if self._variables(support) > MOST_VARIABLES:
            return None
        bounds = propagated(self.table, self.zeros, self.cell, support)
        return self._refutation(bounds, support)

    def _refutation(self, bounds: Bounds, support: Iterable[SubTable]) -> Refutation:
        count = int(self.table.count_at(np.array([self.cell], np.int64))[0])
        return Refutation(self.cell, count, bounds, st.maximal(support), bool(self.zeros))

    def _kept(self, release: Release) -> list[SubTable]:
        """The sub-tables cut to variables that fit in a collapsed table; those with the smallest counts first."""
        known = Knowledge.of_tables(self.table.schema, self.table.total, release, self.zeros)
        cell = np.array([self.cell], np.int64)
        structure = known.structure
        kept = structure.covered & structure.varying
        if st.dimension(kept) > MAX_VARIABLES:
            (kept,) = Collapse(self.table, known).kept(cell)
        closed = self.table.schema.levels.closed
        inside = st.maximal(closed(element & kept) for element in structure.essential.frontier)
        if self._variables(inside) > MAX_VARIABLES:
            return []
        return sorted(filter(None, inside), key=lambda t: (self._count(t), t))

    def _variables(self, support: Iterable[SubTable]) -> int:
        """Of the collapsed table."""
        return st.dimension(self.table.schema.levels.closed(st.union([*support, *self.zeros.subtables])))

    def _count(self, subtable: SubTable) -> int:
        """Of the marginal cell that has the cell."""
        cell = self.table.schema.marginal_cells(np.array([self.cell], np.int64), subtable)
        return int(self.table.marginal(subtable).count_at(cell)[0])

    def _refutes(self, support: Sequence[SubTable]) -> bool:
        """Whether the shuttle shows it by these alone; not where that takes more steps than are left."""
        self.left -= STEPS_AT_LEAST + 3 ** self._variables(support)
        if self.left < 0:
            return False
        low, high = propagated(self.table, self.zeros, self.cell, support)
        return high - low < self.min_width

    def _first(self, support: list[SubTable]) -> list[SubTable]:
        """The first that do, twice as many each time: they have few variables, so that what follows is cheap."""
        number = 1
        while number < len(support):
            if self._refutes(support[:number]):
                return support[:number]
            number *= 2
        return support

    def _fewer(self, support: list[SubTable]) -> list[SubTable]:
        """Without what is not needed, many at once and then fewer."""
        size = len(support) // 2
        while size:
            begin = 0
            while begin < len(support):
                rest = support[:begin] + support[begin + size :]
                if rest and self._refutes(rest):
                    support = rest
                else:
                    begin += size
            size //= 2
        return support

    def _smaller(self, support: list[SubTable]) -> list[SubTable]:
        """With sub-tables of theirs instead, where these do."""
        waiting = list(support)
        while waiting and self.left > 0:
            tried = waiting.pop(0)
            for child in st.children(tried, self.table.schema):
                instead = [child, *(t for t in support if t != tried)]
                if child and self._refutes(instead):
                    support, waiting = instead, [child, *waiting]
                    break
        return support

    def by_multipliers(self, knowledge: Knowledge, priced: Sequence[Priced]) -> Refutation | None:
        """By the linear program of a component, both ends where that is all of the table."""
        if not self.table.schema.levels.is_flat:
            return None
        structure = knowledge.structure
        for variables in structure.components.cliques:
            inside = tuple(self.table.schema.marginal_cells(np.array([self.cell], np.int64), variables)[0].tolist())
            given = {one.end: one.by for one in priced if (one.variables, one.cell) == (variables, inside)}
            kept = variables if given else variables & structure.varying
            if given or (kept and is_small(self.table.schema.restrict(st.members(kept)))):
                component = _Component.of(self.table, knowledge.release, self.zeros, kept, self.cell, given)
                found = self._priced(component)
                if found is not None:
                    return found
        return None

    def _priced(self, component: _Component) -> Refutation | None:
        upper = component.end(1)
        if upper is None:
            return None
        high, lower, low = upper[0], None, 0
        shared = self.table.schema.shared(component.kept, np.array([self.cell], np.int64))[0]
        if high >= self.min_width and not shared:
            lower = component.end(-1)
            low = 0 if lower is None else max(0, -lower[0])
        if high - low >= self.min_width:
            return None
        multipliers = [one[1] for one in (upper, lower) if one is not None]
        found = self._refutation((low, high), (t for one in multipliers for t in one.support))
        return replace(found, upper=upper[1], lower=None if lower is None else lower[1])


@dataclass(frozen=True)
class _Component:
    """The marginal table of a few variables, `kept`, and a cell of it; by its ends multipliers that are `given`."""

    table: Table
    known: Knowledge
    cell: tuple[int, ...]
    kept: SubTable
    given: Mapping[int, Multipliers]

    @staticmethod
    def of(
        table: Table,
        release: Release,
        zeros: StructuralZeros,
        kept: SubTable,
        cell: NamedCell,
        given: Mapping[int, Multipliers],
    ) -> _Component:
        schema = table.schema.restrict(st.members(kept))
        known = Knowledge.of_tables(schema, table.total, release.within(kept), zeros.within(kept))
        inside = table.schema.marginal_cells(np.array([cell], np.int64), kept)[0]
        return _Component(table.marginal(kept), known, tuple(inside.tolist()), kept, given)

    def end(self, sign: int) -> tuple[int, Multipliers] | None:
        """The least proven bound of sign * cell and its multipliers, named as the whole table has them."""
        frontier, given = self.known.release.frontier, self.given.get(int(sign > 0))
        whole = () if given is None else (given,)
        found = duality.narrowest(self.table, self.known.zeros, self.cell, sign, self._proposed(sign), frontier, whole)
        if found is None:
            return None
        value, one = found
        of = tuple((self._outside(t), codes, y) for t, codes, y in one.of)
        return value, Multipliers(one.scale, of, tuple(map(self._outside, one.caps)))

    def _proposed(self, sign: int) -> Iterator[dict[MarginalCell, float]]:
        if self.given:
            yield from self._rounded(sign)
            return
        try:
            program = linear_program.program_of(self.table, self.known)
        except ReleaseError:
            return
        place = int(program.place(np.array([self.cell]))[0])
        for multipliers in linear_program.dual_path(program, place, sign):
            yield dict(duality.named_rows(program.levels, multipliers))

    def _rounded(self, sign: int) -> Iterator[dict[MarginalCell, float]]:
        """Those given of this end; of the upper one that of the released marginal cell with the smallest count too."""
        if sign > 0:
            cell = np.array([self.cell], np.int64)
            least = min(self.known.release.frontier, key=lambda t: int(self.table.marginal_at(t, cell)[0]), default=0)
            yield {(least, tuple(self.table.schema.marginal_cells(cell, least)[0].tolist())): 1.0}
        if (one := self.given.get(int(sign > 0))) is not None:
            yield {(subtable, codes): y / one.scale for subtable, codes, y in one.of}

    def _outside(self, subtable: SubTable) -> SubTable:
        members = st.members(self.kept)
        return st.of(members[v] for v in st.members(subtable))
