"""Totals of weights beside counts: what goes out narrows no at-risk cell, by enumeration of tables and programs."""

import pickle
from collections.abc import Callable
from dataclasses import replace

import hypothesis.strategies as hs
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from scipy.optimize import linprog

from sdc.bounds.method import cell_bounds, method_called
from sdc.executor import IN_PROCESS
from sdc.feasible.differences import Differences
from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table
from sdc.model.weights import UNIT, RecordWeights, RoundedTotals, WeightRanges, rounded
from sdc.risk.criteria import Criteria
from sdc.risk.evaluator import RiskEvaluator
from sdc.server.service.judge import Judge
from sdc.weighted.choice import choose, is_wide_enough
from sdc.weighted.pairs import Pairs, WeightedCertificate
from tests.facts import agreeing
from tests.strategies import every_cell, knows, listed

SIZES = (2, 2, 3)
SCHEMA = Schema(tuple(Variable(name, tuple("012"[:size])) for name, size in zip("abc", SIZES, strict=True)))
CELLS = every_cell(SCHEMA)
TWICE = np.tile(CELLS, (2, 1))
"""Two records of each cell."""
RELEASES = [Release.of([0b011, 0b101]), Release.of([0b011, 0b101, 0b110]), Release.of([0b001, 0b010, 0b100])]


def weighted(records: Codes, weights: list[int]) -> tuple[Table, RecordWeights]:
    """The table of records with whole weights, and its weights."""
    table = Table.of(SCHEMA, records)
    row, each = table.schema.keys.matching(table.codes, records), np.array(weights) * UNIT
    total, least, largest = np.zeros(len(table), np.int64), np.full(len(table), 1 << 53), np.zeros(len(table), np.int64)
    np.add.at(total, row, each)
    np.minimum.at(least, row, each)
    np.maximum.at(largest, row, each)
    return table, RecordWeights(total, least, largest)


@hs.composite
def samples(draw: hs.DrawFn) -> tuple[Table, RecordWeights]:
    """Records with weights, some of which depend on a category alone."""
    records = np.array([[draw(hs.integers(0, size - 1)) for size in SIZES] for _ in range(draw(hs.integers(4, 9)))])
    by_category = draw(hs.booleans())
    of = [[draw(hs.integers(1, 40)) for _ in range(size)] for size in SIZES]
    weights = [of[0][record[0]] if by_category else draw(hs.integers(1, 60)) for record in records.tolist()]
    return weighted(records.astype(np.uint16), weights)


def chosen(
    table: Table, weights: RecordWeights, release: Release, base: int, programs: int = 10_000
) -> WeightedCertificate:
    known, criteria = knows(table, release), Criteria.of(2, 1)
    proof = RiskEvaluator(table, known, criteria).evaluate(NOTHING).proof
    return choose(table, weights, known, criteria, proof, base * UNIT, IN_PROCESS, programs)


def with_totals(known: Knowledge, of: tuple[SubTable, ...], base: int) -> Knowledge:
    """Where these totals are out too, rounded to so many millionths."""
    return replace(known, totals=RoundedTotals(of, base))


def is_shown(table: Table, weights: RecordWeights, counts: npt.NDArray[np.int64], known: Knowledge) -> bool:
    """Whether some totals of the cells, with these (cells,) counts, show what the truth shows."""
    low, high = WeightRanges.of(table, weights).at(CELLS)
    bounds = [(n * lo, n * hi) if n else (0, 0) for n, lo, hi in zip(counts, low, high, strict=True)]
    if any(lo > hi for lo, hi in bounds):
        return False
    own, rows, sides = np.zeros(len(CELLS)), list[npt.NDArray[np.float64]](), list[float]()
    own[table.schema.keys.pack(table.codes)] = weights.totals
    for subtable in known.totals.of:
        kept = list(st.members(subtable))
        for cell in np.unique(CELLS[:, kept], axis=0):
            inside = (CELLS[:, kept] == cell).all(axis=1).astype(np.float64)
            least = rounded(np.array([int(own @ inside)]), known.totals.base)[0] - known.totals.base / 2
            rows += [inside, -inside]
            sides += [(least + known.totals.base) / UNIT, -least / UNIT]
    found = linprog(np.zeros(len(CELLS)), np.array(rows), sides, bounds=np.array(bounds) / UNIT)
    return bool(found.status == 0)


