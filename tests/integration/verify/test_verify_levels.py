"""Certificates of tables with levels: the honest one is accepted, and none that says of levels what is not so."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest

from sdc.feasible.differences import Differences
from sdc.model import subtable as st
from sdc.model.graph import Decomposition
from sdc.model.release import Release
from sdc.model.schema import Coarser, Schema, Variable, with_refinements
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.storage.known import read_known
from sdc.storage.parquet import read_columns, read_written_table, write_columns, write_table
from sdc.verify.run_folder import Verification, verify
from tests import levels
from tests.integration.verify import signing
from tests.integration.verify.forging import (
    NOT_FEASIBLE,
    Corruption,
    Corruptions,
    Honest,
    adding,
    adding_difference,
    alone,
    before,
    certified,
    component_with,
    copy_of,
    differences_with,
    edited,
    forged,
    json_with,
    made_once,
    one_change_more,
    proven,
    published,
    record,
    rejected,
    replacing,
)
from tests.integration.verify.test_verify_random import sharp_of
from tests.levels import Case

AREA = Variable("area", ("a", "b", "c", "d"))
SEX, AGE = Variable("sex", ("f", "m")), Variable("age", ("young", "old"))
REGION = Variable("region", ("east", "west"), Coarser("area", (0, 0, 1, 1)))
ZONE = Variable("zone", ("north", "south"), Coarser("place", (0, 0, 0, 1, 1)))
SHORE = Variable("shore", ("coast", "inland"), Coarser("place", (0, 0, 1, 1, 1)))
PLACE = Variable("place", ("v", "w", "x", "y", "z"))

CHAIN = Schema((REGION, AREA, SEX, AGE))
CYCLE = Schema((REGION, AREA, SEX, Variable("work", ("no", "yes")), AGE))
OVERLAPPING = with_refinements([PLACE, ZONE, SHORE, SEX, AGE])
"""zone and shore, and their common refinement: v and w, x, y and z."""


def release(schema: Schema, *labels: str) -> Release:
    return Release.of(st.parse(label, schema) for label in labels)


def filled(schema: Schema, seed: int = 0) -> Table:
    """Three records in four are in some cell of their own, and each cell of the full table may have some."""
    sizes = schema.keys.sizes
    cells = np.array(list(product(*map(range, sizes))))
    return Table.of(schema, cells, np.random.default_rng(seed).integers(0, 4, len(cells)))


PAIR = release(CHAIN, "area*sex", "region*sex*age")


@pytest.mark.parametrize(
    ("schema", "labels"),
    [
        (CHAIN, ("area*sex", "region*sex*age")),
        (CHAIN, ("area*sex", "region*age", "sex*age")),
        (CHAIN, ("region*sex", "region*age")),
        (CHAIN, ("area", "sex*age")),
        (OVERLAPPING, ("zone*sex", "shore*age", "sex*age")),
        (OVERLAPPING, ("sex*zone & shore", "zone*age")),
        (OVERLAPPING, ("place*sex", "zone*age", "shore*age")),
    ],
)
def test_a_release_of_levels_is_accepted(schema: Schema, labels: tuple[str, ...], tmp_path: Path) -> None:
    """And every sub-table is published by the variables that tell its others."""
    table, public = filled(schema), release(schema, *labels)
    bounds, certificate = proven(table, public, 3)
    run = forged(tmp_path / "run", table, certificate, bounds, undecided="outer")
    certified = int((bounds.inner_width >= 3).sum())
    assert verify(run) == Verification(len(bounds), certified, certificate.proof.differences, (), ANY, ANY)
    assert certified
    published(run, public)
    assert [failure for failure in verify(run).failures if "refuted cell" not in failure] == []
    resources = json.loads((run / "release" / "datapackage.json").read_text())["resources"]
    assert {"*".join(r["sub_table"]) for r in resources if "sub_table" in r} == {*labels}
    last = r"001_.*\.csv is not the exact marginal of the table"
    rejected(run, replacing("release/001_*.csv", r"\s*\Z", "1\n"), last)  # ten times as many in the last cell, and one


def cycle_run(folder: Path) -> Path:
    """The certificate has one component with differences."""
    table, public = filled(CYCLE), release(CYCLE, "area*sex", "area*work", "region*age", "sex*age", "work*age")
    bounds, certificate = proven(table, public, 2)
    (part,) = certificate.proof.parts
    assert len(part.differences)
    return forged(folder, table, certificate, bounds, undecided="outer")


def chain_run(folder: Path) -> Path:
    """Components that are glued at region*sex, which both have."""
    bounds, certificate = proven(filled(CHAIN), PAIR, 2)
    assert [st.label(part.variables, CHAIN) for part in certificate.proof.parts] == ["area*sex", "region*sex*age"]
    return forged(folder, filled(CHAIN), certificate, bounds, undecided="outer")


def covered_run(folder: Path) -> Path:
    """One component, whose cover alone proves what it does: area*sex and region*sex*age, which share region*sex."""
    bounds, _ = proven(filled(CHAIN), PAIR, 2)
    cliques = tuple(st.parse(label, CHAIN) for label in ("area*sex", "region*sex*age"))
    certificate = certified(filled(CHAIN), PAIR, alone(filled(CHAIN), Decomposition(cliques, (0b101,))), 2)
    return forged(folder, filled(CHAIN), certificate, bounds, undecided="outer")


HONEST = {"cycle": cycle_run, "chain": chain_run, "covered": covered_run}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Honest:
    return made_once(tmp_path_factory, HONEST)


@pytest.mark.parametrize("name", HONEST)
def test_the_honest_one_is_accepted(name: str, honest: Honest) -> None:
    found = verify(honest(name))
    assert found.failures == ()
    assert found.certified_cells


def schema_with(change: Callable[[list[Any]], list[Any]]) -> Corruption:
    return edited("table/schema.json", lambda content: content.update(variables=change(content["variables"])))


def level_with(name: str, **changes: Any) -> Corruption:
    return schema_with(lambda variables: [v | changes if v["name"] == name else v for v in variables])


def level_more(name: str, categories: str, *groups: int) -> Corruption:
    return schema_with(lambda v: [*v, {"name": name, "categories": [*categories], **of_area(*groups)}])


def of_schema(schema: Schema) -> Corruption:
    def corrupt(run: Path) -> None:
        table = read_written_table(run / "table")
        write_table(Table(schema, table.codes, table.counts), run / "table")

    return corrupt


def of_area(*groups: int) -> dict[str, Any]:
    return {"of": {"axis": "area", "groups": list(groups)}}


def exchanging(one: int, other: int) -> Corruption:
    """Two records that differ in these areas and in their age alone have each other's age."""

    def difference(table: Table) -> Differences:
        cells = set(map(tuple, table.codes.tolist()))
        pairs = (((one, *rest, 0), (other, *rest, 1)) for rest in product(range(2), repeat=2))
        first, second = next(pair for pair in pairs if {*pair} <= cells)
        moved = np.array([first, second, (*first[:3], 1), (*second[:3], 0)], np.uint16)
        return Differences(np.array([0, 4]), moved, np.array([-1, -1, 1, 1]))

    return lambda run: adding_difference(difference(read_written_table(run / "table")))(run)


