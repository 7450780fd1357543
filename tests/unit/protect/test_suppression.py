"""Sub-tables in part against every table that agrees with all that is public, and the differences that prove them."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from sdc.model.errors import NotReleasableError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.protect.release import rounded_beside
from sdc.protect.suppression import Protection, suppress_jointly
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Budget, Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.support import Support
from sdc.risk.verdict import Verdict
from tests.profiles import scaled
from tests.reference import TooManyTablesError
from tests.strategies import Backwards, dense, schema_of
from tests.suppressed import Case, cases

CASES = scaled(500, fewest=32)


def published(case: Case) -> Protection | None:
    """What goes out in part, where all is proven; None where it is refused."""
    try:
        found = suppress_jointly(case.evaluator, case.views)
    except NotReleasableError:
        return None
    return found if found.evaluator.evaluate(NOTHING).verdict is Verdict.SAFE else None


def test_whoever_reads_all_parts_pins_no_small_count_of_the_table_nor_of_a_part(night: list[int]) -> None:
    """And who is too narrow by what was public before is so; no cell known to be 0 is withheld."""
    whole = in_part = refused = several = 0
    for case in islice(cases(np.random.default_rng([3, *night])), CASES):
        found = published(case)
        if found is None:
            refused += 1
            continue
        try:
            tables = case.agreeing(found.flags)
        except TooManyTablesError:
            continue
        assert (np.ptp(tables, axis=0)[case.at_risk] >= case.min_width).all()
        for view, hidden, own in zip(case.views, found.flags, found.primary, strict=True):
            counts, ranges = case.of(view, case.table.dense)[0], case.of(view, tables)
            small = np.flatnonzero(case.is_small(counts))
            assert hidden[small].all()
            assert not hidden[case.known.zeros.excluded(view, case.table.schema).reshape(-1)].any()
            assert (own.counts == counts[small]).all()
            assert (np.ptp(ranges, axis=0)[small][~own.refuted] >= case.min_width).all()
            assert (ranges.min(axis=0)[small] <= own.inner[:, 0]).all()
            assert (ranges.max(axis=0)[small] >= own.inner[:, 1]).all()
            if own.refuted.any():
                before = case.of(view, case.agreeing([np.ones_like(flags) for flags in found.flags]))
                assert (np.ptp(before, axis=0)[small][own.refuted] < case.min_width).all()
            whole, in_part = whole + (not hidden.any()), in_part + bool(hidden.any() and not hidden.all())
        several += len(case.views) > 1
    assert min(in_part, several) > CASES // 8
    assert whole > 0
    assert refused < CASES // 4


def yearbook(rng: np.random.Generator, areas: int = 24, first: float = 0.12) -> tuple[Table, Knowledge]:
    """Small areas by age, sex and education, and what is public of them: with it all is safe."""
    sizes, records = [areas, 6, 2, 3], 250 * areas
    codes = np.stack(
        [
            np.minimum(rng.geometric(first, records) - 1, areas - 1),
            np.minimum(rng.poisson(1.5, records), 5),
            rng.integers(0, 2, records),
            np.minimum(rng.geometric(0.5, records) - 1, 2),
        ],
        axis=1,
    ).astype(np.uint16)
    table = Table.of(schema_of(sizes), codes)
    return table, Knowledge.of(table, Release.of([0b0101, 0b1110]), NO_ZEROS, ())


@pytest.mark.parametrize("views", [(0b0011,), (0b0011, 0b1001)])
def test_areas_go_out_in_part_and_what_is_withheld_depends_on_no_order(views: tuple[SubTable, ...]) -> None:
    table, known = yearbook(np.random.default_rng(4), 12, 0.2)
    evaluator = RiskEvaluator(table, known, Criteria.of(2, 3))
    assert evaluator.evaluate(NOTHING).verdict is Verdict.SAFE
    assert evaluator.evaluate(Release.of(views)).verdict is not Verdict.SAFE
    found, again = (
        suppress_jointly(replace(evaluator, effort=effort), views)
        for effort in (Effort(), Effort(executor=Backwards()))
    )
    proof = Support(found.evaluator.known, found.evaluator.pool).proof()
    assert found.evaluator.criteria.unproven(table, found.evaluator.known, proof) == 0
    assert found.evaluator.evaluate(NOTHING).verdict is Verdict.SAFE
    # and whoever knows the parts alone proves it anew
    assert RiskEvaluator(table, found.evaluator.known, Criteria.of(2, 3)).evaluate(NOTHING).verdict is Verdict.SAFE
    for view, hidden, other in zip(views, found.flags, again.flags, strict=True):
        counts = table.marginal(view).dense.reshape(-1)
        assert hidden[(counts > 0) & (counts <= 2)].all()
        assert hidden.sum() < len(hidden) / 2
        assert (hidden == other).all()
    whole = Release.of(views)
    assert sum(map(len, (own.counts for own in found.primary))) > 0
    assert all((own.inner[:, 1] - own.inner[:, 0] >= 3).all() for own in found.primary)
    assert found.evaluator.evaluate(whole).verdict is not Verdict.SAFE


def test_what_is_withheld_and_proves_nothing_is_shown_again() -> None:
    """Whatever was to be withheld to begin with costs nothing, and is needed only where it proves something."""
    table, known = yearbook(np.random.default_rng(4))
    evaluator = RiskEvaluator(table, known, Criteria.of(2, 3))
    everything = {0b0011: np.ones(24 * 6, np.bool_)}
    free, begun = (suppress_jointly(evaluator, [0b0011], start, mends=False) for start in (None, everything))
    assert free.flags[0].sum() < begun.flags[0].sum() < 24 * 6
    mended = suppress_jointly(evaluator, [0b0011], everything)
    assert mended.flags[0].sum() < free.flags[0].sum()
    assert mended.evaluator.evaluate(NOTHING).verdict is Verdict.SAFE


def test_a_budget_that_is_too_small_publishes_nothing() -> None:
    table, known = yearbook(np.random.default_rng(4))
    evaluator = RiskEvaluator(table, known, Criteria.of(2, 3), effort=Effort(Budget(seconds=1e-3)))
    with pytest.raises(NotReleasableError, match=r"small cells of A\*B were not proven to keep a width of 3"):
        suppress_jointly(evaluator, [0b0011])


def test_a_small_cell_that_is_told_already_is_withheld_and_named() -> None:
    """All have one category of B, so that of an area with two records everybody knows which."""
    table = dense(schema_of([2, 2, 2]), [1, 1, 0, 0, 9, 8, 0, 0])
    evaluator = RiskEvaluator(table, Knowledge.of(table, Release.of([0b001, 0b010]), NO_ZEROS, ()), Criteria.of(2, 2))
    assert evaluator.evaluate(NOTHING).verdict is Verdict.SAFE
    found = suppress_jointly(evaluator, [0b011])
    assert found.evaluator.evaluate(NOTHING).verdict is Verdict.SAFE
    (hidden,), (own,) = found.flags, found.primary
    assert hidden.tolist() == [True, False, False, False]
    assert (own.cells.tolist(), own.inner.tolist(), own.refuted.tolist()) == ([[0, 0]], [[2, 2]], [True])


def test_small_cells_of_what_was_in_part_before_keep_their_width_too() -> None:
    """The sum of the second row is 1 and was rounded: cells are withheld that let it move."""
    table = dense(schema_of([3, 2]), [2, 2, 0, 1, 0, 5])
    begun = RiskEvaluator(table, Knowledge.of(table, NOTHING, NO_ZEROS, ()), Criteria.of(1, 1))
    evaluator = begun.knowing(begun.known.plus_facts(rounded_beside(begun, 0b11, 3).facts))
    assert evaluator.evaluate(NOTHING).verdict is Verdict.SAFE
    found = suppress_jointly(evaluator, [0b11])
    assert found.evaluator.evaluate(NOTHING).verdict is Verdict.SAFE
    assert not found.flags[0].all()
