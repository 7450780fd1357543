"""Knowledge: what an intruder is assumed to know of a confidential table, and what follows from it alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.fact import Fact, labels_of
from sdc.model.graph import Adjacency, Decomposition
from sdc.model.marginal import check_within
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import Pattern, StructuralZeros, canonical
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.model.weights import NO_TOTALS, RoundedTotals


@dataclass(frozen=True)
class Structure:
    """The variables, the released sub-tables, and of each structural zero and other fact its hull.

    schema   the variables and their categories
    release  the sub-tables whose marginals are known, with what they tell at coarser levels
    hulls    the least marginals that, public whole, would tell the structural zeros and other facts; closed
    """

    schema: Schema
    release: Release
    hulls: tuple[SubTable, ...]

    @cached_property
    def varying(self) -> SubTable:
        """The variables of two categories or more; the others change no marginal."""
        return st.varying(self.schema)

    @cached_property
    def essential(self) -> Release:
        """The release without the variables of one category: the same marginals are known."""
        if st.is_within(self.release.variables, self.varying):
            return self.release
        return Release.of(element & self.varying for element in self.release.frontier)

    @cached_property
    def informed(self) -> Release:
        """The essential release with the hull of every structural zero and other fact, and of levels that overlap.

        A table that agrees with it agrees with the facts, because the true table does: whatever is feasible for it is
        feasible for this knowledge. Of each axis one variable tells all others that it has.
        """
        if not self.hulls and self.schema.levels.is_flat:
            return self.essential
        informed = self.essential.join(Release.of(self.hulls))
        # levels of which none tells the other, public apart: in a decomposable model they would lie in two cliques
        # without a separator, though they are of one axis
        together = (informed.variables & self.schema.levels.of_axis[axis] for axis in self.schema.axes)
        return informed.join(Release.of(map(self.schema.levels.closed, together)))

    @property
    def covered(self) -> SubTable:
        """The variables that this says anything about: released and varying, or named by a zero or another fact."""
        return self.informed.variables

    @property
    def looked_at(self) -> SubTable:
        """The covered variables; methods need one at least: where nothing is known but the total, the first axis."""
        return self.covered or self.schema.levels.closed(1 << self.schema.axes[0])

    @property
    def is_release_alone(self) -> bool:
        """Whether the public marginals show every structural zero and other fact, which then tells nothing more."""
        return all(map(self.shows, self.hulls))

    def shows(self, subtable: SubTable) -> bool:
        """Whether the public marginals show that of the sub-table."""
        return subtable & self.varying in self.essential

    @cached_property
    def independence_graph(self) -> Adjacency:
        """Neighbours of each variable: those that it shares a released sub-table with, or the hull of another fact.

        All variables of one axis are neighbours, released or not: what one tells of another stays within a component.
        """
        known = [*self.release.frontier, *self.hulls]
        axes = () if self.schema.levels.is_flat else (self.schema.levels.of_axis[axis] for axis in self.schema.axes)
        return graph.independence_graph([*known, *axes], len(self.schema))

    @cached_property
    def components(self) -> Decomposition:
        """The finest split at released separators; see `graph.components`. The hull of a fact lies within one of them.

        Bounds of the components' marginal cells combine to bounds of a cell, exact ones to exact ones
        (`cell_bounds.combine`). They have every variable between them, and are closed, as their separators are: what a
        part tells at a coarser level it has too.
        """
        return self._closed(graph.components(self.independence_graph, self.release))

    def _closed(self, split: Decomposition) -> Decomposition:
        closed = self.schema.levels.closed
        return Decomposition(tuple(map(closed, split.cliques)), tuple(map(closed, split.separators)))

    @cached_property
    def cover(self) -> Decomposition:
        """A decomposable release around `informed`, as a perfect sequence; see `graph.chordal_cover`.

        Tables that agree with it agree with all that is known, for the hull of each structural zero and other fact is
        within some clique. So explicit bounds under the cover ([DKS] theorem 1) are inner bounds, and it is what a
        certificate shows of them. Variables of one category are left out, except those that a structural zero names:
        they are in every clique, where they change no count and separate nothing.
        """
        constant = self.covered & ~self.varying
        varying = Release.of(element & ~constant for element in self.informed.frontier) if constant else self.informed
        found = graph.perfect_sequence(graph.chordal_cover(varying, len(self.schema)).frontier)
        cliques = tuple(clique | constant for clique in found.cliques)
        return self._closed(Decomposition(cliques, tuple(separator | constant for separator in found.separators)))

    @cached_property
    def decomposition(self) -> Decomposition | None:
        """Cliques and separators of the essential release where that is decomposable, else None.

        Of each axis one released sub-table must have all levels that are released.
        """
        covered = self.essential.variables
        if any(covered & self.schema.levels.of_axis[axis] not in self.essential for axis in self.schema.axes):
            return None
        return graph.decompose(self.essential, len(self.schema))

    @cached_property
    def spanning_sequences(self) -> tuple[Decomposition, ...]:
        """Decomposable releases within the release that have all its variables; see `graph.spanning_sequences`."""
        return graph.spanning_sequences(self.essential)

    @cached_property
    def minimal_unreleased(self) -> tuple[SubTable, ...]:
        """The smallest sets of varying variables that no released sub-table has, by dimension and then by number.

        A basic move on such a set changes no known marginal; it may still give a record to an impossible cell.
        2^variables bytes, so for at most some 20 variables.
        """
        smallest = self.essential.minimal_uncovered(len(self.schema))
        return tuple(s for s in smallest if st.is_within(s, self.varying))


@dataclass(frozen=True)
class Knowledge:
    """The variables, the number of records, which marginals are public, which cells cannot be, and all other facts.

    It holds no count of any cell: with the table it says which tables are feasible, and without it how that question
    splits. What is asked of an instance is computed once and stays with it, so a caller that asks again keeps the
    instance; a copy sent to a worker starts anew.

    schema   the variables and their categories; which group of a level each category is in is known too
    total    N, the number of records
    release  the sub-tables whose marginals are known, with what they tell at coarser levels
    zeros    cells known to be impossible
    facts    what else is public, in part or between two numbers; in one order, without those that the release tells
    listed   of variables the codes that a code list names: of these categories nobody knows that they have records
    totals   of weights, of released sub-tables; `Pairs.feasible` alone judges with them, all else refuses them

    Published labels are knowledge: a category that is named has a record, unless a code list names it. Where the counts
    of its variable are public that is nothing new. Where some are suppressed or rounded, or the label of a merged
    category names it, it is one more fact, which is added here: one of each variable.

    ReleaseError where the release names a variable that the schema does not have, or totals are of what is not
    released, InputError where a structural zero or a fact does not fit the schema, or two facts contradict each other.

    Examples
    --------
    >>> sdc.knowledge("czech_auto_workers.csv", ["A*B"]).total
    1841
    """

    schema: Schema
    total: int
    release: Release
    zeros: StructuralZeros
    facts: tuple[Fact, ...]
    totals: RoundedTotals = NO_TOTALS
    listed: Pattern = field(default=(), compare=False)

    def __post_init__(self) -> None:
        check_within(self.release.variables, self.schema)
        object.__setattr__(self, "release", self.release.closed(self.schema))
        self.zeros.check_names(self.schema)
        given = tuple(fact for fact in self.facts if not fact.of_labels)
        for fact in given:
            fact.check(self.schema)
        for one, other in combinations(given, 2):
            if one.contradicts(other, self.schema):
                raise InputError(
                    f"{one.source} and {other.source} contradict each other about {one.label(self.schema)}; take what "
                    "was published of these records"
                )
        told = (fact for fact in (*self.facts, *self._labels_beside(given)) if fact.view not in self.release)
        object.__setattr__(self, "facts", tuple(sorted(dict.fromkeys(told))))
        if beyond := [subtable for subtable in self.totals.of if subtable not in self.release]:
            raise ReleaseError(
                f"totals of weights are listed of {st.label(beyond[0], self.schema)}, whose counts are not released; "
                "give those of released sub-tables"
            )

    def _labels_beside(self, given: Iterable[Fact]) -> Iterator[Fact]:
        """What labels say of the finest variables of facts, and of axes whose categories a merged one names."""
        levels, named = self.schema.levels, st.union(self.schema.levels.telling(fact.view) for fact in given)
        if spelled := self.schema.spelled & (self.release.variables | named):
            named |= st.of(levels.axis_of[v] for v in st.members(spelled))
        for v in st.members(named):
            size, unknown = self.schema.sizes[v], self._listed_of(v)
            if len(unknown) < size > 1:
                yield labels_of(levels.closed(1 << v), unknown, size, self.total, self.schema.names[v])

    def _listed_of(self, variable: int) -> tuple[int, ...]:
        """Codes of a variable that no category of its axis has but those that a code list names."""
        levels, axis = self.schema.levels, self.schema.levels.axis_of[variable]
        if not (listed := dict(self.listed).get(axis, ())):
            return dict(self.listed).get(variable, ())
        others = np.delete(levels.groups[variable], listed)
        return tuple(np.setdiff1d(levels.groups[variable], others).tolist())

    def check_listed(self) -> None:
        """ValueError where a code list names what the schema does not have."""
        for v, codes in self.listed:
            if v not in self.schema.axes or not {*codes} <= {*range(self.schema.sizes[v])}:
                raise ValueError(f"it lists codes of variable {v} that the table does not have")

    @staticmethod
    def of(
        table: Table, release: Release, zeros: StructuralZeros, facts: Iterable[Fact], listed: Pattern = ()
    ) -> Knowledge:
        """What is known of the table once the release is out; a category without records is from a code list.

        Errors as above, and InputError where a cell that is known to be impossible has records, or a fact is not so.
        """
        zeros.check(table.schema, table.codes, table.counts)
        given = tuple(facts)
        unmet = united(table.unmet, listed)
        known = Knowledge(table.schema, table.total, release, zeros, given, listed=unmet)
        for fact in given:
            fact.check_true(table)
        return known

    @staticmethod
    def of_tables(schema: Schema, total: int, release: Release, zeros: StructuralZeros) -> Knowledge:
        """What the released sub-tables tell with structural zeros, and labels do not."""
        return Knowledge(schema, total, release, zeros, (), listed=_every_code(schema))

    def with_facts(self, facts: tuple[Fact, ...]) -> Knowledge:
        """The same with these facts instead, and no more of labels than they have."""
        return replace(self, facts=facts, listed=_every_code(self.schema))

    def __reduce__(self) -> tuple[type[Knowledge], tuple[object, ...]]:
        # made anew from the fields, without anything computed: equal knowledge has equal bytes, and workers are sent no
        # caches
        schema, release = Schema(self.schema.variables), Release(self.release.frontier)
        return Knowledge, (schema, self.total, release, self.zeros, self.facts, self.totals, self.listed)

    @property
    def published(self) -> tuple[Fact, ...]:
        """The facts that are counts of cells, and not what labels say."""
        return tuple(fact for fact in self.facts if not fact.of_labels)

    @cached_property
    def counts(self) -> Knowledge:
        """What is known of the counts alone, without the totals of weights: it lets more tables be."""
        return replace(self, totals=NO_TOTALS)

    def require_counts_alone(self) -> None:
        """ReleaseError where totals of weights are known, which no evaluation of counts takes into account."""
        if self.totals.of:
            raise ReleaseError(
                f"{len(self.totals.of)} tables of totals of weights are known, and counts alone are judged here; judge "
                "pairs of counts and totals, or leave the totals out"
            )

    @cached_property
    def structure(self) -> Structure:
        """What follows from the released sub-tables and those that zeros and facts are of; ReleaseError as above."""
        self.require_counts_alone()
        hulls = (*map(self.schema.levels.closed, self.zeros.subtables), *(fact.view for fact in self.facts))
        return Structure(self.schema, self.release, hulls)

    @property
    def with_hulls(self) -> Knowledge:
        """What is known where the view of every fact is released whole: what is feasible then is feasible now."""
        if not self.facts:
            return self
        return replace(self, release=self.release.join(Release.of(fact.view for fact in self.facts)), facts=())

    def is_floating(self, cells: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """(n,) whether a cell with (n, axes) codes is one of several in its marginal cell of all that is released.

        Then its records may all move to another: its lower bound is 0, and its upper bound is that of the marginal
        cell. That is so of all cells where a variable of two categories or more is in no released sub-table, and of
        those not alone in their group of what is released of the axis. With structural zeros or other facts that name
        such a variable both bounds are outer only.
        """
        return self.schema.shared(self.schema.levels.closed(self.release.variables), cells)

    def impossible(self, cells: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """(n,) whether each of the (n, axes) cells is known to be impossible."""
        return self.zeros.contains(cells, self.schema)

    @cached_property
    def flat(self) -> Knowledge:
        """The same of a table where every level is a variable of its own, see `Table.flat`."""
        if self.schema.levels.is_flat:
            return self
        self.require_counts_alone()
        facts = tuple(fact.of_levels(self.schema) for fact in self.facts)
        zeros, listed = self.zeros.of_levels(self.schema), self.listed_within(range(len(self.schema)))
        return Knowledge(self.schema.flat, self.total, self.release, zeros, facts, listed=listed)

    def listed_within(self, variables: Iterable[int]) -> Pattern:
        """Of some variables, numbered as they come, and whether axes or levels, codes that a code list names alone."""
        if not self.listed:
            return ()
        return tuple((new, codes) for new, v in enumerate(variables) if (codes := self._listed_of(v)))

    @cached_property
    def reduced(self) -> Knowledge:
        """The essential release and the other facts on the covered variables alone; on one where none is."""
        release, kept = self.structure.essential, self.structure.looked_at
        return (self if release == self.release else replace(self, release=release)).within(kept)

    def within(self, subtable: SubTable) -> Knowledge:
        """What is known of the marginal table of the sub-table, variables numbered as there; kept for the next time.

        A structural zero that names another variable is lost, see `StructuralZeros.within`, and so is a fact.
        """
        if subtable == st.full(len(self.schema)):
            return self
        self.require_counts_alone()
        if subtable not in self._parts:
            check_within(subtable, self.schema)
            schema = self.schema.restrict(st.members(subtable))
            # of a component this loses nothing: the hull of a fact is in one component only
            facts = tuple(fact.within(subtable) for fact in self.facts if st.is_within(fact.view, subtable))
            release, zeros = self.release.within(subtable), self.zeros.within(subtable)
            listed = self.listed_within(st.members(subtable))
            self._parts[subtable] = Knowledge(schema, self.total, release, zeros, facts, listed=listed)
        return self._parts[subtable]

    @cached_property
    def _parts(self) -> dict[SubTable, Knowledge]:
        return {}

    def plus(self, release: Release) -> Knowledge:
        """What one knows who knows this once a release is out."""
        return replace(self, release=self.release.join(release))

    def telling(self, facts: Iterable[Fact]) -> Knowledge:
        """What one knows who knows this and these facts."""
        return replace(self, facts=(*self.facts, *facts))

    def contains(self, other: Knowledge) -> bool:
        """Whether whoever knows this knows the other too: then `self | other == self`."""
        return (
            (self.schema, self.total) == (other.schema, other.total)
            and self.release.contains(other.release)
            and self.zeros.include(other.zeros)
            and all(fact in self.facts or fact.view in self.release for fact in other.facts)
            and (not other.totals.of or other.totals == self.totals)
        )

    def __or__(self, other: Knowledge) -> Knowledge:
        """What one knows who knows both. ReleaseError where they are not of one table: schema or total differ."""
        self._check_same(other)
        for known in (self, other):
            known.require_counts_alone()
        release, zeros = self.release.join(other.release), self.zeros.join(other.zeros)
        facts, listed = (*self.facts, *other.facts), united(self.listed, other.listed)
        return Knowledge(self.schema, self.total, release, zeros, facts, listed=listed)

    def check_is_of(self, table: Table) -> None:
        """ReleaseError where the table has another schema or another number of records; its counts are not compared.

        And where totals of weights are known: whoever asks judges counts alone.
        """
        self.require_counts_alone()
        if (self.schema, self.total) != (table.schema, table.total):
            raise ReleaseError(
                f"what is known is of {self.total} records of {', '.join(self.schema.names)}, the table has "
                f"{table.total} of {', '.join(table.schema.names)}; give what is known of this table"
            )

    def _check_same(self, other: Knowledge) -> None:
        pairs = zip(self.schema.variables, other.schema.variables, strict=False)
        if self.schema.names != other.schema.names:
            own, others = (", ".join(known.schema.names) for known in (self, other))
            what = f"one is of the variables {own}, the other of {others}"
        elif differs := [one.name for one, another in pairs if one != another]:
            what = f"the variable {differs[0]!r} has other categories"
        elif self.total != other.total:
            what = f"one is of {self.total} records, the other of {other.total}"
        else:
            return
        raise ReleaseError(f"what is known of two tables cannot be joined: {what}; join releases of one table")


def _every_code(schema: Schema) -> Pattern:
    """As if code lists named all categories."""
    return tuple((v, tuple(range(schema.sizes[v]))) for v in schema.axes)


def united(one: Pattern, other: Pattern) -> Pattern:
    """The codes of both, of each variable."""
    codes = {v: dict(one).get(v, ()) + dict(other).get(v, ()) for v in {*dict(one), *dict(other)}}
    return canonical(tuple(codes.items()))