def column_of_a_level(run: Path) -> None:
    part = next((run / "table").glob("part-*.parquet"))
    columns, _ = read_columns(part)
    write_columns(part, {"region": columns["area"], **columns})


def pairs(*labels: str) -> list[list[str]]:
    return [label.split("*") for label in labels]


def cover_of(cliques: str, separator: str) -> Corruption:
    found = {"cliques": pairs(*cliques.split()), "separators": pairs(*separator.split())}
    return component_with(0, cover=found)


def glued_at(separator: str) -> Corruption:
    return json_with("assessment/certificate.json", separators=pairs(separator))


OTHER = Schema((replace(REGION, of=Coarser("area", (0, 1, 1, 1))), *CYCLE.variables[1:]))
WITHOUT = Schema(CYCLE.variables[1:])
DIGEST, NO_PARTITION = r"its digest is \w+, not", "is not a partition of an axis"
TWICE = "two levels of 'area' are the same, or their join is not a level"
SHARES = r"region\*sex\*age shares region\*sex with earlier ones, not "
CORRUPTED: dict[str, Corruptions] = {
    "cycle": {
        "a wrong group": (level_with("region", **of_area(0, 1, 1, 1)), DIGEST),
        "a wrong group, and its digest": (of_schema(OTHER), "the certificate is of another run: its table is"),
        "groups by other names": (level_with("region", categories=["west", "east"]), DIGEST),
        "a level missing": (schema_with(lambda variables: variables[1:]), DIGEST),
        "a level missing, and its digest": (of_schema(WITHOUT), "unknown variable 'region', the table has area, sex,"),
        "a group unused": (level_with("region", **of_area(0, 0, 0, 0)), f"the level 'region' {NO_PARTITION}"),
        "a group that is none": (level_with("region", **of_area(0, 0, 1, 2)), NO_PARTITION),
        "a group less": (level_with("region", **of_area(0, 0, 1)), NO_PARTITION),
        "a level of nothing": (level_with("region", of={"axis": "town", "groups": [0, 0, 1, 1]}), NO_PARTITION),
        "a level of itself": (level_with("region", of={"axis": "region", "groups": [0, 1]}), NO_PARTITION),
        "an axis that is a level": (level_with("sex", of={"axis": "age", "groups": [0, 1]}), "columns are not the var"),
        "a level twice": (schema_with(lambda variables: [*variables, variables[0] | {"name": "again"}]), TWICE),
        "levels that overlap": (level_more("odd", "yn", 0, 1, 1, 1), TWICE),
        "a level that is the axis": (level_more("own", "abcd", 0, 1, 2, 3), "two levels of 'area' are the same"),
        "a column of a level": (column_of_a_level, "columns are not the variables"),
        "a change": (differences_with(one_change_more), f"1 of {NOT_FEASIBLE}"),
        "a difference between regions": (exchanging(0, 2), f"1 of {NOT_FEASIBLE} .*a released marginal that changes"),
        "a component less a level": (
            component_with(0, variables=["region", "sex", "work", "age"]),
            "corrupt|the components do not have every variable",
        ),
        "less in the search": (
            json_with("search/search.json", frontier=pairs("region*sex", "area*work", "sex*age", "work*age")),
            r"is not search/search\.json: it adds area\*sex and adds region\*age;",
        ),
    },
    "chain": {
        "glued at a finer level": (glued_at("area*sex"), rf"the component {SHARES}area\*sex"),
        "glued at less": (glued_at("sex"), f"the component {SHARES}sex"),
    },
    "covered": {
        "a clique that lacks the finer level": (
            cover_of("region*sex region*sex*age", "region*sex"),
            r"the released area\*sex is within no clique",
        ),
        "a separator at a finer level": (
            cover_of("area*sex region*sex*age", "area*sex"),
            rf"the clique {SHARES}area\*sex",
        ),
        "a separator less a level": (cover_of("area*sex region*sex*age", "sex"), f"the clique {SHARES}sex"),
        "levels in a cycle": (
            cover_of("area*sex area*age region*sex*age", "area region*sex*age"),
            r"shares region\*sex\*age with earlier ones, which is within none of them",
        ),
    },
}


