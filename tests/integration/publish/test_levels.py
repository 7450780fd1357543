"""Published tables of areas in regions: by the areas alone, with what says in which region each of them is."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.api import find_release
from sdc.config.publication import PublicationConfig
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.labels import Labels
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.table import Table
from sdc.publish.formats import FORMATS
from sdc.publish.gate import clear
from sdc.publish.publication import NO_TEXTS, Texts, check_publication, write_publication
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Policy
from sdc.storage.certificate import Certificate
from tests.helpers.clearing import SUBJECT, cleared_of
from tests.helpers.folders import contents
from tests.strategies import knows

REGIONS = {"west 1": "west", "east 1": "east", "west 2": "west", "east 2": "east", "east 3": "east"}
COUNTS = [[40, 12], [9, 30], [21, 3], [14, 15], [2, 8]]
"""Of each area, women and men."""
ALL = Texts(PublicationConfig(formats=tuple(FORMATS), zeros=True, totals=True), Labels())


@pytest.fixture
def table() -> Table:
    """Five areas in two regions, by sex; the level comes first, as in a config that names the coarsest first."""
    groups = tuple(("east", "west").index(region) for region in REGIONS.values())
    region = Variable("region", ("east", "west"), Coarser("area", groups))
    schema = Schema((region, Variable("area", tuple(REGIONS)), Variable("sex", ("f", "m"))))
    return Table.of(schema, np.indices((5, 2)).reshape(2, -1).T, np.array(COUNTS).reshape(-1))


@pytest.fixture
def overlapping() -> Table:
    """Eight ages in halves and in quarters that overlap, and what both tell together; by sex."""
    ages = Variable("age", tuple(f"{year} years" for year in range(8)))
    half = Variable("half", ("lower", "upper"), Coarser("age", (0, 0, 0, 0, 1, 1, 1, 1)))
    school = Variable("school", ("no", "some"), Coarser("age", (0, 0, 1, 1, 1, 1, 0, 0)))
    both = Variable("half & school", ("a", "b", "c", "d"), Coarser("age", (0, 0, 1, 1, 2, 2, 3, 3)))
    schema = Schema((half, school, ages, both, Variable("sex", ("f", "m"))))
    return Table.of(schema, np.indices((8, 2)).reshape(2, -1).T, np.arange(5, 21))


def released(table: Table, *names: str) -> Release:
    return Release.of(st.parse(name, table.schema) for name in names)


def published(table: Table, folder: Path, *names: str, texts: Texts = NO_TEXTS) -> dict[str, Any]:
    """The data package, of files that are what was cleared."""
    folder.mkdir()
    cleared = cleared_of(table, released(table, *names))
    write_publication(cleared, SUBJECT, "areas", folder, texts=texts)
    check_publication(cleared, folder, "areas", texts)
    content: dict[str, Any] = json.loads((folder / "datapackage.json").read_text())
    return content


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_a_table_has_a_column_for_the_area_alone(table: Table, tmp_path: Path) -> None:
    told = published(table, tmp_path / "out", "area*sex")
    assert sorted(path.name for path in (tmp_path / "out").glob("0*")) == ["001_area-sex.csv", "001_area-sex.parquet"]
    header, *cells = rows(tmp_path / "out" / "001_area-sex.csv")
    assert header == ["area", "sex", "count"]
    assert [(area, int(count)) for area, sex, count in cells if sex == "f"] == [
        (area, women) for area, (women, _) in zip(REGIONS, COUNTS, strict=True)
    ]
    assert told["resources"][0]["sub_table"] == ["area", "sex"]


def test_the_metadata_say_in_which_region_each_area_is(table: Table, tmp_path: Path) -> None:
    told = published(table, tmp_path / "out", "area*sex")
    assert told["levels"] == [{"variable": "region", "of": "area", "categories": REGIONS}]
    listed = [row[:3] for row in rows(tmp_path / "out" / "data_dictionary.csv")]
    assert [row for row in listed if row[0] == "region"] == [["region", "1", "east"], ["region", "2", "west"]]


def test_of_areas_that_are_not_published_nothing_is_said(table: Table, tmp_path: Path) -> None:
    told = published(table, tmp_path / "out", "region*sex", texts=ALL)
    assert "levels" not in told
    assert b"area*" not in (everything := b"".join(contents(tmp_path / "out").values()))
    assert not [area for area in REGIONS if area.encode() in everything]
    assert ["east", "f", "25"] in rows(tmp_path / "out" / "001_region-sex.csv")


def test_a_coarser_table_may_be_asked_for(table: Table, tmp_path: Path) -> None:
    texts = replace(NO_TEXTS, about=PublicationConfig(children=("region*sex", "region")))
    told = published(table, tmp_path / "out", "area*sex", texts=texts)
    tables = dict.fromkeys(tuple(one["sub_table"]) for one in told["resources"] if "sub_table" in one)
    assert list(tables) == [("area", "sex"), ("region", "sex"), ("region",)]
    assert rows(tmp_path / "out" / "003_region.csv")[1:] == [["east", "78"], ["west", "76"]]
    finer = replace(NO_TEXTS, about=PublicationConfig(children=("area",)))
    with pytest.raises(ReleaseError, match=r"publication\.children has 'area', which the release does not imply"):
        published(table, tmp_path / "other", "region*sex", texts=finer)


def test_what_tells_two_levels_together_is_not_published_with_them(overlapping: Table, tmp_path: Path) -> None:
    """Halves and school apart: who has both does not have what they tell together of a record."""
    told = published(overlapping, tmp_path / "out", "half*sex", "school", texts=ALL)
    assert "levels" not in told
    everything = b"".join(contents(tmp_path / "out").values())
    assert b"half &" not in everything
    assert b"years" not in everything


def test_two_levels_together_are_what_tells_both(overlapping: Table, tmp_path: Path) -> None:
    told = published(overlapping, tmp_path / "out", "half*school")
    assert told["resources"][0]["sub_table"] == ["half & school"]
    assert [(one["variable"], one["of"]) for one in told["levels"]] == [
        ("half", "half & school"),
        ("school", "half & school"),
    ]
    assert told["levels"][1]["categories"] == {"a": "no", "b": "some", "c": "some", "d": "no"}


def test_the_gate_clears_what_is_proven(table: Table) -> None:
    found = find_release(table, "ordered", min_width=3, small_count=3)
    criteria, before = Criteria.of(3, 3), knows(table, NOTHING)
    certificate = Certificate(table.digest, before, found.release, 3, 3, found.proof)
    cleared = clear(table, before, certificate, criteria, Policy.REFUSE)
    assert cleared.release.closed(cleared.schema) == cleared.release
    own = zip(cleared.release.frontier, found.release.frontier, strict=True)
    assert all(cleared.marginal(one) == table.marginal(other) for one, other in own)
    everything = replace(certificate, asked=Release.of([0b111]))
    with pytest.raises(ReleaseError, match="not proven safe"):
        clear(table, before, everything, criteria, Policy.REFUSE)
    # a hidden level is judged, and named nowhere
    less = clear(table, before, certificate, criteria, Policy.REFUSE, hidden=0b001)
    assert "region" not in less.schema.names
    assert all("region" not in less.marginal(t).schema.names for t in less.release.frontier if t)
