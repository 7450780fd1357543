"""Certificates of tables with levels: the honest one is accepted, and none that says of levels what is not so.

What is right is told by `tests.levels`, which lists all tables that agree.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
import yaml
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as hs

from sdc.executor import IN_PROCESS
from sdc.feasible import walk
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.fact import NO_FACTS
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Coarser, Schema, Variable, with_refinements
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.publish.publication import write_publication
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from sdc.storage.certificate import Certificate, read_certificate, write_certificate
from sdc.storage.parquet import read_columns, read_written_table, write_columns, write_table
from sdc.storage.run_folder import write_json
from sdc.verify.run_folder import Verification, verify
from tests import levels
from tests.helpers.clearing import SUBJECT, cleared_of
from tests.integration.verify.test_verify import (
    Tampering,
    adding,
    alone,
    before,
    cells_with,
    components_with,
    differences_with,
    forged,
    json_with,
    one_change_more,
    proven,
    record,
    rejected,
)
from tests.levels import Case
from tests.reference import TooManyTablesError

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
SMALL = with_refinements([PLACE, ZONE, SHORE, SEX])


def release(schema: Schema, *labels: str) -> Release:
    return Release.of(st.parse(label, schema) for label in labels)


def filled(schema: Schema, seed: int = 0) -> Table:
    """Three records in four are in some cell of their own, and each cell of the full table may have some."""
    sizes = schema.keys.sizes
    cells = np.array(list(product(*map(range, sizes))))
    return Table.of(schema, cells, np.random.default_rng(seed).integers(0, 4, len(cells)))


def listed(table: Table, public: tuple[int, ...], zeros: StructuralZeros) -> Case:
    """With all tables that agree, unless they are more than anybody lists."""
    try:
        return Case(table, public, zeros, levels.agreeing(table, public, zeros))
    except TooManyTablesError:
        reject()


def sharp_of(case: Case) -> CellBounds:
    """Of the at-risk cells, by all tables that agree."""
    rows = case.table.at_risk(2)
    sharp = case.sharp_at(case.table.codes[rows])
    return CellBounds(case.table.codes[rows], case.table.counts[rows], sharp, sharp, "enumeration")


def published(run: Path, public: Release) -> Path:
    """The run folder with the release made public, and recorded."""
    (run / "release").mkdir()
    write_publication(cleared_of(read_written_table(run / "table"), public), SUBJECT, "levels", run / "release")
    manifest = json.loads((run / "manifest.json").read_text())
    entry = {**manifest["stages"][0], "name": "release"}
    write_json(run / "manifest.json", {**manifest, "stages": [*manifest["stages"], entry]})
    record(run)
    return run


# What is right


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
    bounds, certificate = proven(table, public, 2, 3)
    run = forged(tmp_path / "run", table, certificate, bounds, undecided="outer")
    certified = int((bounds.inner_width >= 3).sum())
    assert verify(run) == Verification(len(bounds), certified, certificate.proof.differences, (), ANY, ANY)
    assert certified
    published(run, public)
    assert [failure for failure in verify(run).failures if "cells are refuted" not in failure] == []
    resources = json.loads((run / "release" / "datapackage.json").read_text())["resources"]
    assert {"*".join(r["sub_table"]) for r in resources if "sub_table" in r} == {*labels}
    path = next((run / "release").glob("001_*.csv"))
    path.write_text(f"{path.read_text().rstrip()}1\n")  # ten times as many in the last cell, and one
    record(run)
    assert f"{path} is not the exact marginal of the table" in verify(run).failures[0]


@settings(max_examples=300)
@given(case=levels.cases(), min_width=hs.integers(1, 4))
def test_what_a_criterion_proves_is_accepted(
    case: Case, min_width: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All of its claims, which no feasible table leaves, and not one more."""
    assume(len(case.table.at_risk(2)))
    bounds, certificate = proven(case.table, case.known.release, 2, min_width, case.zeros)
    sharp = case.sharp_at(bounds.cells)
    assert (bounds.inner[:, 0] >= sharp[:, 0]).all()
    assert (bounds.inner[:, 1] <= sharp[:, 1]).all()
    run = forged(tmp_path_factory.mktemp("case") / "run", case.table, certificate, bounds)
    certified = int((bounds.inner_width >= min_width).sum())
    assert verify(run) == Verification(len(bounds), certified, certificate.proof.differences, (), ANY, ANY)
    cells_with(adding("inner_upper", 1))(run)
    record(run)
    assert [failure for failure in verify(run).failures if "claims a wider inner interval; so 1 of" in failure]


