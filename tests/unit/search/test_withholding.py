"""Sub-tables in part against every table that agrees with all that is public, and the differences that prove them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from sdc.model import subtable as st
from sdc.model.errors import NotReleasableError
from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Budget, Effort
from sdc.risk.inquiry import Inquiry
from sdc.risk.support import Support
from sdc.risk.verdict import Verdict
from sdc.search import hiding
from sdc.search.pace import Paced
from sdc.search.withholding import InParts, withhold
from sdc.treat.suppression import Dense, Flags
from tests.judge import TooManyTablesError, agreeing, every_cell, exact, impossible
from tests.profiles import scaled
from tests.strategies import dense, schema_of
from tests.unit.treat.test_suppression import pattern, some_fact, told

CASES = scaled(500, fewest=60)
SIZES = ([2, 2, 2], [2, 3, 2], [3, 3, 2], [2, 2, 3], [2, 4, 2], [2, 2, 2, 2])


@dataclass(frozen=True, eq=False)
class Case:
    """Sub-tables of a small table, beside a release, structural zeros and other facts, and what is to be protected."""

    table: Table
    known: Knowledge
    views: tuple[SubTable, ...]
    small_count: int
    min_width: int

    @property
    def inquiry(self) -> Inquiry:
        return Inquiry(self.table, self.known, Criteria.of(self.small_count, self.min_width))

    def places(self, fact: Fact) -> list[int]:
        """Of the cells that a fact tells between two numbers, in C order."""
        assert fact.between is not None
        sizes = [self.table.schema.sizes[v] for v in st.members(fact.view)]
        return [int(place) for place in np.ravel_multi_index(tuple(fact.between.cells.T.astype(int)), sizes)]

    def of(self, view: SubTable, tables: Dense) -> Dense:
        """(tables, cells of the view) of each of (tables, cells)."""
        sizes = self.table.schema.sizes
        out = tuple(v + 1 for v in range(len(sizes)) if not view >> v & 1)
        sums = np.asarray(tables.reshape(-1, *sizes).sum(axis=out))
        return sums.reshape(len(sums), -1)

    def agreeing(self, hidden: Sequence[Flags]) -> Dense:
        """All tables with the zeros, the cells of each view that are not hidden, the release and the other facts."""
        counts, zeros = self.table.dense, np.array(every_cell(self.table.schema.sizes))
        facts = [*impossible(map(tuple, zeros[self.known.zeros.contains(zeros, self.table.schema)].tolist()))]
        for public in self.known.release.frontier:
            facts += exact(counts, st.members(public))
        for view, flags in zip(self.views, hidden, strict=True):
            cells = exact(counts, st.members(view))
            facts += [cell for cell, is_hidden in zip(cells, flags, strict=True) if not is_hidden]
        facts += [one for fact in self.known.facts for one in told(counts, fact)]
        facts += exact(counts, ())
        return agreeing(self.table.schema.sizes, facts, 300_000)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Of which what is known alone is safe, with one to three sub-tables that are not public, without end."""
    while True:
        sizes = SIZES[rng.integers(len(SIZES))]
        patterns = [pattern(rng, sizes) for _ in range(rng.integers(3))]
        if sizes[1] == 4:  # the first variable is a coarser level of the second
            patterns += [((0, (1,)), (1, (0, 1))), ((0, (0,)), (1, (2, 3)))]
        zeros, cells = StructuralZeros(tuple(patterns)), np.array(every_cell(sizes))
        counts = rng.integers(0, 5, len(cells)) * (rng.random(len(cells)) < 0.7)
        table = Table.of(schema_of(sizes), cells, counts * ~zeros.contains(cells, schema_of(sizes)))
        full, small, width = st.full(len(sizes)), int(rng.integers(1, 3)), int(rng.integers(1, 4))
        release = Release.of(rng.integers(0, full, 2).tolist())
        others = [s for s in range(1, full + 1) if s not in release and st.dimension(s) > 1]
        if not len(table.at_risk(small)) or not others:
            continue
        views = tuple(sorted({int(view) for view in rng.choice(others, rng.integers(1, 4))}))
        facts = [some_fact(rng, table) for _ in range(rng.integers(2))]
        case = Case(table, Knowledge.of(table, release, zeros, facts), views, small, width)
        if case.inquiry.ask(NOTHING).verdict is Verdict.SAFE:
            yield case


