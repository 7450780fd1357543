"""Table servers with many random tables, and simulations on workers."""

from typing import Any

import pytest

from sdc.executor import Executor
from sdc.model.table import Table
from sdc.server.simulation.simulation import SimulationStart, simulated
from tests.integration.server.test_in_part import RULES, require_that_nobody_pins
from tests.integration.server.test_simulation import first, judge, opening, queries, rules
from tests.profiles import scaled

__all__ = ["first", "judge", "opening"]


@pytest.mark.parametrize("chosen", RULES, ids=lambda chosen: chosen[0]["rule"] if chosen else "myopic")
def test_nobody_pins_a_small_count_whatever_is_asked_in_which_order(
    chosen: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory, night: list[int]
) -> None:
    require_that_nobody_pins(chosen, tmp_path_factory, night, scaled(480, fewest=36) // len(RULES))


def test_any_number_of_workers_finds_the_same(czech: Table, opening: SimulationStart, two_workers: Executor) -> None:
    sets = {name: rules(name) for name in ("myopic", "share", "batch")}
    here = simulated(czech, opening, sets, queries("greedy-user", 12), 3, 3)
    there = simulated(czech, opening, sets, queries("greedy-user", 12), 3, 3, two_workers, per_unit=2)
    assert here == there
    assert [len(found) for found in here.values()] == [3, 3, 3]