def widths(table: Table, weights: RecordWeights, known: Knowledge) -> npt.NDArray[np.int64]:
    """(at-risk cells,) by enumeration, with a program for each feasible table."""
    shown = np.array([t for t in listed(table, known.counts) if is_shown(table, weights, t, known)])
    counts = table.dense.reshape(-1)
    at_risk = shown[:, (counts > 0) & (counts <= 2)]
    found: npt.NDArray[np.int64] = at_risk.max(axis=0) - at_risk.min(axis=0)
    return found


def are_wide(table: Table, weights: RecordWeights, known: Knowledge) -> bool:
    """Whether all `widths` are 1 at least: with a program for feasible tables alone that would show it of one more."""
    counts = table.dense.reshape(-1)
    assert is_shown(table, weights, counts, known)
    left = (counts > 0) & (counts <= 2)
    for found in agreeing(table, known.release.frontier, known.zeros, known.facts, 1_000_000):
        other = left & (found != counts)
        if other.any() and is_shown(table, weights, found, known):
            left &= ~other
        if not left.any():
            return True
    return not left.any()


@settings(max_examples=40)
@given(samples(), hs.sampled_from(RELEASES), hs.sampled_from([1, 10, 100]))
def test_what_goes_out_narrows_no_cell(sample: tuple[Table, RecordWeights], release: Release, base: int) -> None:
    table, weights = sample
    found = chosen(table, weights, release, base)
    known = with_totals(knows(table, release), found.totals, base * UNIT)
    assert found.pairs.feasible(table, weights, known).all()
    if found.totals:
        assert is_wide_enough(table, Criteria.of(2, 1), found.pairs)
        assert are_wide(table, weights, known)


def test_weights_of_a_category_tell_counts() -> None:
    """Released are a*c and b*c. Whoever has a = 0 weighs 10, the others 1,000: totals of b*c tell every cell."""
    table, weights = weighted(TWICE, [10 if a == 0 else 1000 for a, _, _ in TWICE.tolist()])
    release = Release.of([0b101, 0b110])
    assert 0b110 in chosen(table, weights, release, 1).withheld
    known = knows(table, release)
    assert widths(table, weights, with_totals(known, (0b110,), UNIT)).max() == 0
    assert widths(table, weights, with_totals(known, (0b101,), UNIT)).min() == 4
    # rounded to more than all of them weigh, nothing is told
    assert chosen(table, weights, release, 100_000).withheld == ()


def test_nothing_is_shown_without_a_program() -> None:
    table, weights = weighted(TWICE, list(range(1, len(TWICE) + 1)))
    assert chosen(table, weights, RELEASES[2], 10).totals
    found = chosen(table, weights, RELEASES[2], 10, programs=0)
    assert found.totals == ()
    assert found.withheld == RELEASES[2].frontier
    assert len(found.pairs) == 0


def test_a_table_without_at_risk_cells_shows_everything() -> None:
    records = np.repeat(CELLS, 3, axis=0)
    table, weights = weighted(records, list(range(1, len(records) + 1)))
    found = chosen(table, weights, RELEASES[1], 1)
    assert set(found.totals) == {0, *RELEASES[1].frontier}


def test_one_weight_is_refused() -> None:
    table, weights = weighted(CELLS, [7] * len(CELLS))
    with pytest.raises(InputError, match="weight 'w' is the same for every record"):
        WeightRanges.of(table, weights).require_several("w")