@pytest.mark.parametrize(("build", "name"), [(build, name) for build, rows in CORRUPTED.items() for name in rows])
def test_whatever_is_corrupt_is_rejected(build: str, name: str, honest: Honest, tmp_path: Path) -> None:
    found = rejected(copy_of(honest(build), tmp_path), *CORRUPTED[build][name])
    assert build == "cycle" or found.certified_cells == 0


ANOTHER_WORD: dict[str, tuple[str, Corruption]] = {
    "a difference within a region": ("cycle", exchanging(0, 1)),
    "a component with its levels": ("cycle", component_with(0, variables=["age", "work", "sex", "region", "area"])),
    "a level that another one tells": (
        "cycle",
        json_with(
            "search/search.json",
            frontier=pairs("region*sex*area", "region*area*work", "region*age", "sex*age", "work*age"),
        ),
    ),
    "a clique with its levels": ("covered", cover_of("region*area*sex region*sex*age", "region*sex")),
}


@pytest.mark.parametrize("name", ANOTHER_WORD)
def test_what_says_the_same_is_accepted(name: str, honest: Honest, tmp_path: Path) -> None:
    build, change = ANOTHER_WORD[name]
    run = copy_of(honest(build), tmp_path)
    change(run)
    record(run)
    # one more feasible table may show more than is claimed
    assert [f for f in verify(run).failures if "claims a narrower" not in f] == []


