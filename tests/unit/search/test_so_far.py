"""Growths that are kept after each question that enlarged them: who is killed goes on, and comes to the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.critical_width import critical_widths
from sdc.risk.effort import Budget, Depth
from sdc.risk.refutation import Refutations
from sdc.risk.verdict import Verdict
from sdc.search.ordered import OrderedRelease, OrderedSearch
from sdc.search.so_far import SoFar
from sdc.search.wishes import Wishes
from sdc.storage.kept_growth import KeptGrowth
from sdc.storage.kept_parts import KeptParts
from tests.strategies import czech, inquiry_of, scattered, schema_of
from tests.unit.search.test_ordered import FEW_NODES


class Told:
    """Keeps all, and was kept as told."""

    def __init__(self, told: SoFar | None = None) -> None:
        self.told, self.written = told, list[SoFar]()

    def read(self) -> SoFar | None:
        return self.told

    def write(self, so_far: SoFar) -> None:
        self.written.append(so_far)


WISHES = {"breadth 2": Wishes(), "breadth 1": Wishes(breadth=1), "required": Wishes(require=(0b11,))}


def grown(table: Table, keeper: Told | KeptGrowth, wishes: Wishes) -> OrderedRelease:
    inquiry = replace(inquiry_of(table, 3, budget=FEW_NODES), refutations=Refutations())
    return OrderedSearch(inquiry, critical_widths(table), wishes=wishes, keeper=keeper).run()


def same(one: OrderedRelease, other: OrderedRelease) -> bool:
    """To the last difference of the proof."""
    first, second = (
        [(part.variables, part.differences.start, part.differences.cells, part.differences.changes) for part in parts]
        for parts in (one.proof.parts, other.proof.parts)
    )
    np.testing.assert_equal(first, second)
    facts = ((found.release, found.steps, found.unasked, found.assessment, found.refutations) for found in (one, other))
    return next(facts) == next(facts)


@pytest.mark.parametrize("wishes", WISHES)
@pytest.mark.parametrize("seed", [1, 2])
def test_from_whatever_was_kept_it_comes_to_the_same(wishes: str, seed: int) -> None:
    table, keeper = scattered(seed), Told()
    whole = grown(table, keeper, WISHES[wishes])
    assert same(whole, grown(table, Told(), WISHES[wishes]))
    assert len(keeper.written) > 2
    for so_far in keeper.written:
        again = Told(so_far)
        assert same(whole, grown(table, again, WISHES[wishes]))
        assert len(again.written) == len(keeper.written) - keeper.written.index(so_far) - 1


def test_what_does_not_hold_proves_nothing() -> None:
    """A difference that is feasible no more is left out, and what is not shown without it is asked again."""
    table, keeper = scattered(), Told()
    whole = grown(table, keeper, Wishes())
    last, again = keeper.written[-1], list[int]()
    for forged in (
        replace(last, evidence=()),
        replace(last, evidence=tuple((v, replace(d, changes=-d.changes)) for v, d in last.evidence)),
        replace(last, steps=(*last.steps, replace(last.steps[-1], added=(0b11111,)))),
    ):
        keeper = Told(forged)
        found = grown(table, keeper, Wishes())
        inquiry = inquiry_of(table, 3)
        inquiry.learn(found.proof, found.release)
        assert inquiry.ask(found.release, Depth.REFUTE).verdict is Verdict.SAFE
        again.append(len(keeper.written))
    assert again[-1] > 1
    assert same(found, whole)


def test_what_began_with_another_release_is_not_taken_up() -> None:
    """As where chains ended by the clock, were killed, and came to another graph when they went on."""
    table, keeper = scattered(), Told()
    grown(table, keeper, Wishes())
    (other, again), start = (Told(so_far) for so_far in (None, keeper.written[-1])), Release.of([0b11, 0b1100])
    found = []
    for told in (other, again):
        inquiry = inquiry_of(table, 3, budget=FEW_NODES)
        search = OrderedSearch(inquiry, critical_widths(table), keeper=told)
        found.append(search.extended(inquiry.ask(start)))
    assert same(*found)
    assert len(again.written) == len(other.written) > 0
    assert {so_far.start for so_far in again.written} == {start}


def refuting(keeper: Told | KeptGrowth) -> tuple[Table, OrderedRelease]:
    """288 cells, too many for exact methods, and a growth that bounds refute now and then."""
    rng, sizes = np.random.default_rng(1), [3, 3, 2, 2, 2, 2, 2]
    counts = rng.multinomial(8 * 288, rng.dirichlet(np.ones(288)))
    table = Table.of(schema_of(sizes), np.array(list(np.ndindex(*sizes))), counts)
    inquiry = replace(inquiry_of(table, 8, budget=Budget(0.02, 5)), refutations=Refutations())
    return table, OrderedSearch(inquiry, critical_widths(table), keeper=keeper).run()


def test_what_is_kept_comes_back_from_its_file_with_what_was_refuted(tmp_path: Path) -> None:
    keeper = Told()
    table, whole = refuting(keeper)
    kept = [len(so_far.refutations) for so_far in keeper.written]
    assert kept == sorted(kept)
    assert 0 < kept[0] < kept[-1] == len(whole.refutations)
    for number, so_far in enumerate(keeper.written):
        file = KeptGrowth(KeptParts(tmp_path / str(number), "of this search"), "ordered", table.schema)
        assert file.read() is None
        file.write(so_far)
        assert same(whole, refuting(Told(file.read()))[1])
    assert file.parts.folder.stat().st_mode & 0o77 == 0


def test_a_refutation_that_does_not_hold_is_not_gone_on_from() -> None:
    keeper = Told()
    _, whole = refuting(keeper)
    last = keeper.written[-1]
    first, *others = last.refutations
    again = Told(replace(last, refutations=(replace(first, bounds=(0, first.bounds[1] - 1)), *others)))
    assert same(whole, refuting(again)[1])
    assert len(again.written) == len(keeper.written)


def test_small_tables_are_not_kept() -> None:
    keeper = Told()
    assert grown(czech(), keeper, Wishes()).judgement.verdict is Verdict.SAFE
    assert keeper.written == []


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"nothing"])
def test_a_damaged_file_is_none(content: bytes, tmp_path: Path) -> None:
    table, keeper = scattered(), Told()
    grown(table, keeper, Wishes())
    kept = KeptGrowth(KeptParts(tmp_path, "of this search"), "ordered", table.schema)
    kept.write(keeper.written[0])
    (file,) = kept.parts.folder.glob("*.npz")
    file.write_bytes(content)
    assert kept.read() is None
