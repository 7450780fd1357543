"""Hierarchies: levels of an axis, bounds against enumeration of the nested cells, refusals, and what counts."""

from itertools import product

import pyarrow as pa
import pytest

import sdc
from sdc.model.errors import InputError
from sdc.model.schema import Coarser
from sdc.model.table import Table

PLACES = {"p1": "north", "p2": "north", "p3": "south"}
LEVELS = {"place": ["region", "town"]}


def frame(counts: list[int]) -> pa.Table:
    cells = [(PLACES[town], town, sex) for town, sex in product(PLACES, "fm")]
    columns = {name: [cell[k] for cell in cells] for k, name in enumerate(("region", "town", "sex"))}
    return pa.table({**columns, "count": counts})


def nested_table(counts: list[int]) -> Table:
    return sdc.read_table(frame(counts), hierarchies=LEVELS)


def test_a_hierarchy_is_an_axis_with_levels() -> None:
    table = nested_table([3, 1, 2, 2, 4, 1])
    assert [variable.of for variable in table.schema.variables] == [Coarser("town", (0, 0, 1)), None, None]
    assert table.codes.shape == (6, 2)
    assert sdc.knowledge(table).zeros.patterns == ()
    fine, coarse = table.marginal(0b111), table.marginal(0b101)
    sums: dict[tuple[str, int], int] = {}
    for (town, sex), count in zip(fine.codes.tolist(), fine.counts.tolist(), strict=True):
        key = PLACES[fine.schema.variables[1].categories[town]], sex
        sums[key] = sums.get(key, 0) + count
    assert sums == {
        (coarse.schema.variables[0].categories[region], sex): count
        for (region, sex), count in zip(coarse.codes.tolist(), coarse.counts.tolist(), strict=True)
    }


def test_categories_that_nobody_has_are_in_no_group() -> None:
    listed = {"town": ["p0", "p1", "p2", "p3"], "region": ["north", "west", "south"], "sex": ["f", "x", "m"]}
    table = sdc.read_table(frame([3, 1, 2, 2, 4, 1]), hierarchies=LEVELS, categories=listed)
    found = [variable.categories for variable in table.schema.variables]
    assert found == [("north", "south"), ("p1", "p2", "p3"), ("f", "x", "m")]


def test_a_level_of_one_group_is_none() -> None:
    table = sdc.read_table(pa.table({"land": ["a", "a"], "town": ["b", "c"]}), hierarchies={"place": ["land", "town"]})
    assert table.schema.levels.is_flat


def test_a_hierarchy_that_is_not_nested_names_its_rows_in_confidence() -> None:
    crossed = pa.table({"region": ["n", "s", "s"], "town": ["a", "a", "b"]})
    with pytest.raises(
        InputError, match="hierarchy 'place': 1 of the categories of 'town' have records in several"
    ) as info:
        sdc.read_table(crossed, hierarchies=LEVELS)
    assert info.value.detail == "town = a"
    assert "'a'" not in str(info.value)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"place": ["region"]}, "hierarchy 'place' has 1 level; give at least two, the coarsest first"),
        ({"place": ["region", "city"]}, "hierarchy 'place' names 'city', which is not a .*; it has region"),
        ({"one": ["region", "town"], "two": ["region", "sex"]}, "'region' is in .* 'one' and again in 'two'.*zeros"),
        ({"place": ["town", "region"]}, "are not nested; recode one of the two, or drop the hierarchy"),
    ],
)
def test_hierarchies_that_do_not_fit(levels: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sdc.read_table(frame([3, 1, 2, 2, 4, 1]), hierarchies=levels)