def test_levels_that_overlap_apart_prove_nothing(tmp_path: Path) -> None:
    """Of north, south and coast, inland there is no south coast: x and y are told alone, and with them v.

             north  south
    coast    v      -
    inland   x      y
    """
    place = Variable("place", ("v", "x", "y"))
    zone = Variable("zone", ("north", "south"), Coarser("place", (0, 0, 1)))
    shore = Variable("shore", ("coast", "inland"), Coarser("place", (0, 1, 1)))
    table = Table.of(Schema((place, zone, shore)), np.array([[0], [1], [2]]), np.array([2, 2, 2]))
    case = Case(table, public := (0b010, 0b100), NO_ZEROS, levels.agreeing(table, public))
    assert len(case.tables) == 1
    certificate = certified(table, case.known.release, alone(table, Decomposition(public, (0,))))
    run = forged(tmp_path / "run", table, certificate, sharp_of(case), undecided="outer")
    assert verify(run).failures == ("the levels zone and shore of place are within no clique",)
    assert verify(run).certified_cells == 0
    zone_part, shore_part, place_part = (
        {"variables": [v], "cover": None, "differences": 0} for v in ("zone", "shore", "place")
    )
    for parts, words in (
        ([zone_part, shore_part], "the components do not have every variable"),
        ([zone_part, shore_part, place_part], r"the component place shares zone\*shore with earlier ones, "),
    ):
        apart = json_with("assessment/certificate.json", components=parts, separators=[[]] * (len(parts) - 1))
        assert rejected(run, apart, words).certified_cells == 0


GROUPED = Schema((Variable("area", ("a", "b", "c")), Variable("region", ("east", "west"), Coarser("area", (0, 0, 1)))))


@pytest.mark.parametrize(("cell", "low"), [((0, 0), 0), ((2, 0), 2)])
def test_a_cell_that_is_not_alone_in_its_group_may_have_no_record(
    cell: tuple[int, int], low: int, tmp_path: Path
) -> None:
    """Only the group is released: of two areas either may have all of its records, one area alone has them."""
    schema = Schema((*GROUPED.variables, SEX))
    table, public = Table.of(schema, np.array([cell, (1, 1)]), np.array([2, 5])), release(schema, "region*sex")
    bounds, _ = proven(table, public)
    assert bounds.inner.tolist() == [[low, 2]]
    certificate = certified(table, public, alone(table, Decomposition((0b110,), ())))
    run = forged(tmp_path / "run", table, certificate, bounds)
    assert verify(run).failures == ()
    rejected(run, adding("inner_lower", 1 if low == 0 else -1), "claims a (narrower|wider) inner interval")


@pytest.mark.parametrize(("threshold", "above"), [(0.4, 3), (0.6, 1)])
def test_what_is_likely_where_a_group_has_several_categories(threshold: float, above: int, tmp_path: Path) -> None:
    """Each of two records in the east is in a or b by the toss of a coin, and all of the west are in c."""
    table = Table.of(GROUPED, np.array([[0], [1], [2]]), np.array([1, 1, 2]))
    bounds, certificate = proven(table, release(GROUPED, "region"))
    run = forged(tmp_path / "run", table, certificate, bounds)
    limit = {"law": "released", "threshold": threshold, "max_above": None, "max_probability": None}
    edited("manifest.json", lambda content: content["config"]["risk"].update(posterior=limit))(run)
    found = verify(run)
    assert found.failures == ()
    assert f"{above} of 3 true counts have a probability above {threshold}" in found.notes


