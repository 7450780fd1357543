"""The evidence: what is kept, for which releases it counts, and what the ends of a cell rest on; of components too."""

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.feasible.proof import Proof
from sdc.feasible.walk import shift
from sdc.feasible.witness_pool import AtRisk, WitnessPool
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.support import Shift, Support
from tests.strategies import (
    components,
    frontier,
    knows,
    nested_in,
    releases,
    scattered,
    sharp_ends,
    shown_by,
    structural_zeros,
    tables_and_knowledge,
)


def told(data: hs.DataObject, table: Table) -> Knowledge:
    """Any release of it, perhaps with structural zeros."""
    return knows(table, data.draw(releases(len(table.schema))), data.draw(structural_zeros(table)))


def larger(data: hs.DataObject, table: Table, known: Knowledge) -> Knowledge:
    """What contains this."""
    return known | told(data, table)


class Supported:
    """What a witness pool shows for one knowledge after another, as a search asks about them."""

    def __init__(self, table: Table) -> None:
        self.table, self.pool = (
            table,
            WitnessPool(AtRisk(table, table.codes, table.counts), int(table.counts.max(initial=1))),
        )
        self.support: Support | None = None

    @property
    def now(self) -> Support:
        assert self.support is not None
        return self.support

    def _turn_to(self, known: Knowledge) -> None:
        self.support = Support(known, self.pool)

    def evaluate(self, known: Knowledge) -> None:
        if self.support is not None and self.now.knowledge == known:
            return
        self._keep()
        self._turn_to(known)

    def _keep(self) -> None:
        if self.support is not None:
            self.pool = self.pool.plus((c.evidence for c in self.now.open), {})

    def settle(self, known: Knowledge) -> None:
        self.evaluate(known)
        self.pool = self.pool.settled((c.settled() for c in self.now.open), {})
        self._turn_to(known)

    def learn(self, proof: Proof) -> None:
        self._keep()
        self.pool = self.pool.learnt(proof, self.now.knowledge)
        self._turn_to(self.now.knowledge)


def sharp(table: Table, known: Knowledge) -> Intervals:
    """(cells, 2) of the occupied cells, by the listing of all feasible tables."""
    return sharp_ends(table, known)[table.schema.keys.pack(table.codes)]


def searched(support: Supported, width: int = 3) -> None:
    """What a criterion does: every component's cells are moved as far as is wanted of them."""
    rows = np.arange(len(support.now.inner))
    for way in (Shift.DOWN, Shift.UP):
        for component, cells, changes in support.now.wanted(rows, width, way):
            moved = component.frame.cells[cells]
            found = shift(component.frame.table, component.knowledge, moved, changes, nodes=300)
            component.add(found.differences)


def assert_inside(inner: Intervals, table: Table, known: Knowledge) -> None:
    ends = sharp(table, known)
    assert nested_in(inner, ends)
    assert (inner[:, 0] <= table.counts).all()
    assert (inner[:, 1] >= table.counts).all()


@given(hs.data())
@settings(max_examples=80)
def test_support_of_one_release_after_another(data: hs.DataObject) -> None:
    """As in a search, or in any order: what was found for one is never counted where it is not feasible."""
    table, known = data.draw(tables_and_knowledge(max_records=6))
    support = Supported(table)
    for _ in range(4):
        asked = larger(data, table, known) if data.draw(hs.booleans()) else told(data, table)
        support.evaluate(asked)
        searched(support, data.draw(hs.integers(1, 4)))
        assert_inside(support.now.inner, table, asked)
        if data.draw(hs.booleans()):
            before, known = support.now.inner.copy(), asked
            support.settle(asked)
            assert np.array_equal(support.now.inner, before)
            assert np.array_equal(shown_by(table, asked, table.codes, support.now.proof()), before)


@given(tables_and_knowledge(max_records=6))
@settings(max_examples=80)
def test_a_proof_is_in_perfect_order_and_enough(example: tuple[Table, Knowledge]) -> None:
    """`shown_by` asserts the junction tree; the ends come from the proof alone, and from its differences."""
    table, known = example
    support = Supported(table)
    support.evaluate(known)
    searched(support)
    proof = support.now.proof()
    assert np.array_equal(shown_by(table, known, table.codes, proof), support.now.inner)
    tree = components(known.release, len(table.schema), known.zeros.subtables)
    assert tuple(part.variables for part in proof.parts) == tree.cliques
    assert proof.separators == tree.separators
    assert proof.differences == sum(len(part.differences) for part in proof.parts)
    for part in proof.parts:
        assert len(part.differences) <= 2 * len(np.unique(table.codes[:, st.members(part.variables)], axis=0))
        if part.variables in known.release:
            assert len(part.differences) == 0


