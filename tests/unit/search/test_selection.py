"""What is kept of differences that were taken, beside what all of them together say."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from sdc.feasible.differences import Differences
from sdc.search.selection import Chosen, Selection
from tests.profiles import scaled

PLACES, TARGETS = 7, 4
NOTHING = Differences.none(1)


@some.composite
def chosen(draw: some.DrawFn) -> Chosen:
    places = draw(some.sets(some.integers(0, PLACES - 1), min_size=1, max_size=4))
    targets = draw(some.sets(some.integers(0, TARGETS - 1), max_size=3))
    changes = [draw(some.sampled_from((-3, -2, -1, 1, 2, 3))) for _ in targets]
    arrays = (np.array(sorted(of), np.int64) for of in (places, targets))
    return Chosen(NOTHING, *arrays, np.array(changes, np.int64))


def expected(selection: Selection, taken: dict[int, Chosen], always: np.ndarray, free: np.ndarray) -> None:
    hidden, low, high = always | free, np.ones(TARGETS, np.int64), np.zeros(TARGETS, np.int64)
    for one in taken.values():
        hidden[one.places] = True
        np.maximum.at(low, one.targets, -one.changes)
        np.maximum.at(high, one.targets, one.changes)
    assert (selection.hidden == hidden).all()
    assert selection.spent == selection.costs[hidden].sum()
    assert (selection.low == low).all()
    assert (selection.high == high).all()
    assert selection.users(range(PLACES)) == sorted(taken)
    assert {*selection.extra.tolist()} == {*np.flatnonzero(hidden & ~always).tolist()}
    targets = np.arange(TARGETS)
    assert selection.open(targets).tolist() == [t for t in targets if high[t] + min(low[t], 2) < 4]


@settings(max_examples=scaled(400), deadline=None)
@given(data=some.data())
def test_whatever_is_taken_and_dropped(data: some.DataObject) -> None:
    """And what no target needs is dropped at last, but nothing that some target needs."""
    flags = some.lists(some.booleans(), min_size=PLACES, max_size=PLACES).map(np.array)
    always, free = data.draw(flags), data.draw(flags)
    costs = np.array(data.draw(some.lists(some.integers(1, 9), min_size=PLACES, max_size=PLACES)), np.int64)
    base = np.ones(TARGETS, np.int64), np.zeros(TARGETS, np.int64)
    needed, useful = np.full(TARGETS, 4), np.full(TARGETS, 2)
    selection, taken = Selection(always, free, costs, base, needed, useful), dict[int, Chosen]()
    for one in data.draw(some.lists(some.one_of(chosen(), some.integers(0, 9)), max_size=12)):
        if isinstance(one, Chosen):
            new = selection.cost(one.places)
            before = selection.spent
            taken[selection.take(one)] = one
            assert selection.spent == before + new
        elif taken:
            at = sorted(taken)[one % len(taken)]
            assert selection.drop(at) is taken.pop(at)
        expected(selection, taken, always, free)
    were_open = selection.open(np.arange(TARGETS)).tolist()
    selection.shrink()
    kept = {at: taken[at] for at in selection.users(range(PLACES))}
    expected(selection, kept, always, np.zeros(PLACES, np.bool_))
    assert selection.open(np.arange(TARGETS)).tolist() == were_open
    for at in kept:
        assert not selection.drop_spare(at)
