"""Hierarchies: levels of an axis, bounds against enumeration of the nested cells, refusals, and what counts."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as some

import sdc
from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError
from sdc.model.release import Release
from sdc.model.schema import Coarser
from sdc.model.table import Table
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from sdc.verify.run_folder import verify

PLACES = {"p1": "north", "p2": "north", "p3": "south"}
LEVELS = {"place": ["region", "town"]}


def frame(counts: list[int]) -> pa.Table:
    """Three towns in two regions, by sex."""
    cells = [(PLACES[town], town, sex) for town, sex in product(PLACES, "fm")]
    columns = {name: [cell[k] for cell in cells] for k, name in enumerate(("region", "town", "sex"))}
    return pa.table({**columns, "count": counts})


def nested_table(counts: list[int]) -> Table:
    return sdc.read_table(frame(counts), hierarchies=LEVELS)


def ranges(table: Table, counts: list[int], release: Release) -> dict[tuple[int, ...], tuple[int, int]]:
    """Smallest and largest count of each nested cell, over all tables on the nested cells that agree."""
    names = table.schema.variables
    cells = [
        (names[0].categories.index(PLACES[t]), names[1].categories.index(t), names[2].categories.index(s))
        for t, s in product(PLACES, "fm")
    ]  # of all variables, levels too

    every = np.indices((min(sum(counts), 7),) * 6).reshape(6, -1).T
    for element in release.frontier:
        keys = [tuple(cell[v] for v in st.members(element)) for cell in cells]
        sums = np.array([[one == other for other in dict.fromkeys(keys)] for one in keys], int)
        every = every[(every @ sums == np.array(counts) @ sums).all(axis=1)]
    ends = zip(every.min(axis=0).tolist(), every.max(axis=0).tolist(), strict=True)
    return {cell[1:]: both for cell, both in zip(cells, ends, strict=True)}


RELEASES = [["region*sex", "town"], ["town", "sex"], ["region*sex", "town*region"], ["town*sex"], ["region", "sex"]]


@given(some.lists(some.integers(0, 2), min_size=6, max_size=6), some.sampled_from(RELEASES))
@settings(max_examples=25)
def test_bounds_are_those_of_the_nested_cells(counts: list[int], names: list[str]) -> None:
    by_town = [a + b for a, b in zip(counts[::2], counts[1::2], strict=True)]
    if not all(by_town) or not sum(counts[::2]) or not sum(counts[1::2]):
        return
    table = nested_table(counts)
    bounds = sdc.cell_bounds(table, sdc.knowledge(table, names))
    expected = ranges(table, counts, Release.of(st.parse(name, table.schema) for name in names))
    assert bounds.exact.all()
    for cell, ends in zip(bounds.cells.tolist(), bounds.outer.tolist(), strict=True):
        assert tuple(ends) == expected[tuple(cell)]


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


def test_a_level_that_is_the_axis_is_refused() -> None:
    same = pa.table({"region": ["n", "s"], "town": ["a", "b"]})
    with pytest.raises(InputError, match="'region' and 'town' are the same partition of the categories of 'town'"):
        sdc.read_table(same, hierarchies=LEVELS)


def test_a_hierarchy_that_is_not_nested_names_its_rows_in_confidence() -> None:
    crossed = pa.table({"region": ["n", "s", "s"], "town": ["a", "a", "b"]})
    with pytest.raises(InputError, match="hierarchy 'place': 1 categories of 'town' have records in several") as info:
        sdc.read_table(crossed, hierarchies=LEVELS)
    assert info.value.detail == "town = a"
    assert "'a'" not in str(info.value)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"place": ["region"]}, "hierarchy 'place' has 1 levels; give two at least, the coarsest first"),
        ({"place": ["region", "city"]}, "hierarchy 'place' names 'city', no variable of the table; it has region"),
        ({"one": ["region", "town"], "two": ["region", "sex"]}, "'region' is in the hierarchy 'one' and again in"),
        ({"place": ["town", "region"]}, "are not nested; recode one of the two, or drop the hierarchy"),
    ],
)
def test_hierarchies_that_do_not_fit(levels: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sdc.read_table(frame([3, 1, 2, 2, 4, 1]), hierarchies=levels)


def test_a_build_with_a_hierarchy_is_verified(tmp_path: Path) -> None:
    rows = [f"{PLACES[t]},{t},{s},{a},{1 + (7 * k) % 5}" for k, (t, s, a) in enumerate(product(PLACES, "fm", "yo"))]
    (tmp_path / "t.csv").write_text("region,town,sex,age,count\n" + "\n".join(rows) + "\n")
    config = {
        "name": "levels",
        "table": {"path": "t.csv", "hierarchies": LEVELS},
        "risk": {"min_width": 2},
        "execution": {"cluster": "in-process"},
        "output": {"folder": str(tmp_path / "runs")},
    }
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    build = open_build(tmp_path / "c.yaml")
    run_all(build, IN_PROCESS)
    assert not build.made.known.zeros.patterns
    assert build.made.table.schema.variables[0].of == Coarser("town", (0, 0, 1))
    assert verify(build.folder.path, lambda line: None).verified
    config["table"]["hierarchies"] = {"place": ["region", "city"]}  # type: ignore[index]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises((ConfigError, InputError), match="names 'city', no variable"):
        run_all(open_build(tmp_path / "c.yaml"), IN_PROCESS)