def published(case: Case) -> InParts | None:
    """What goes out in part, where all is proven; None where it is refused."""
    try:
        found = withhold(case.inquiry, case.views)
    except NotReleasableError:
        return None
    return found if found.inquiry.ask(NOTHING).verdict is Verdict.SAFE else None


def test_whoever_reads_all_parts_pins_no_small_count_of_the_table_nor_of_a_part(night: list[int]) -> None:
    """And who is too narrow by what was public before is so; no cell known to be 0 is withheld."""
    whole = in_part = refused = several = 0
    for case in islice(cases(np.random.default_rng([3, *night])), CASES):
        found = published(case)
        if found is None:
            refused += 1
            continue
        try:
            tables = case.agreeing(found.hidden)
        except TooManyTablesError:
            continue
        flat = case.table.dense.reshape(-1)
        is_at_risk = (flat > 0) & (flat <= case.small_count)
        assert (np.ptp(tables, axis=0)[is_at_risk] >= case.min_width).all()
        for view, hidden, own in zip(case.views, found.hidden, found.own, strict=True):
            counts, ranges = case.of(view, case.table.dense)[0], case.of(view, tables)
            small = np.flatnonzero((counts > 0) & (counts <= case.small_count))
            assert hidden[small].all()
            assert not hidden[case.known.zeros.excluded(view, case.table.schema).reshape(-1)].any()
            assert (own.counts == counts[small]).all()
            assert (np.ptp(ranges, axis=0)[small][~own.refuted] >= case.min_width).all()
            assert (ranges.min(axis=0)[small] <= own.inner[:, 0]).all()
            assert (ranges.max(axis=0)[small] >= own.inner[:, 1]).all()
            if own.refuted.any():
                before = case.of(view, case.agreeing([np.ones_like(flags) for flags in found.hidden]))
                assert (np.ptp(before, axis=0)[small][own.refuted] < case.min_width).all()
            whole, in_part = whole + (not hidden.any()), in_part + bool(hidden.any() and not hidden.all())
        several += len(case.views) > 1
    assert min(in_part, several) > CASES // 8
    assert whole > 0
    assert refused < CASES // 4


def yearbook(rng: np.random.Generator) -> tuple[Table, Knowledge]:
    """Small areas by age, sex and education, and what is public of them: with it all is safe."""
    sizes, records = [24, 6, 2, 3], 6000
    codes = np.stack(
        [
            np.minimum(rng.geometric(0.12, records) - 1, 23),
            np.minimum(rng.poisson(1.5, records), 5),
            rng.integers(0, 2, records),
            np.minimum(rng.geometric(0.5, records) - 1, 2),
        ],
        axis=1,
    ).astype(np.uint16)
    table = Table.of(schema_of(sizes), codes)
    return table, Knowledge.of(table, Release.of([0b0101, 0b1110]), NO_ZEROS, ())


class Backwards:
    """Units run in another order, as workers would."""

    workers, scratch = 3, None

    def run(self, function: Callable[[Any, Any], Any], table: Any, units: Sequence[Any]) -> Iterator[Any]:
        found = [function(table, unit) for unit in reversed(units)]
        return reversed(found)


