"""Searches that run side by side in worker processes, and what they say of themselves: as one process finds it."""

import re
import time
from dataclasses import replace

import pytest

from sdc.events import STEP, EventText, heard
from sdc.executor import IN_PROCESS, Executor
from sdc.risk.critical_width import critical_widths
from sdc.risk.verdict import Policy
from tests.strategies import knows, scattered, shown_by
from tests.unit.search.test_best import asked_by
from tests.wide import wide_table


@pytest.mark.parametrize("policy", Policy)
def test_side_by_side_is_found_what_is_found_in_turn(policy: Policy, two_workers: Executor) -> None:
    table, said = scattered(), []
    search = asked_by(IN_PROCESS, table, policy)
    prefix, ordered, annealed = search.prefix(), search.run("ordered"), search.run("decomposable")
    in_turn = search.best_of(prefix, annealed, ordered, search.extended(annealed))
    listened = replace(search, ordered=replace(search.ordered, on_step=said.append))
    for found in (listened.run("best"), asked_by(two_workers, table, policy).run("best")):
        assert (found.release, found.steps, found.reason) == (in_turn.release, in_turn.steps, in_turn.reason)
        assert found.assessment == in_turn.assessment
        shown = [
            shown_by(table, knows(table, found.release), table.codes, proof) for proof in (found.proof, in_turn.proof)
        ]
        assert (shown[0] == shown[1]).all()
    assert prefix is not None
    assert said == [*prefix.steps, *ordered.steps, *search.extended(annealed).steps]


def test_a_growth_beside_another_says_how_far_it_is(two_workers: Executor) -> None:
    """What is left at most, and what the last questions gained, while workers are at it; not of each question."""
    told = list[str]()
    with heard(EventText(told.append, STEP)):
        asked_by(two_workers, scattered(), Policy.REFUSE).run("best")
        deadline = time.monotonic() + 300
        while not told and time.monotonic() < deadline:
            time.sleep(0.05)  # events take their own way
    assert told
    for text in told:
        assert re.match(r"search: (growth|extension), \d+ asked, .*; at most \d+ questions? left, .* added \d+", text)


def test_the_same_floor_is_chosen_and_the_same_widths_are_listed(two_workers: Executor) -> None:
    table = wide_table(11, 4_000, 5)
    alone, both = (
        critical_widths(table, floor=2, most=200, executor=executor) for executor in (IN_PROCESS, two_workers)
    )
    assert (both.floor, both.visited) == (alone.floor, alone.visited)
    assert both.sub_tables.tolist() == alone.sub_tables.tolist()
    assert both.widths.tolist() == alone.widths.tolist()
