"""The linear program for the few cells that stop a release: what it proves is so, and it is asked about no others."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import pytest

from sdc.bounds import exact, linear_program
from sdc.model.cell_bounds import CellBounds
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.case import Case
from sdc.risk.certifying import Certifying
from sdc.risk.criteria import Criteria, Evaluation
from sdc.risk.effort import Budget, Depth, Effort
from sdc.risk.program_units import Programs, room_of
from sdc.risk.refutation import Refutations
from sdc.risk.slices import CELLS_PER_SLICE
from sdc.risk.support import support_of
from sdc.risk.verdict import Verdict
from tests.strategies import Backwards, all_ways, frontier, knows, nested_in, scattered, unknowing

PAIRS, TRIPLES, CYCLE = all_ways(5, 2), all_ways(5, 3), frontier("ABC", "BCD", "CDE", "ADE", "ABE")
SMALL_COUNT = 2


@contextmanager
def nothing_else(most: int = 100) -> Iterator[None]:
    """No walks and no collapse: what is decided then the program has decided."""
    with patch.object(Certifying, "certify", lambda self, waiting: None), patch("sdc.risk.case.MOST_ASKED", most):
        yield


def asked(table: Table, release: Release, width: int, **effort: object) -> tuple[Evaluation, Case]:
    criteria, known = Criteria.of(SMALL_COUNT, width), knows(table, release)
    given = replace(Effort(refute_cells=0), **effort)  # type: ignore[arg-type]
    return criteria._judged(table, known, release, criteria.pool(table), given)


@cache
def sharp(release: Release) -> CellBounds:
    table = scattered()
    return exact.bounds(table, knows(table, release), table.codes[table.at_risk(SMALL_COUNT)])


@pytest.mark.parametrize("release", [PAIRS, CYCLE, TRIPLES], ids=["pairs", "cycle", "triples"])
@pytest.mark.parametrize("width", [1, 3])
def test_what_it_decides_is_so(release: Release, width: int) -> None:
    table, bounds = scattered(), sharp(release)
    assert bounds.exact.all()
    with nothing_else():
        evaluation, case = asked(table, release, width)
    if evaluation.verdict is Verdict.SAFE:
        assert case.programs.spent > 0
        shown = support_of(evaluation.proof, table, SMALL_COUNT, evaluation.knowledge).inner
        assert (shown[:, 1] - shown[:, 0] >= width).all()
    if evaluation.verdict is not Verdict.UNDECIDED:
        assert (evaluation.verdict is Verdict.SAFE) == (bounds.outer_width.min() >= width)
    assert nested_in(bounds.outer, case.bounds.outer)


def test_cells_are_asked_about_one_by_one() -> None:
    """The first pays for the program, and none is left out."""
    with nothing_else(), patch("sdc.risk.case.FIRST_ASKED", 1), patch("sdc.risk.case.LAST_ASKED", 1):
        evaluation, case = asked(scattered(), PAIRS, 3)
    about = linear_program.about(knows(scattered(), PAIRS), room_of(CELLS_PER_SLICE))
    assert about is not None
    assert evaluation.verdict is Verdict.SAFE
    assert case.programs.spent > about[0]


def test_what_it_refutes_is_kept_as_a_refutation() -> None:
    """Neither the shuttle nor a small component's own program shows it: the multipliers are those that it came to."""
    table = scattered()
    with nothing_else():
        plain = unknowing(table, Criteria.of(SMALL_COUNT, 1), effort=Effort(refute_cells=0))
        answer = replace(plain, refutations=Refutations()).evaluate(TRIPLES)
    assert answer.verdict is Verdict.UNSAFE
    refutation = answer.refutation
    assert refutation is not None
    assert refutation.upper is not None
    assert refutation.width == 0
    assert refutation.holds(table, NO_ZEROS)
    assert refutation.is_known(TRIPLES)
    bounds = sharp(TRIPLES)
    low, high = bounds.outer[(bounds.cells == refutation.cell).all(axis=1)][0]
    assert refutation.bounds[0] <= low <= high <= refutation.bounds[1]


def test_a_question_ends_with_a_cell_that_stays_open() -> None:
    """Two are asked about, and no more where one of these is neither proven nor refuted."""
    with (
        nothing_else(),
        patch.object(linear_program, "_rounded", lambda *args: (None, 1)),
        patch.object(Programs, "outer", autospec=True, side_effect=Programs.outer) as outer,
    ):
        evaluation, case = asked(scattered(), PAIRS, 3)
    assert evaluation.verdict is Verdict.UNDECIDED
    assert [len(call.args[1]) for call in outer.call_args_list] == [2]
    assert {end.cell for end in case.programs.priced} <= {tuple(cell) for cell in case.bounds.cells.tolist()}


@pytest.mark.parametrize(
    "effort",
    [
        {"depth": Depth.BRIEF},
        {"depth": Depth.REFUTE},
        {"budget": Budget(5.0, 0.01)},
        {"budget": Budget(1.0, 1200.0)},
        {"spent": 12_000_000},
        {"cells_per_slice": 1000},
    ],
    ids=["brief", "refute", "little for all", "little for a cell", "spent", "little room"],
)
def test_where_it_is_not_asked(effort: dict[str, object]) -> None:
    with nothing_else():
        evaluation, case = asked(scattered(), PAIRS, 3, **effort)
    assert evaluation.verdict is Verdict.UNDECIDED
    assert case.spent == 0


def test_the_same_answer_whichever_unit_ends_first() -> None:
    with nothing_else():
        one = unknowing(scattered(), Criteria.of(SMALL_COUNT, 3), effort=Effort(refute_cells=0))
        other = unknowing(scattered(), Criteria.of(SMALL_COUNT, 3), effort=Effort(refute_cells=0, executor=Backwards()))
        first = one.evaluate(PAIRS)
        linear_program.program_of.cache_clear()  # as in a process that knows no program yet
        second = other.evaluate(PAIRS)
    assert one.spent == other.spent > 0
    for mine, theirs in zip(first.proof.parts, second.proof.parts, strict=True):
        assert mine.variables == theirs.variables
        assert (mine.differences.cells == theirs.differences.cells).all()
        assert (mine.differences.changes == theirs.differences.changes).all()