@pytest.mark.parametrize("views", [(0b0011,), (0b0011, 0b1001)])
def test_areas_go_out_in_part_and_what_is_withheld_depends_on_no_order(views: tuple[SubTable, ...]) -> None:
    table, known = yearbook(np.random.default_rng(4))
    inquiry = Inquiry(table, known, Criteria.of(2, 3))
    assert inquiry.ask(NOTHING).verdict is Verdict.SAFE
    assert inquiry.ask(Release.of(views)).verdict is not Verdict.SAFE
    found, again = (
        withhold(replace(inquiry, effort=effort), views) for effort in (Effort(), Effort(executor=Backwards()))
    )
    proof = Support(found.inquiry.known, found.inquiry.bank).proof()
    assert found.inquiry.criteria.unproven(table, found.inquiry.known, proof) == 0
    assert found.inquiry.ask(NOTHING).verdict is Verdict.SAFE
    # and whoever knows the parts alone proves it anew
    assert Inquiry(table, found.inquiry.known, Criteria.of(2, 3)).ask(NOTHING).verdict is Verdict.SAFE
    for view, hidden, other in zip(views, found.hidden, again.hidden, strict=True):
        counts = table.marginal(view).dense.reshape(-1)
        assert hidden[(counts > 0) & (counts <= 2)].all()
        assert hidden.sum() < len(hidden) / 2
        assert (hidden == other).all()
    whole = Release.of(views)
    assert sum(map(len, (own.counts for own in found.own))) > 0
    assert all((own.inner[:, 1] - own.inner[:, 0] >= 3).all() for own in found.own)
    assert found.inquiry.ask(whole).verdict is not Verdict.SAFE


def test_what_is_withheld_and_proves_nothing_is_shown_again() -> None:
    """Whatever was to be withheld to begin with costs nothing, and is needed only where it proves something."""
    table, known = yearbook(np.random.default_rng(4))
    inquiry = Inquiry(table, known, Criteria.of(2, 3))
    everything = {0b0011: np.ones(24 * 6, np.bool_)}
    free, begun = (withhold(inquiry, [0b0011], start, mends=False) for start in (None, everything))
    assert free.hidden[0].sum() < begun.hidden[0].sum() < 24 * 6
    mended = withhold(inquiry, [0b0011], everything)
    assert mended.hidden[0].sum() < free.hidden[0].sum()
    assert mended.inquiry.ask(NOTHING).verdict is Verdict.SAFE


def test_looking_for_less_ends_when_it_has_cost_what_withholding_did(monkeypatch: pytest.MonkeyPatch) -> None:
    table, known = yearbook(np.random.default_rng(4))
    inquiry = Inquiry(table, known, Criteria.of(2, 3))
    run, look = hiding.Hiding.run, hiding.Hiding._mend_batch
    ran, begun = list[int](), list[int]()

    def running(search: hiding.Hiding, paced: Paced) -> None:
        run(search, paced)
        ran.append(search.spent)

    def looking(search: hiding.Hiding, places: hiding.Ints, tries: range) -> None:
        begun.append(search.spent)
        look(search, places, tries)

    monkeypatch.setattr(hiding.Hiding, "run", running)
    monkeypatch.setattr(hiding.Hiding, "_mend_batch", looking)
    freely = withhold(inquiry, [0b0011])
    looks = len(begun)
    assert begun[-1] < ran[0] + hiding.LOOKS
    begun.clear()
    monkeypatch.setattr(hiding, "LOOKS", 0)
    soon = withhold(inquiry, [0b0011])
    assert begun[-1] < 2 * ran[1] == 2 * ran[0]
    assert len(begun) < looks
    assert freely.hidden[0].sum() <= soon.hidden[0].sum()


def test_a_budget_that_is_too_small_publishes_nothing() -> None:
    table, known = yearbook(np.random.default_rng(4))
    inquiry = Inquiry(table, known, Criteria.of(2, 3), effort=Effort(Budget(seconds=1e-3)))
    with pytest.raises(NotReleasableError, match=r"small cells of A\*B were not proven to keep a width of 3"):
        withhold(inquiry, [0b0011])


def test_a_small_cell_that_is_told_already_is_withheld_and_named() -> None:
    """All have one category of B, so that of an area with two records everybody knows which."""
    table = dense(schema_of([2, 2, 2]), [1, 1, 0, 0, 9, 8, 0, 0])
    inquiry = Inquiry(table, Knowledge.of(table, Release.of([0b001, 0b010]), NO_ZEROS, ()), Criteria.of(2, 2))
    assert inquiry.ask(NOTHING).verdict is Verdict.SAFE
    found = withhold(inquiry, [0b011])
    assert found.inquiry.ask(NOTHING).verdict is Verdict.SAFE
    (hidden,), (own,) = found.hidden, found.own
    assert hidden.tolist() == [True, False, False, False]
    assert (own.cells.tolist(), own.inner.tolist(), own.refuted.tolist()) == ([[0, 0]], [[2, 2]], [True])