def test_forged_pairs_are_refused() -> None:
    """Each in one way: a total below zero, beyond what records can have, another published total, a cell twice."""
    table, weights = weighted(TWICE, [10 + k for k in range(len(TWICE))])
    release = RELEASES[2]
    known = with_totals(knows(table, release), (0b001, 0b010), 50 * UNIT)
    cells = np.array([[0, 0, 0], [1, 1, 0], [0, 1, 0], [1, 0, 0]], np.uint16)
    changes, own = np.array([-1, -1, 1, 1]), weights.totals[table.schema.keys.matching(table.codes, cells)]

    def is_feasible(shifts: npt.NDArray[np.int64], of: Codes = cells, by: npt.NDArray[np.int64] = changes) -> bool:
        pairs = Pairs(Differences(np.array([0, len(of)]), of, by), shifts)
        return bool(pairs.feasible(table, weights, known)[0])

    good = np.array([-20, -20, 20, 20]) * UNIT
    assert is_feasible(good)
    assert not is_feasible(good + np.array([0, 0, 0, 40 * UNIT]))  # another total of a and of b
    assert not is_feasible(np.array([-own[0] - 1, 0, own[0] + 1, 0]))  # below zero
    assert not is_feasible(np.array([0, 0, 10**5, -(10**5)]) * UNIT)  # more than its records can have
    assert not is_feasible(np.array([np.iinfo(np.int64).min, 0, 0, 0]))
    twice = np.concatenate([cells, cells[:1]])
    assert not is_feasible(np.append(good, 0), twice, np.append(changes, 0))
    assert not is_feasible(good, by=np.array([-1, -1, 1, 2]))  # counts that are no feasible table
    beyond = np.array([[2, 0, 0]], np.uint16)
    assert not is_feasible(np.zeros(1, np.int64), beyond, np.zeros(1, np.int64))
    known = replace(known, facts=(Fact(0b011, ((0, (1,)),), None, "a table of a = 1"),))
    assert not is_feasible(good)  # another count of a = 1 and b = 1


def test_totals_go_out_beside_other_facts() -> None:
    """Of a = 1 the counts by b are public: every pair leaves these."""
    table, weights = weighted(TWICE, [10 + k for k in range(len(TWICE))])
    known = Knowledge.of(table, RELEASES[2], NO_ZEROS, [Fact(0b011, ((0, (1,)),), None, "a table of a = 1")])
    found = choose(table, weights, known, Criteria.of(2, 1), Proof((), ()), 10 * UNIT, IN_PROCESS, 10_000)
    assert set(found.totals) == {0, *RELEASES[2].frontier}
    shown = with_totals(known, found.totals, 10 * UNIT)
    assert found.pairs.feasible(table, weights, shown).all()
    assert are_wide(table, weights, shown)


@pytest.mark.parametrize(
    "judged",
    [
        lambda table, known: RiskEvaluator(table, known, Criteria.of(2, 1)),
        lambda table, known: Judge(table, known, Criteria.of(2, 1)),
        lambda table, known: cell_bounds(table, known, table.codes),
        lambda table, known: method_called("shuttle")(table, known, table.codes),
        lambda _, known: known.structure.components,
        lambda _, known: known.structure.cover,
        lambda _, known: known.within(0b011),
        lambda _, known: known | known.counts,
    ],
)
def test_who_judges_counts_alone_refuses_totals(judged: Callable[[Table, Knowledge], object]) -> None:
    table, _ = weighted(CELLS, list(range(1, len(CELLS) + 1)))
    known = with_totals(knows(table, RELEASES[1]), (0b001, 0b011), UNIT)
    with pytest.raises(ReleaseError, match="2 tables of totals of weights are known, and counts alone are judged here"):
        judged(table, known)
    judged(table, known.counts)


def test_what_is_known_of_totals_travels_and_is_checked() -> None:
    table, _ = weighted(CELLS, list(range(1, len(CELLS) + 1)))
    known = with_totals(knows(table, RELEASES[0]), (0, 0b001), UNIT)
    assert pickle.loads(pickle.dumps(known)) == known
    assert known.contains(known.counts)
    assert not known.counts.contains(known)
    with pytest.raises(ReleaseError, match=r"totals of weights are listed of b\*c, whose counts are not released"):
        with_totals(known, (0b110,), UNIT)
    with pytest.raises(InputError, match="rounded to 0 millionths"):
        with_totals(known, (0b001,), 0)


@given(hs.lists(hs.integers(0, 1 << 50), min_size=1), hs.integers(1, 1 << 40))
def test_rounding_is_to_the_nearest_multiple(totals: list[int], base: int) -> None:
    for total, found in zip(totals, rounded(np.array(totals), base).tolist(), strict=True):
        assert found % base == 0
        assert -base < 2 * (found - total) <= base
