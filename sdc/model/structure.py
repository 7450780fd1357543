"""Structure: what follows from which sub-tables are known, whatever else is: what they inform of, how that splits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.graph import Adjacency, Decomposition
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable


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