@settings(max_examples=100)
@given(case=levels.cases())
def test_what_is_written_is_read(case: Case, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, schema = tmp_path_factory.mktemp("written"), case.schema
    _, certificate = proven(case.table, case.known.release, 2, 3, case.zeros)
    write_certificate(certificate, schema, folder)
    again = read_certificate(folder, schema)
    assert (again.table_digest, again.asked, again.known) == (case.table.digest, certificate.asked, certificate.known)
    assert again.proof.separators == certificate.proof.separators
    for part, other in zip(again.proof.parts, certificate.proof.parts, strict=True):
        assert (part.variables, part.cover) == (other.variables, other.cover)
        assert np.array_equal(part.differences.cells, other.differences.cells)
        assert np.array_equal(part.differences.changes, other.differences.changes)


# What is not right


def whole_of(certificate: Certificate, table: Table, cover: Decomposition) -> Certificate:
    return replace(certificate, proof=alone(table, cover, Differences.none(len(table.schema.axes))))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose certificate has one component with differences; not to be touched."""
    table, public = filled(CYCLE), release(CYCLE, "area*sex", "area*work", "region*age", "sex*age", "work*age")
    bounds, certificate = proven(table, public, 2, 2)
    (part,) = certificate.proof.parts
    assert len(part.differences)
    return forged(tmp_path_factory.mktemp("honest") / "run", table, certificate, bounds, undecided="outer")


@pytest.fixture
def run(honest: Path, tmp_path: Path) -> Path:
    """A copy of it to tamper with."""
    return Path(shutil.copytree(honest, tmp_path / "run"))


def level_with(name: str, **changes: Any) -> Tampering:
    """Something else in what schema.json says of a variable."""

    def tamper(run: Path) -> None:
        content = json.loads((run / "table" / "schema.json").read_text())
        content["variables"] = [v | changes if v["name"] == name else v for v in content["variables"]]
        write_json(run / "table" / "schema.json", content)

    return tamper


def schema_with(change: Callable[[list[Any]], list[Any]]) -> Tampering:
    def tamper(run: Path) -> None:
        content = json.loads((run / "table" / "schema.json").read_text())
        write_json(run / "table" / "schema.json", content | {"variables": change(content["variables"])})

    return tamper


def of_schema(schema: Schema) -> Tampering:
    """The same cells with other levels, and the digest of these."""

    def tamper(run: Path) -> None:
        table = read_written_table(run / "table")
        write_table(Table(schema, table.codes, table.counts), run / "table")

    return tamper


def of_area(*groups: int) -> dict[str, Any]:
    return {"of": {"axis": "area", "groups": list(groups)}}


def exchange(one: tuple[int, ...], other: tuple[int, ...]) -> Differences:
    """Two records have each other's age."""
    cells = np.array([one, other, (*one[:3], other[3]), (*other[:3], one[3])], np.uint16)
    return Differences(np.array([0, 4]), cells, np.array([-1, -1, 1, 1]))


def exchanged(one: tuple[int, ...], other: tuple[int, ...]) -> Tampering:
    return differences_with(lambda found, table: Differences.concatenated([found, exchange(one, other)]))


def records_of(table: Table, *areas: int) -> tuple[tuple[int, ...], ...]:
    """Two that differ in these areas and in their age alone."""
    cells = set(map(tuple, table.codes.tolist()))
    pairs = (((areas[0], sex, work, 0), (areas[1], sex, work, 1)) for sex, work in product(range(2), repeat=2))
    return next(pair for pair in pairs if {*pair} <= cells)


OTHER = Schema((replace(REGION, of=Coarser("area", (0, 1, 1, 1))), *CYCLE.variables[1:]))
WITHOUT = Schema(CYCLE.variables[1:])
TAMPERINGS: dict[str, tuple[Tampering, str]] = {
    "a wrong group": (level_with("region", **of_area(0, 1, 1, 1)), r"its digest is \w+, not"),
    "a wrong group, and its digest": (of_schema(OTHER), r"the certificate is of another run: its table is"),
    "groups by other names": (level_with("region", categories=["west", "east"]), r"its digest is \w+, not"),
    "a level missing": (schema_with(lambda variables: variables[1:]), r"its digest is \w+, not"),
    "a level missing, and its digest": (
        of_schema(WITHOUT),
        r"unknown variable 'region', the table has area, sex, work, age",
    ),
    "a group unused": (level_with("region", **of_area(0, 0, 0, 0)), r"the level 'region' is no partition of an axis"),
    "a group that is none": (level_with("region", **of_area(0, 0, 1, 2)), r"'region' is no partition of an axis"),
    "a group less": (level_with("region", **of_area(0, 0, 1)), r"the level 'region' is no partition of an axis"),
    "a level of nothing": (level_with("region", of={"axis": "town", "groups": [0, 0, 1, 1]}), r"is no partition of"),
    "a level of itself": (level_with("region", of={"axis": "region", "groups": [0, 1]}), r"is no partition of an axis"),
    "an axis that is a level": (level_with("sex", of={"axis": "age", "groups": [0, 1]}), r"columns are not the var"),
    "a level twice": (
        schema_with(lambda variables: [*variables, variables[0] | {"name": "again"}]),
        r"two levels of 'area' are the same, or what they tell together is no level",
    ),
    "levels that overlap": (
        schema_with(lambda v: [*v, {"name": "odd", "categories": ["yes", "no"], **of_area(0, 1, 1, 1)}]),
        r"two levels of 'area' are the same, or what they tell together is no level",
    ),
    "a level that is the axis": (
        schema_with(lambda v: [*v, {"name": "own", "categories": list("abcd"), **of_area(0, 1, 2, 3)}]),
        r"two levels of 'area' are the same",
    ),
    "a column of a level": (
        lambda run: write_columns(
            next((run / "table").glob("part-*.parquet")),
            {"region": (columns := read_columns(next((run / "table").glob("part-*.parquet")))[0])["area"], **columns},
        ),
        r"columns are not the variables",
    ),
    "a change": (differences_with(one_change_more), r"1 of \d+ differences give no feasible table"),
    "a difference between regions": (
        lambda run: exchanged(*records_of(read_written_table(run / "table"), 0, 2))(run),
        r"1 of \d+ differences give no feasible table .*a released marginal that changes",
    ),
    "a component less a level": (
        components_with(0, variables=["region", "sex", "work", "age"]),
        r"damaged|the components do not have every variable",
    ),
    "less in the search": (
        json_with(
            "search/search.json", frontier=[["region", "sex"], ["area", "work"], ["sex", "age"], ["work", "age"]]
        ),
        r"is not search/search\.json: it adds area\*sex and adds region\*age;",
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_whatever_was_tampered_with_is_rejected(name: str, run: Path) -> None:
    assert verify(run).failures == ()
    rejected(run, *TAMPERINGS[name])


@pytest.mark.parametrize(
    "tamper",
    [
        lambda run: exchanged(*records_of(read_written_table(run / "table"), 0, 1))(run),
        components_with(0, variables=["age", "work", "sex", "region", "area"]),
        json_with(
            "search/search.json",
            frontier=[["region", *f] for f in (["sex", "area"], ["area", "work"], ["age"])]
            + [["sex", "age"], ["work", "age"]],
        ),
    ],
    ids=["a difference within a region", "a component with its levels", "a level that another one tells"],
)
def test_what_says_the_same_is_accepted(tamper: Tampering, run: Path) -> None:
    tamper(run)
    record(run)
    # one more feasible table may show more than is claimed
    assert [f for f in verify(run).failures if "claims a narrower" not in f] == []


@pytest.fixture
def covered(tmp_path: Path) -> Path:
    """One component, whose cover alone proves what it does: area*sex and region*sex*age, which share region*sex."""
    table, public = filled(CHAIN), release(CHAIN, "area*sex", "region*sex*age")
    bounds, certificate = proven(table, public, 2, 2)
    cliques, separators = (st.parse(label, CHAIN) for label in ("area*sex", "region*sex*age")), (0b101,)
    certificate = whole_of(certificate, table, Decomposition(tuple(cliques), separators))
    run = forged(tmp_path / "covered", table, certificate, bounds, undecided="outer")
    assert verify(run).failures == ()
    assert verify(run).certified_cells
    return run


def cover_of(cliques: list[str], *separators: str) -> Tampering:
    cover = {"cliques": [c.split("*") for c in cliques], "separators": [s.split("*") for s in separators]}
    return components_with(0, cover=cover)


COVER_FAULTS: dict[str, tuple[Tampering, str]] = {
    "a clique that lacks the finer level": (
        cover_of(["region*sex", "region*sex*age"], "region*sex"),
        r"the released area\*sex is within no clique",
    ),
    "a separator at a finer level": (
        cover_of(["area*sex", "region*sex*age"], "area*sex"),
        r"the clique region\*sex\*age shares region\*sex with earlier ones, not area\*sex",
    ),
    "a separator less a level": (
        cover_of(["area*sex", "region*sex*age"], "sex"),
        r"the clique region\*sex\*age shares region\*sex with earlier ones, not sex",
    ),
    "levels in a cycle": (
        cover_of(["area*sex", "area*age", "region*sex*age"], "area", "region*sex*age"),
        r"shares region\*sex\*age with earlier ones, which is within none of them",
    ),
}


@pytest.mark.parametrize("name", COVER_FAULTS)
def test_a_cover_that_was_tampered_with_is_rejected(name: str, covered: Path) -> None:
    tamper, message = COVER_FAULTS[name]
    tamper(covered)
    record(covered)
    found = verify(covered)
    assert found.certified_cells == 0
    assert re.search(message, "\n".join(found.failures)), found.failures


def test_a_cover_may_name_what_others_tell(covered: Path) -> None:
    cover_of(["region*area*sex", "region*sex*age"], "region*sex")(covered)
    record(covered)
    assert verify(covered).failures == ()


@pytest.mark.parametrize(
    ("separator", "match"),
    [
        ("area*sex", r"the component region\*sex\*age shares region\*sex with earlier ones, not area\*sex"),
        ("sex", r"the component region\*sex\*age shares region\*sex with earlier ones, not sex"),
    ],
)
def test_components_are_glued_at_the_finest_level_that_both_have(separator: str, match: str, tmp_path: Path) -> None:
    table, public = filled(CHAIN), release(CHAIN, "area*sex", "region*sex*age")
    bounds, certificate = proven(table, public, 2, 2)
    labels = [st.label(part.variables, CHAIN) for part in certificate.proof.parts]
    assert labels == ["area*sex", "region*sex*age"]
    run = forged(tmp_path / "run", table, certificate, bounds, undecided="outer")
    assert verify(run).failures == ()
    json_with("assessment/certificate.json", separators=[separator.split("*")])(run)
    record(run)
    found = verify(run)
    assert found.certified_cells == 0
    assert re.search(match, "\n".join(found.failures))


def test_levels_that_overlap_apart_prove_nothing(tmp_path: Path) -> None:
    """Of north, south and coast, inland there is no south coast: x and y are told alone, and with them v.

             north  south
    coast    v      -
    inland   x      y
    """
    place = Variable("place", ("v", "x", "y"))
    zone = Variable("zone", ("north", "south"), Coarser("place", (0, 0, 1)))
    shore = Variable("shore", ("coast", "inland"), Coarser("place", (0, 1, 1)))
    schema = Schema((place, zone, shore))
    table = Table.of(schema, np.array([[0], [1], [2]]), np.array([2, 2, 2]))
    case = listed(table, (0b010, 0b100), NO_ZEROS)
    assert len(case.tables) == 1
    certificate = Certificate(table.digest, before(table), case.known.release, 2, 1, Proof((), ()))
    run = forged(
        tmp_path / "run",
        table,
        whole_of(certificate, table, Decomposition((0b010, 0b100), (0,))),
        sharp_of(case),
        undecided="outer",
    )
    found = verify(run)
    assert found.failures == ("the levels zone and shore of place are within no clique",)
    assert found.certified_cells == 0
    components = [{"variables": [v], "cover": None, "differences": 0} for v in ("zone", "shore")]
    for more, match in (
        ((), r"the components do not have every variable"),
        (("place",), r"the component place shares zone\*shore with earlier ones, "),
    ):
        parts = [*components, *({"variables": [v], "cover": None, "differences": 0} for v in more)]
        json_with("assessment/certificate.json", components=parts, separators=[[]] * (len(parts) - 1))(run)
        record(run)
        assert re.search(match, "\n".join(verify(run).failures))
        assert verify(run).certified_cells == 0


@pytest.mark.parametrize(("cell", "low"), [((0, 0), 0), ((2, 0), 2)])
def test_a_cell_that_is_not_alone_in_its_group_may_have_no_record(
    cell: tuple[int, int], low: int, tmp_path: Path
) -> None:
    """Only the group is released: of two areas either may have all of its records, one area alone has them."""
    level = Variable("region", ("east", "west"), Coarser("area", (0, 0, 1)))
    schema = Schema((Variable("area", ("a", "b", "c")), level, SEX))
    table = Table.of(schema, np.array([cell, (1, 1)]), np.array([2, 5]))
    public = release(schema, "region*sex")
    bounds, certificate = proven(table, public, 2, 1)
    assert bounds.inner.tolist() == [[low, 2]]
    run = forged(tmp_path / "run", table, whole_of(certificate, table, Decomposition((0b110,), ())), bounds)
    assert verify(run).failures == ()
    cells_with(adding("inner_lower", 1 if low == 0 else -1))(run)
    record(run)
    assert re.search("claims a (narrower|wider) inner interval", "\n".join(verify(run).failures))


@pytest.mark.parametrize(("threshold", "above"), [(0.4, 3), (0.6, 1)])
def test_what_is_likely_where_a_group_has_several_categories(threshold: float, above: int, tmp_path: Path) -> None:
    """Each of two records in the east is in a or b by the toss of a coin, and all of the west are in c."""
    level = Variable("region", ("east", "west"), Coarser("area", (0, 0, 1)))
    schema = Schema((Variable("area", ("a", "b", "c")), level))
    table = Table.of(schema, np.array([[0], [1], [2]]), np.array([1, 1, 2]))
    bounds, certificate = proven(table, release(schema, "region"), 2, 1)
    run = forged(tmp_path / "run", table, certificate, bounds)
    limit = {"law": "released", "threshold": threshold, "max_above": None, "max_probability": None}
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["config"]["risk"]["posterior"] = limit
    write_json(run / "manifest.json", manifest)
    found = verify(run)
    assert found.failures == ()
    assert f"{above} of 3 true counts have a probability above {threshold}" in found.notes


def test_a_structural_zero_of_a_level(tmp_path: Path) -> None:
    """Nobody in the east is old: a difference that moves such a record is none, though each area's is released."""
    zeros = StructuralZeros((((0, (0,)), (3, (1,))),))
    whole = filled(CHAIN)
    kept = ~zeros.contains(whole.codes, CHAIN)
    table = Table.of(CHAIN, whole.codes[kept], whole.counts[kept])
    public = release(CHAIN, "area*sex", "sex*age")
    bounds, certificate = proven(table, public, 2, 2, zeros)
    run = forged(tmp_path / "run", table, certificate, bounds, undecided="outer")
    assert verify(run).failures == ()
    everywhere, certificate = proven(table, public, 2, 2)
    assert (everywhere.inner_width > bounds.inner_width).any()
    certificate = replace(certificate, known=before(table, zeros))
    found = verify(forged(tmp_path / "other", table, certificate, everywhere, undecided="outer"))
    assert [f for f in found.failures if "the structural zero region = east and age = old is within no" in f]


# Anything


@settings(max_examples=800)
@given(seed=hs.integers(0, 2**32 - 1))
def test_no_random_components_certify_beyond_the_sharp_bounds(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Trees of components, and of their cliques, at any levels, that fit the release or do not; any differences."""
    rng = np.random.default_rng(seed)
    schema = SMALL if rng.random() < 0.5 else levels.random_schema(rng)
    table = levels.random_table(rng, schema)
    assume(len(table.at_risk(2)))
    parts = random_parts(rng, schema)
    covers, some = [random_tree(rng, schema, part) for part in parts], levels.closed_sets(schema)
    between = [s if rng.random() < 0.9 else s & int(rng.choice(some)) for s in separators(parts)]
    public = [c if rng.random() < 0.5 else c & int(rng.choice(some)) for cover in covers for c in cover]
    public += [s for s in between if rng.random() < 0.8]
    case = listed(table, tuple(public), levels.random_zeros(rng, table) if rng.random() < 0.3 else NO_ZEROS)
    proof = Proof(tuple(random_part(rng, case, *pair) for pair in zip(parts, covers, strict=True)), tuple(between))
    certificate = Certificate(table.digest, before(table, case.zeros), case.known.release, 2, 1, proof)
    sharp = sharp_of(case)
    found = verify(forged(tmp_path_factory.mktemp("random") / "run", table, certificate, sharp))
    assert found.certified_cells <= int((sharp.outer_width >= 1).sum())
    assert not [failure for failure in found.failures if "outer interval that feasible tables leave" in failure]


def separators(parts: list[int]) -> tuple[int, ...]:
    """What each but the first has of those before it."""
    return tuple(part & st.union(parts[:j]) for j, part in enumerate(parts) if j)


def random_parts(rng: np.random.Generator, schema: Schema) -> list[int]:
    """Any tree; mostly it has all variables."""
    full = st.full(len(schema))
    parts = random_tree(rng, schema, full)
    if (left := full & ~st.union(parts)) and rng.random() < 0.9:
        parts.append(grown(rng, schema, parts, left))
    return parts if rng.random() < 0.9 else [parts[k] for k in rng.permutation(len(parts))]


def random_tree(rng: np.random.Generator, schema: Schema, within: int) -> list[int]:
    """Closed sets, of which each has new variables beside some of an earlier one's: often a junction tree."""
    sets = [s for s in levels.closed_sets(schema) if s and st.is_within(s, within)]
    tree = [int(rng.choice(sets))]
    while rng.random() < 0.6:
        tree.append(grown(rng, schema, tree, int(rng.choice(sets)) & ~st.union(tree)) or tree[0])
    return tree


def grown(rng: np.random.Generator, schema: Schema, tree: list[int], new: int) -> int:
    """New variables with what some closed set has of one in the tree."""
    host = tree[rng.integers(len(tree))]
    return schema.levels.closed(new | host & int(rng.choice(levels.closed_sets(schema))))


def random_part(rng: np.random.Generator, case: Case, variables: int, cliques: list[int]) -> ComponentProof:
    """A component with these cliques or a true cover, and true differences among any others."""
    inside = case.table.marginal(variables)
    known = Knowledge.of(inside, case.known.release.within(variables), case.zeros.within(variables), NO_FACTS)
    cells, sizes = inside.codes[inside.at_risk(2)], inside.schema.keys.sizes
    found = walk.find(inside, known, cells, np.full(len(cells), inside.total), nodes=10**4).differences
    any_cells = rng.integers(0, sizes, (8, len(sizes))).astype(np.uint16)
    anything = Differences.summed(3, np.sort(rng.integers(0, 3, 8)), any_cells, rng.integers(-2, 3, 8), inside.schema)
    own = [st.within(clique, variables) for clique in cliques]
    cover = known.structure.cover if rng.random() < 0.2 else Decomposition(tuple(own), separators(own))
    return ComponentProof(variables, cover, Differences.concatenated([found, anything][: rng.integers(1, 3)]))


# Builds


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
    (tmp_path / "records.csv").write_text("region,area,sex,age,w\n" + "\n".join(rows) + "\n")
    (tmp_path / "zeros.yaml").write_text("- {region: east, age: o}\n")
    table: dict[str, Any] = {
        "path": "records.csv",
        "variables": ["region", "area", "sex", "age"],
        "hierarchies": {"place": ["region", "area"]},
        "structural_zeros": "zeros.yaml",
    }
    config = {
        "name": "levels",
        "table": table | ({"weight": "w"} if weighted else {}),
        "risk": {"min_width": 2, "undecided": "outer"},
        "publication": {"formats": ["csv", "parquet", "px"], "zeros": True, "totals": True, "children": ["region"]},
        "output": {"folder": str(tmp_path / "runs")},
    }
    if weighted:
        config |= {"weighted": {"round": 100}, "publication": {"formats": ["csv"]}}
    (tmp_path / "build.yaml").write_text(yaml.safe_dump(config))
    build = open_build(tmp_path / "build.yaml")
    run_all(build, IN_PROCESS)
    found = verify(build.folder.path)
    assert found.failures == ()
    assert found.certified_cells
    assert build.made.table.schema.variables[0].of == Coarser("area", (0, 0, 1, 1, 1))
    assert build.made.known.zeros != NO_ZEROS


def test_a_package_that_says_otherwise_of_levels_is_rejected(tmp_path: Path) -> None:
    """A town that is said to be in another region."""
    rows = [
        f"{'n' if town < 'c' else 's'},{town},{sex},{9 + k % 5}" for k, (town, sex) in enumerate(product("abcd", "fm"))
    ]
    (tmp_path / "t.csv").write_text("region,town,sex,count\n" + "\n".join([*rows, "s,e,f,1", "s,e,m,2"]) + "\n")
    table = {"path": "t.csv", "hierarchies": {"place": ["region", "town"]}}
    config = {"name": "t", "table": table, "risk": {"min_width": 1}, "output": {"folder": str(tmp_path / "runs")}}
    config["release"] = {"require": ["town", "region*sex"]}
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(config))
    build = open_build(tmp_path / "t.yaml")
    run_all(build, IN_PROCESS)
    assert verify(build.folder.path).verified
    path = build.folder.stage("release") / "datapackage.json"
    content = json.loads(path.read_text())
    content["levels"][0]["categories"]["a"] = "s"
    path.write_text(json.dumps(content))
    record(build.folder.path)
    assert any("what it says of levels is not so" in failure for failure in verify(build.folder.path).failures)