@given(hs.data())
@settings(max_examples=60)
def test_what_is_learnt_for_another_release_is_feasible_there(data: hs.DataObject) -> None:
    table, known = data.draw(tables_and_knowledge(max_records=6))
    first, other = Supported(table), Supported(table)
    first.evaluate(known)
    searched(first)
    asked = told(data, table)
    other.evaluate(asked)
    other.learn(first.now.proof())
    assert_inside(other.now.inner, table, asked)
    shown_by(table, asked, table.codes, other.now.proof())


@given(tables_and_knowledge(), hs.integers(1, 5))
@settings(max_examples=80)
def test_a_change_is_wanted_once_for_a_release(example: tuple[Table, Knowledge], width: int) -> None:
    """And is what the width of some at-risk cell takes, of cells that do not have it."""
    table, known = example
    support, rows = Supported(table), np.arange(len(table))
    support.evaluate(known)
    if not len(table):
        return
    for way in Shift:
        inner = support.now.inner
        for component, cells, changes in support.now.wanted(rows, width, way):
            assert component.frame.variables not in known.release
            assert len(set(cells.tolist())) == len(cells)
            ends, counts = component.inner[cells], component.frame.counts[cells]
            if way.is_down:
                assert (changes < 0).all()
                assert (counts + changes >= 0).all()
                assert (counts + changes < ends[:, 0]).all()
            else:
                assert (counts + changes > ends[:, 1]).all()
                farthest = [width + inner[component.frame.row == cell, 0].max() for cell in cells]
                assert (counts + changes).tolist() == farthest
        assert not list(support.now.wanted(rows, width, way))
    support.evaluate(known)
    assert not [found for way in Shift for found in support.now.wanted(rows, width, way)]


def test_components_are_kept_from_release_to_release() -> None:
    """What was found of ABC serves every release that has it as a component, and is dropped once none is settled on."""
    table = scattered()
    triangle = knows(table, frontier("AB", "BC", "AC"))
    support = Supported(table)
    support.evaluate(triangle)
    searched(support)
    found = {c.frame.variables: len(c.evidence.differences) for c in support.now.open}
    assert found[0b00111] > 0
    assert found == {0b00111: found[0b00111], 0b01000: 0, 0b10000: 0}
    alone, elsewhere = support.now.inner, triangle.plus(Release.of([0b11000]))
    support.evaluate(elsewhere)
    assert {c.frame.variables: len(c.evidence.differences) for c in support.now.open} == {0b00111: found[0b00111]}
    assert (support.now.inner[:, 0] <= table.counts).all()
    support.settle(elsewhere)
    support.evaluate(triangle)
    assert np.array_equal(support.now.inner, alone)
    support.settle(knows(table, frontier("AB")))
    support.evaluate(triangle)
    assert support.now.proof().differences == 0


@given(tables_and_knowledge(), hs.integers(1, 3))
@settings(max_examples=60)
def test_at_risk_cells_are_bounded_a_few_at_once(example: tuple[Table, Knowledge], few: int) -> None:
    """Whatever the number: what `below` leaves out has reached the value."""
    table, known = example
    pool = WitnessPool(AtRisk(table, table.codes, table.counts), int(table.counts.max(initial=1)))
    support, rows = Support(known, pool), np.arange(len(table))
    inner, outer = support.inner_at(rows), support.outer_at(rows)
    with patch("sdc.risk.support.ROWS_AT_ONCE", few):
        assert (support.inner_at(rows) == inner).all()
        assert (support.outer_at(rows) == outer).all()
        if len(rows):
            assert support.narrowest() == (np.diff(inner).min(), np.diff(outer).min())
    for value in {*inner[:, 1].tolist()}:
        assert {*np.flatnonzero(inner[:, 1] < value)} <= {*support.below(value).tolist()}
    assert len(support.below(int(inner[:, 1].min(initial=0)))) == 0