def test_a_structural_zero_of_a_level(tmp_path: Path) -> None:
    """Nobody in the east is old: a difference that moves such a record is none, though each area's is released."""
    zeros, whole = StructuralZeros((((0, (0,)), (3, (1,))),)), filled(CHAIN)
    kept = ~zeros.contains(whole.codes, CHAIN)
    table, public = Table.of(CHAIN, whole.codes[kept], whole.counts[kept]), release(CHAIN, "area*sex", "sex*age")
    bounds, certificate = proven(table, public, 2, zeros)
    run = forged(tmp_path / "run", table, certificate, bounds, undecided="outer")
    assert verify(run).failures == ()
    everywhere, certificate = proven(table, public, 2)
    assert (everywhere.inner_width > bounds.inner_width).any()
    certificate = replace(certificate, known=before(table, zeros))
    found = verify(forged(tmp_path / "other", table, certificate, everywhere, undecided="outer"))
    assert [f for f in found.failures if "the structural zero region = east and age = old is within no" in f]


def built(folder: Path, rows: list[str], **sections: Any) -> Path:
    (folder / "records.csv").write_text("\n".join(rows) + "\n")
    return signing.built(folder, **sections)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_build_with_a_hierarchy_is_verified(weighted: bool, tmp_path: Path) -> None:
    """Nobody in the east is old, which is known; counts, and where records have weights totals, are published."""
    rng = np.random.default_rng(1)
    areas, sexes, ages = (rng.choice(list(values), 600) for values in ("abcd", "fm", "yo"))
    rows = [
        f"{'east' if area in 'ab' else 'west'},{area},{sex},{'y' if area in 'ab' else age},{weight}"
        for area, sex, age, weight in zip(areas, sexes, ages, rng.integers(1, 40, 600), strict=True)
    ]
    rows += [f"west,e,{sex},{age},{weight}" for sex, age, weight in ("fo4", "fo7", "mo1", "my3", "my2", "my2")]
    (tmp_path / "zeros.yaml").write_text("- {region: east, age: o}\n")
    table = {
        "path": "records.csv",
        "variables": ["region", "area", "sex", "age"],
        "hierarchies": {"place": ["region", "area"]},
        "structural_zeros": "zeros.yaml",
    } | ({"weight": "w"} if weighted else {})
    publication = {"formats": ["csv", "parquet", "px"], "zeros": True, "totals": True, "children": ["region"]}
    more = (
        {"weighted": {"round": 100}, "publication": {"formats": ["csv"]}} if weighted else {"publication": publication}
    )
    risk = {"min_width": 2, "accept_undecided": True}
    run = built(tmp_path, ["region,area,sex,age,w", *rows], table=table, risk=risk, **more)
    found = verify(run)
    assert found.failures == ()
    assert found.certified_cells
    table_of_run = read_written_table(run / "table")
    assert table_of_run.schema.variables[0].of == Coarser("area", (0, 0, 1, 1, 1))
    assert read_known(run / "table", table_of_run).zeros != NO_ZEROS


def test_a_package_that_says_otherwise_of_levels_is_rejected(tmp_path: Path) -> None:
    """A town that is said to be in another region."""
    towns = product("abcd", "fm")
    rows = [f"{'n' if town < 'c' else 's'},{town},{sex},{9 + k % 5}" for k, (town, sex) in enumerate(towns)]
    run = built(
        tmp_path,
        ["region,town,sex,count", *rows, "s,e,f,1", "s,e,m,2"],
        table={"path": "records.csv", "hierarchies": {"place": ["region", "town"]}},
        risk={"min_width": 1},
        release={"require": ["town", "region*sex"]},
    )
    assert verify(run).verified
    moved = edited("release/datapackage.json", lambda content: content["levels"][0]["categories"].update(a="s"))
    rejected(run, moved, "its levels are wrong")
