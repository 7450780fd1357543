"""Hierarchies: bounds with what they imply against enumeration of the nested cells, refusals, and what counts."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as some

import sdc
from sdc.build.build import open_build
from sdc.build.stages import run_all
from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError
from sdc.model.hierarchy import independent
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.utility.measures import Weights, weighted_sub_tables
from sdc.verify.run_folder import verify

PLACES = {"p1": "north", "p2": "north", "p3": "south"}
LEVELS = {"place": ["region", "town"]}


def nested_table(counts: list[int]) -> Table:
    """Three towns in two regions, by sex."""
    cells = [(PLACES[town], town, sex) for town, sex in product(PLACES, "fm")]
    columns = {name: [cell[k] for cell in cells] for k, name in enumerate(("region", "town", "sex"))}
    return sdc.read_table(pa.table({**columns, "count": counts}))


def ranges(table: Table, counts: list[int], release: Release) -> dict[tuple[int, ...], tuple[int, int]]:
    """Smallest and largest count of each nested cell, over all tables on the nested cells that agree."""
    names = table.schema.variables
    cells = [
        (names[0].categories.index(PLACES[t]), names[1].categories.index(t), names[2].categories.index(s))
        for t, s in product(PLACES, "fm")
    ]

    def told(values: tuple[int, ...]) -> dict[tuple[int, tuple[int, ...]], int]:
        sums: dict[tuple[int, tuple[int, ...]], int] = {}
        for element in release.frontier:
            for cell, value in zip(cells, values, strict=True):
                key = element, tuple(cell[v] for v in st.members(element))
                sums[key] = sums.get(key, 0) + value
        return sums

    asked, total = told(tuple(counts)), sum(counts)
    agreeing = [values for values in product(range(min(total, 7)), repeat=6) if told(values) == asked]
    return {cell: (min(v[k] for v in agreeing), max(v[k] for v in agreeing)) for k, cell in enumerate(cells)}


RELEASES = [["region*sex", "town"], ["town", "sex"], ["region*sex", "town*region"], ["town*sex"], ["region", "sex"]]


@given(some.lists(some.integers(0, 2), min_size=6, max_size=6), some.sampled_from(RELEASES))
@settings(max_examples=25)
def test_bounds_are_those_of_the_nested_cells(counts: list[int], names: list[str]) -> None:
    by_town = [a + b for a, b in zip(counts[::2], counts[1::2], strict=True)]
    if not all(by_town) or not sum(counts[::2]) or not sum(counts[1::2]):
        return
    table = nested_table(counts)
    bounds = sdc.cell_bounds(table, sdc.knowledge(table, names, hierarchies=LEVELS))
    expected = ranges(table, counts, Release.of(st.parse(name, table.schema) for name in names))
    assert bounds.exact.all()
    for cell, ends in zip(bounds.cells.tolist(), bounds.outer.tolist(), strict=True):
        assert tuple(ends) == expected[tuple(cell)]


def test_totals_are_consistent_and_zeros_implied() -> None:
    table = nested_table([3, 1, 2, 2, 4, 1])
    zeros = sdc.knowledge(table, hierarchies=LEVELS).zeros
    assert zeros.labels(table.schema) == ["region = north and town = p3", "region = south and town = p1 or p2"]
    fine, coarse = table.marginal(0b110), table.marginal(0b101)
    sums: dict[tuple[str, int], int] = {}
    for (town, sex), count in zip(fine.codes.tolist(), fine.counts.tolist(), strict=True):
        key = PLACES[fine.schema.variables[0].categories[town]], sex
        sums[key] = sums.get(key, 0) + count
    assert sums == {
        (coarse.schema.variables[0].categories[region], sex): count
        for (region, sex), count in zip(coarse.codes.tolist(), coarse.counts.tolist(), strict=True)
    }
    assert sdc.knowledge(table).zeros.patterns == ()


def test_a_hierarchy_that_is_not_nested_names_its_rows_in_confidence() -> None:
    frame = pa.table({"region": ["n", "s", "s"], "town": ["a", "a", "b"]})
    with pytest.raises(InputError, match="hierarchy 'place': 1 categories of 'town' have records in several") as info:
        sdc.knowledge(sdc.read_table(frame), hierarchies=LEVELS)
    assert info.value.detail == "town = a"
    assert "'a'" not in str(info.value)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"place": ["region"]}, "hierarchy 'place' has 1 levels; give two at least, the coarsest first"),
        ({"place": ["region", "city"]}, "hierarchy 'place' names 'city', no variable of the table; it has region"),
        (
            {"one": ["region", "town"], "two": ["region", "sex"]},
            "'region' is in the hierarchy 'one' and again in 'two'",
        ),
        ({"place": ["town", "region"]}, "are not nested; recode one of the two, or drop the hierarchy"),
    ],
)
def test_hierarchies_that_do_not_fit(levels: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sdc.knowledge(nested_table([3, 1, 2, 2, 4, 1]), hierarchies=levels)


releases = some.lists(some.integers(1, 31), min_size=1, max_size=5).map(Release.of)


@given(releases)
def test_two_levels_count_once(release: Release) -> None:
    levels = (0, 2, 3)
    counted = {t for t in release if t and all(not (st.has(t, u) and st.has(t, v)) for u, v in combinations(levels, 2))}
    assert {t for t in independent(release, [levels]) if t} == counted
    weights = Weights(Weights.equal(5).variables, hierarchies=(levels,))
    assert weighted_sub_tables(release, weights) == len(counted)


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
    assert len(build.known.zeros.patterns) == 2
    assert verify(build.folder.path, lambda line: None).verified
    config["table"]["hierarchies"] = {"place": ["region", "city"]}  # type: ignore[index]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises((ConfigError, InputError), match="names 'city', no variable"):
        run_all(open_build(tmp_path / "c.yaml"), IN_PROCESS)
