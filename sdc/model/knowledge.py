"""The prior knowledge on a confidential table that an intruder is assumed to have, and its consequences."""

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
    """The variables, the released sub-tables, and the hull of each structural zero and other fact.

    schema   the variables and their categories
    release  the sub-tables with known marginals, including coarser levels
    hulls    the least marginals that would imply the structural zeros and other facts if they were public; closed
    """

    schema: Schema
    release: Release
    hulls: tuple[SubTable, ...]

    @cached_property
    def varying(self) -> SubTable:
        """The variables with two categories or more; the others change no marginal."""
        return st.varying(self.schema)

    @cached_property
    def essential(self) -> Release:
        """The release without the variables with one category: the same marginals are known."""
        if st.is_within(self.release.variables, self.varying):
            return self.release
        return Release.of(element & self.varying for element in self.release.frontier)

    @cached_property
    def informed(self) -> Release:
        """The essential release with the hulls of all structural zeros, facts and overlapping levels.

        The true table satisfies the facts, so tables that agree with this release do too: whatever is feasible for it
        is feasible for this knowledge. One variable of each axis implies all others of it.
        """
        if not self.hulls and self.schema.levels.is_flat:
            return self.essential
        informed = self.essential.join(Release.of(self.hulls))
        # incomparable levels of one axis, released apart, would lie in two cliques of a decomposable model without a
        # separator
        together = (informed.variables & self.schema.levels.of_axis[axis] for axis in self.schema.axes)
        return informed.join(Release.of(map(self.schema.levels.closed, together)))

    @property
    def covered(self) -> SubTable:
        """The variables with information: released and varying, or named by a zero or fact."""
        return self.informed.variables

    @property
    def looked_at(self) -> SubTable:
        """The covered variables, or the first axis if there are none: methods need one."""
        return self.covered or self.schema.levels.closed(1 << self.schema.axes[0])

    @property
    def is_release_alone(self) -> bool:
        """Whether the public marginals imply every structural zero and other fact."""
        return all(map(self.shows, self.hulls))

    def shows(self, subtable: SubTable) -> bool:
        """Whether the public marginals imply that of the sub-table."""
        return subtable & self.varying in self.essential

    @cached_property
    def independence_graph(self) -> Adjacency:
        """The neighbours of each variable: in a released sub-table or a fact's hull with it, or of the same axis.

        Variables of one axis are always neighbours, so that their relation stays within a component.
        """
        known = [*self.release.frontier, *self.hulls]
        axes = () if self.schema.levels.is_flat else (self.schema.levels.of_axis[axis] for axis in self.schema.axes)
        return graph.independence_graph([*known, *axes], len(self.schema))

    @cached_property
    def components(self) -> Decomposition:
        """The finest split at released separators, see `graph.components`; each hull lies within one component.

        Bounds of the components' marginal cells combine to bounds of cells, exact to exact ones
        (`cell_bounds.combine`). Components and separators are closed, and together have every variable.
        """
        return self._closed(graph.components(self.independence_graph, self.release))

    def _closed(self, split: Decomposition) -> Decomposition:
        closed = self.schema.levels.closed
        return Decomposition(tuple(map(closed, split.cliques)), tuple(map(closed, split.separators)))

    @cached_property
    def cover(self) -> Decomposition:
        """A decomposable release around `informed`, as a perfect sequence; see `graph.chordal_cover`.

        Tables that agree with it agree with all knowledge, because each hull is within a clique. So explicit bounds
        under the cover ([DKS] theorem 1) are inner bounds, which a certificate can show. Variables with one category
        are left out, unless a structural zero names them: those are in every clique, change no count and separate
        nothing.
        """
        constant = self.covered & ~self.varying
        varying = Release.of(element & ~constant for element in self.informed.frontier) if constant else self.informed
        found = graph.perfect_sequence(graph.chordal_cover(varying, len(self.schema)).frontier)
        cliques = tuple(clique | constant for clique in found.cliques)
        return self._closed(Decomposition(cliques, tuple(separator | constant for separator in found.separators)))

    @cached_property
    def decomposition(self) -> Decomposition | None:
        """Cliques and separators of the essential release if it is decomposable, else None.

        All released levels of an axis must be in one released sub-table.
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
        """The minimal unreleased sets of varying variables, by dimension and then by number.

        A basic move on such a set changes no known marginal, but may give a record to an impossible cell. It takes
        2^variables bytes: for at most some 20 variables.
        """
        smallest = self.essential.minimal_uncovered(len(self.schema))
        return tuple(s for s in smallest if st.is_within(s, self.varying))


@dataclass(frozen=True)
class Knowledge:
    """The knowledge on a table: variables, number of records, public marginals, impossible cells, and all other facts.

    It holds no counts: together with a table it determines the feasible tables. Results are cached on the instance; a
    copy sent to a worker starts without them.

    schema   the variables and their categories, with the groups of levels
    total    N, the number of records
    release  the sub-tables with known marginals, including coarser levels
    zeros    cells known to be impossible
    facts    other public information: counts of some cells, or bounds; sorted, without facts that the release implies
    listed   by variable the codes of a code list: it is unknown whether these categories have records
    totals   of weights, of released sub-tables; only `Pairs.feasible` uses them, others refuse them

    Published labels are knowledge: a named category has a record unless a code list names it. If the counts of its
    variable are suppressed or rounded, or the label of a merged category names it, that is an additional fact, one for
    each variable, which is added here. Raises ReleaseError if the release names an unknown variable or totals are of an
    unreleased sub-table, InputError if a structural zero or fact does not fit the schema or two facts contradict each
    other.

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
        facts_beyond = (fact for fact in (*self.facts, *self._labels_beside(given)) if fact.view not in self.release)
        object.__setattr__(self, "facts", tuple(sorted(dict.fromkeys(facts_beyond))))
        if beyond := [subtable for subtable in self.totals.of if subtable not in self.release]:
            raise ReleaseError(
                f"totals of weights are listed of {st.label(beyond[0], self.schema)}, whose counts are not released; "
                "give those of released sub-tables"
            )

    def _labels_beside(self, given: Iterable[Fact]) -> Iterator[Fact]:
        """The facts implied by labels, for the finest variables of facts and for axes whose categories a merged one
        names.
        """
        levels, named = self.schema.levels, st.union(self.schema.levels.finest(fact.view) for fact in given)
        if spelled := self.schema.spelled & (self.release.variables | named):
            named |= st.of(levels.axis_of[v] for v in st.members(spelled))
        for v in st.members(named):
            size, unknown = self.schema.sizes[v], self._listed_of(v)
            if len(unknown) < size > 1:
                yield labels_of(levels.closed(1 << v), unknown, size, self.total, self.schema.names[v])

    def _listed_of(self, variable: int) -> tuple[int, ...]:
        """Codes of categories of a variable that consist of code-list categories only."""
        levels, axis = self.schema.levels, self.schema.levels.axis_of[variable]
        if not (listed := dict(self.listed).get(axis, ())):
            return dict(self.listed).get(variable, ())
        others = np.delete(levels.groups[variable], listed)
        return tuple(np.setdiff1d(levels.groups[variable], others).tolist())

    def check_listed(self) -> None:
        """ValueError if a code list names something unknown."""
        for v, codes in self.listed:
            if v not in self.schema.axes or not {*codes} <= {*range(self.schema.sizes[v])}:
                raise ValueError(f"it lists codes of variable {v} that the table does not have")

    @staticmethod
    def of(
        table: Table, release: Release, zeros: StructuralZeros, facts: Iterable[Fact], listed: Pattern = ()
    ) -> Knowledge:
        """The knowledge on a table after a release; categories without records come from code lists.

        Raises the errors above, and InputError if an impossible cell has records or a fact is false.
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
        """The knowledge from released sub-tables and structural zeros, without that from labels."""
        return Knowledge(schema, total, release, zeros, (), listed=_every_code(schema))

    def with_facts(self, facts: tuple[Fact, ...]) -> Knowledge:
        """The knowledge with these facts instead, and no more from labels."""
        return replace(self, facts=facts, listed=_every_code(self.schema))

    def listing(self, names: Iterable[str], table: Table) -> Knowledge:
        """The same where only these variables have code lists; categories without records still come from one."""
        kept = tuple((v, codes) for v, codes in self.listed if self.schema.names[v] in {*names})
        return replace(self, listed=united(table.unmet, kept))

    def __reduce__(self) -> tuple[type[Knowledge], tuple[object, ...]]:
        # rebuilt from the fields without caches: equal knowledge has equal bytes, and workers get no caches
        schema, release = Schema(self.schema.variables), Release(self.release.frontier)
        return Knowledge, (schema, self.total, release, self.zeros, self.facts, self.totals, self.listed)

    @property
    def published(self) -> tuple[Fact, ...]:
        """The facts on counts of cells, without those implied by labels."""
        return tuple(fact for fact in self.facts if not fact.of_labels)

    @cached_property
    def counts(self) -> Knowledge:
        """The knowledge on counts without the totals of weights: it allows more tables."""
        return replace(self, totals=NO_TOTALS)

    def require_counts_alone(self) -> None:
        """ReleaseError if totals of weights are known: evaluations of counts do not use them."""
        if self.totals.of:
            raise ReleaseError(
                f"{len(self.totals.of)} tables of totals of weights are known, and counts alone are judged here; judge "
                "pairs of counts and totals, or leave the totals out"
            )

    @cached_property
    def structure(self) -> Structure:
        """The structure of release, zeros and facts; ReleaseError as above."""
        self.require_counts_alone()
        hulls = (*map(self.schema.levels.closed, self.zeros.subtables), *(fact.view for fact in self.facts))
        return Structure(self.schema, self.release, hulls)

    @property
    def with_hulls(self) -> Knowledge:
        """The knowledge if the view of every fact were released whole: it allows fewer tables."""
        if not self.facts:
            return self
        return replace(self, release=self.release.join(Release.of(fact.view for fact in self.facts)), facts=())

    def is_floating(self, cells: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """(n,) whether a cell with (n, axes) codes shares its marginal cell of the whole release with other cells.

        Then its records may all move to another one: its bounds are 0 and the count of the marginal cell. That holds
        for all cells if a varying variable is in no released sub-table, and for cells that share their group of a
        released level. If structural zeros or other facts name such a variable, both bounds are outer only.
        """
        return self.schema.shared(self.schema.levels.closed(self.release.variables), cells)

    def impossible(self, cells: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """(n,) whether each of the (n, axes) cells is known to be impossible."""
        return self.zeros.contains(cells, self.schema)

    @cached_property
    def flat(self) -> Knowledge:
        """The knowledge on the table in which every level is its own variable, see `Table.flat`."""
        if self.schema.levels.is_flat:
            return self
        self.require_counts_alone()
        facts = tuple(fact.of_levels(self.schema) for fact in self.facts)
        zeros, listed = self.zeros.of_levels(self.schema), self.listed_within(range(len(self.schema)))
        return Knowledge(self.schema.flat, self.total, self.release, zeros, facts, listed=listed)

    def listed_within(self, variables: Iterable[int]) -> Pattern:
        """The code-list codes of some variables, axes or levels, numbered by position."""
        if not self.listed:
            return ()
        return tuple((new, codes) for new, v in enumerate(variables) if (codes := self._listed_of(v)))

    @cached_property
    def reduced(self) -> Knowledge:
        """The essential release and the other facts on the covered variables, or on one variable if there are none."""
        release, used = self.structure.essential, self.structure.looked_at
        return (self if release == self.release else replace(self, release=release)).within(used)

    def within(self, subtable: SubTable) -> Knowledge:
        """The knowledge on the marginal table of the sub-table, with its numbering; cached.

        Structural zeros and facts that name other variables are lost, see `StructuralZeros.within`.
        """
        if subtable == st.full(len(self.schema)):
            return self
        self.require_counts_alone()
        if subtable not in self._parts:
            check_within(subtable, self.schema)
            schema = self.schema.restrict(st.members(subtable))
            # for a component nothing is lost: each hull is in one component
            facts = tuple(fact.within(subtable) for fact in self.facts if st.is_within(fact.view, subtable))
            release, zeros = self.release.within(subtable), self.zeros.within(subtable)
            listed = self.listed_within(st.members(subtable))
            self._parts[subtable] = Knowledge(schema, self.total, release, zeros, facts, listed=listed)
        return self._parts[subtable]

    @cached_property
    def _parts(self) -> dict[SubTable, Knowledge]:
        return {}

    def plus(self, release: Release) -> Knowledge:
        """This knowledge and a release."""
        return replace(self, release=self.release.join(release))

    def plus_facts(self, facts: Iterable[Fact]) -> Knowledge:
        """This knowledge and more facts."""
        return replace(self, facts=(*self.facts, *facts))

    def contains(self, other: Knowledge) -> bool:
        """Whether this knowledge implies the other: then `self | other == self`."""
        return (
            (self.schema, self.total) == (other.schema, other.total)
            and self.release.contains(other.release)
            and self.zeros.include(other.zeros)
            and all(fact in self.facts or fact.view in self.release for fact in other.facts)
            and (not other.totals.of or other.totals == self.totals)
        )

    def __or__(self, other: Knowledge) -> Knowledge:
        """Both together. ReleaseError if schema or total differ."""
        self._check_same(other)
        for known in (self, other):
            known.require_counts_alone()
        release, zeros = self.release.join(other.release), self.zeros.join(other.zeros)
        facts, listed = (*self.facts, *other.facts), united(self.listed, other.listed)
        return Knowledge(self.schema, self.total, release, zeros, facts, listed=listed)

    def check_is_of(self, table: Table) -> None:
        """ReleaseError if the table has another schema or number of records, or if totals of weights are known.

        Its counts are not compared.
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
    return tuple((v, tuple(range(schema.sizes[v]))) for v in schema.axes)


def united(one: Pattern, other: Pattern) -> Pattern:
    """The codes of both, by variable."""
    codes = {v: dict(one).get(v, ()) + dict(other).get(v, ()) for v in {*dict(one), *dict(other)}}
    return canonical(tuple(codes.items()))
