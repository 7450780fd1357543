"""What is proposed instead of refused sub-tables goes out as it says, once it is pasted into a config."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import sdc
from sdc.config.given import with_given
from sdc.config.release import ReleaseConfig
from sdc.model import subtable as st
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Policy
from sdc.search.recodings import Recoding
from sdc.stages.assemble import SearchSettings, release_search
from sdc.stages.build import Build
from sdc.storage.parquet import write_csv
from sdc.storage.results import read_recodings
from sdc.verify.run_folder import verify
from tests.helpers.builds import built, document_of, report_of
from tests.helpers.commands import invoked
from tests.helpers.yearbook import AREAS, REQUIRED, config
from tests.profiles import scaled
from tests.strategies import scattered

SCHEMA = Schema((Variable("area", tuple("abcde")), Variable("sex", ("f", "m")), Variable("old", ("no", "yes"))))
BESIDE = ["area*sex", "sex*old"]


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Build]:
    """A build that refuses a required sub-table, and says what may go out instead."""
    folder = tmp_path_factory.mktemp("refusing")
    asked = {"require": REQUIRED, "on_conflict": "drop"}
    return cache(lambda: built(config(folder, release=asked, remedies={"variables": 4})))


def test_a_proposal_with_merged_categories_is_what_a_build_with_it_publishes(
    refusing: Callable[[], Build], tmp_path: Path
) -> None:
    before = refusing()
    rows = document_of(before, "remedies", "redesigns.json")["redesigns"]
    ((told,),) = [row["instead"] for row in rows if row["sub_table"] == ["area", "age"]]
    page = report_of(before)
    assert told["config"] in page
    build = built(config(tmp_path, **yaml.safe_load(told["config"])))
    schema = build.made.table.schema
    ((refused, instead),) = build.coarsened.items()
    assert st.names(refused, schema) == ["area", "age"]
    assert st.names(instead, schema) == told["sub_table"]
    assert st.cells(instead, schema) == told["cells"] == AREAS * 6 - told["lost"] < AREAS * 6
    released = (st.label(element, before.made.table.schema) for element in before.made.found.release.frontier)
    assert all(st.parse(label, schema) in build.made.found.release for label in released)
    assert verify(build.folder.path).verified


def test_a_recode_frees_what_it_is_said_to_in_a_build_with_it(tmp_path: Path) -> None:
    own = scattered(2)
    columns = zip(own.schema.names, own.codes.T, strict=True)
    records = {name: [f"{name}{code}" for code in codes.repeat(own.counts).tolist()] for name, codes in columns}
    write_csv(tmp_path / "scattered.csv", records)
    table, risk = {"path": "scattered.csv"}, {"min_width": 1, "small_count": 2}
    budget = {"seconds_per_cell": 0.05, "seconds": 5}
    before = built(config(tmp_path, "before", table=table, risk=risk, release=budget, remedies={"variables": 2}))
    schema, release = before.made.table.schema, before.made.found.release
    tried = read_recodings(before.folder.stage("remedies"), schema)
    best, recode = next((one, one.recode) for one in tried if one.freed and one.recode and not one.recode.leaves_out)
    labels = [st.label(element, schema) for element in (*release.frontier, *best.freed)]
    after = {**table, **yaml.safe_load(best.config)["table"]}
    build = built(config(tmp_path, "after", table=after, risk=risk, release={"require": labels, "required_only": True}))
    recoded = build.made.table.schema
    assert all(st.parse(label, recoded) in build.made.found.release for label in labels)
    assert " or ".join(recode.names) in recoded.variables[recode.variable].categories
    assert verify(build.folder.path).verified


def random_table(rng: np.random.Generator) -> Table:
    counts = rng.choice([0, 1, 1, 2, 3, 4, 30], SCHEMA.sizes)
    return Table.of(SCHEMA, np.argwhere(counts >= 0).astype(np.uint16), counts.reshape(-1))


def released(table: Table, width: int, section: dict[str, Any]) -> set[str]:
    """What a build with a section releases, named as it is."""
    settings = SearchSettings(Criteria.of(2, width), Policy.REFUSE, release=ReleaseConfig.model_validate(section))
    known = sdc.knowledge(table)
    if settings.release.coarsens:
        table, known, origin = settings.coarser(table, known)
        settings = SearchSettings(settings.criteria, Policy.REFUSE, release=settings.release, origin=origin)
    found = release_search(table, known, settings, settings.widths(table)).run("ordered").release
    return {label for label in names_of(table.schema) if st.parse(label, table.schema) in found}


def names_of(schema: Schema) -> list[str]:
    """All sub-tables, as they are named."""
    full = st.full(len(schema))
    return [st.label(t, schema) for t in st.subsets(full, schema) if t]


def test_whatever_is_proposed_goes_out_beside_what_is_public() -> None:
    """Of random tables: each proposal is pasted as it is, and the search grows on from there."""
    rng, proposed = np.random.default_rng(5), list[Recoding]()
    for _ in range(scaled(240, fewest=80)):
        table = random_table(rng)
        if not sdc.assess(table, BESIDE, min_width=3).releasable:
            continue
        found = sdc.redesign(table, BESIDE, "area*old", min_width=3)
        assert [one.lost for one in found] == sorted(one.lost for one in found)
        for one in found:
            section = yaml.safe_load(one.config)["release"]
            out = released(table, 3, section)
            assert "*".join(one.names) in out
            if "protect" in section:
                assert {*section["require"]} == {*BESIDE} <= out
        proposed += found
    assert sum("protect" in one.config for one in proposed) > 3


def test_what_a_config_forbids_is_no_proposal() -> None:
    """Neither as a sub-table nor within one."""
    table = by_place([1, 0, 0, 9])
    forbid = with_given(ReleaseConfig(), {"forbid": ["region"]})
    assert [one.names for one in redesigned(table, ["sex"], merging=False)] == [("region", "sex")]
    assert [one.names for one in redesigned(table, ["sex"], merging=False, release=forbid)] == [("sex",)]


def test_nothing_is_merged_of_what_goes_out_whole_nor_at_the_cost_of_what_is_public() -> None:
    """Nor beside what may not be public, and where what is public would count less a build might leave that out."""
    small = by_place([1, 0, 0, 9])
    assert [one.names for one in redesigned(small, ["sex"]) if "protect" in one.config] == [("region", "sex")]
    whole = redesigned(by_place([1, 9, 9, 9]), ["sex"])
    assert whole
    assert not any("protect" in one.config for one in whole)
    assert not any("protect" in one.config for one in redesigned(small, ["place*ill"]))
    dear = with_given(ReleaseConfig(), {"weights": {"place*sex": 2.0}})
    assert not any("protect" in one.config for one in redesigned(small, ["sex"], release=dear))


def redesigned(table: Table, beside: list[str], **given: Any) -> tuple[Recoding, ...]:
    return sdc.redesign(table, beside, "place*sex", min_width=4, **given)


def by_place(first: list[int]) -> Table:
    """Places of two regions, by sex and illness: counts of the first place, 9 of each other cell."""
    schema = Schema(
        (
            Variable("region", ("n", "s"), Coarser("place", (0, 0, 1))),
            Variable("place", ("n1", "n2", "s1")),
            Variable("sex", ("f", "m")),
            Variable("ill", ("no", "yes")),
        )
    )
    counts = np.array([*first, *[9] * 8]).reshape(3, 2, 2)
    return Table.of(schema, np.argwhere(counts >= 0).astype(np.uint16), counts.reshape(-1))


def test_what_may_not_be_coarsened_is_not_offered_with_merged_categories(tmp_path: Path) -> None:
    """Where the method is for whole sub-tables alone; a curve or remedies are said to have to go."""
    file = config(tmp_path, release={}, remedies={})
    told = json.loads(invoked("why", file, "area*age", "--redesign", "--json").stdout)["redesign"]
    assert [yaml.safe_load(one["config"])["release"]["protect"] for one in told if "protect" in one["config"]] == [
        [{"of": "area*age", "by": "recoding"}]
    ]
    said = invoked("why", file, "area*age", "--redesign").stdout
    assert f"to be pasted   {told[0]['config']}" in said
    assert "leave out      remedies" in said
    file = config(tmp_path, release={"method": "decomposable"})
    told = json.loads(invoked("why", file, "area*age", "--redesign", "--json").stdout)["redesign"]
    assert not any("protect" in one["config"] for one in told)
