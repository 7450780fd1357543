"""Builds that are judged together with what was published before: by us or others, of all records or of some."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as hs

from sdc.api import assess
from sdc.config.earlier import EarlierConfig
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError, NothingReleasableError, NotReleasableError
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.public.published import Published, read_published
from sdc.record.ledger import new_ledger
from sdc.refusal import FILES
from sdc.risk.assessment import OwnJudged
from sdc.stages.build import Build, open_build
from sdc.stages.finished import compare
from sdc.stages.verified import verify_run
from sdc.storage.parquet import write_csv
from sdc.verify.run_folder import verify
from tests.helpers.builds import built, table_columns, write_counts, written
from tests.integration.public.test_check import Told, enumerated, in_part, in_part_of, marginal, part, recoded
from tests.strategies import czech, dense, schema_of


def config(folder: Path, name: str, earlier: list[dict[str, Any]], **more: Any) -> Path:
    """A config of the table in a folder, with these sections."""
    return written(folder, name, **{"table": {"path": "table.csv"}, "earlier": earlier, **more})


def released(build: Build) -> set[tuple[str, ...]]:
    """What was known of all records, by the names that tell it."""
    return {
        tuple(st.names(element, build.made.table.schema)) for element in build.made.known.release.frontier if element
    }


WIDTH = 20


PAIR, OTHER = ["A*B*D*F", "A*D*E*F"], "B*D*E*F"
"""Of the Czech table at this width either may go out, and not both."""


def test_two_releases_each_safe_and_together_not(czech_folder: Path) -> None:
    schema = czech().schema
    risk = {"small_count": 2, "min_width": WIDTH}
    without = [{"of": ["B", "E"]}]
    first = built(config(czech_folder, "first", [], risk=risk, release={"require": PAIR, "forbid": without}))
    alone = built(config(czech_folder, "alone", [], risk=risk, release={"require": [OTHER], "method": "bisection"}))
    assert verify(first.folder.path).verified
    assert verify(alone.folder.path).verified
    folder = str(first.folder.stage("release"))
    second = config(czech_folder, "second", [{"folder": folder}], risk=risk, release={"require": [OTHER]})
    with pytest.raises(NothingReleasableError, match="is not releasable") as refused:
        built(second)
    assert refused.value.detail == ""
    assert [*open_build(second).folder.path.glob(FILES)]  # of the cell, in confidence
    assert not open_build(second).folder.stage("release").exists()
    # without being required it is left out, and all else that fits goes out
    rest = built(config(czech_folder, "rest", [{"folder": folder}], risk=risk))
    assert all(st.parse(one, schema) in rest.made.found.release for one in PAIR)
    assert st.parse(OTHER, schema) not in rest.made.found.release
    assert verify(rest.folder.path).verified
    # beside the release without it the comparison names what it conflicts with, of now and of before
    begin, named = dict(compare(rest.folder.path, alone.folder.path).came)[tuple(OTHER.split("*"))].split(
        " together with "
    )
    assert begin == f"{OTHER} breaks the criterion"
    conflicts = [st.parse(name, schema) for name in named.split(", ")]
    assert all(one in rest.made.found.release for one in conflicts)
    assert any(one in first.made.found.release for one in conflicts)
    assert not assess(czech(), Release.of([*conflicts, st.parse(OTHER, schema)]), min_width=WIDTH).releasable


def test_recodes_published_before_are_levels(tmp_path: Path) -> None:
    """They overlap, so that what both tell together is a level too; none has a column, or is published."""
    table = dense(schema_of([4, 2]), [9, 9, 8, 8, 9, 9, 1, 9])
    write(table, tmp_path)
    groups = [
        {"low": ["0", "1"], "high": "*"},
        {"in": ["1", "2"], "out": "*"},
        {"l": ["0"], "m": ["1", "2"], "h": ["3"]},
    ]
    relations = []
    for name, told in zip(("one", "two", "three"), groups, strict=True):
        rest = [v for v in "0123" if not any(v in others for others in told.values())]
        counts = [int(table.dense[[*map(int, rest if values == "*" else values)]].sum()) for values in told.values()]
        write_csv(tmp_path / f"{name}.csv", {"g": [*told], "count": counts})
        relations.append({"folder": f"{name}.csv", "variables": {"g": {"of": "A", "groups": told}}})
    build = built(config(tmp_path, "t", relations))
    schema = build.made.table.schema
    assert [schema.names[axis] for axis in schema.axes] == ["A", "B"]
    assert build.made.table.codes.shape == (8, 2)
    # low or high and in or out tell all four apart, the second and the third are 0, 1 or 2, 3
    parts = [[np.flatnonzero(schema.levels.groups[v] == g).tolist() for g in range(schema.sizes[v])] for v in (2, 3, 4)]
    assert [sorted(part) for part in parts] == [[[0, 1], [2, 3]], [[0, 3], [1, 2]], [[0], [1, 2], [3]]]
    assert not build.made.known.zeros
    assert build.made.found.release.contains(Release.of([schema.levels.closed(0b11100)]))
    assert verify(build.folder.path).verified
    nested = {"path": "table.csv", "recodes": {"C": {"column": "A", "groups": groups[0]}}, "variables": ["A", "B", "C"]}
    again = built(config(tmp_path, "again", relations[:1], table={**nested, "hierarchies": {"A": ["C", "A"]}}))
    assert (again.origin.hidden, released(again)) == ((), {("C",)})


def test_what_is_merged_again_goes_out_though_an_earlier_table_tells_it(tmp_path: Path) -> None:
    """Of groups that a file does not list each has a category of its own; the second merging is coarser."""
    (tmp_path / "table.csv").write_text("A,count\na0,5\na1,2\na3,3\n")
    (tmp_path / "one.csv").write_text("G,count\na0,5\na1 or a3,5\n")
    groups = {"a0": ["a0"], "a1 or a3": ["a1", "a3"], "a2": ["a2"], "a4": ["a4"]}
    sections = {
        "table": {"path": "table.csv", "categories": {"A": ["a0", "a1", "a2", "a3", "a4"]}},
        "risk": {"small_count": 2, "min_width": 2},
        "release": {
            "require": ["A"],
            "required_only": True,
            "protect": [{"of": "A", "by": "recoding", "cost": "records"}],
        },
    }
    relation = {"folder": "one.csv", "variables": {"G": {"of": "A", "groups": groups}}}
    build = built(config(tmp_path, "t", [relation], **sections))
    assert build.made.table.schema.variables[1].categories == ("a0", "a1 or a3", "elsewhere", "elsewhere 2")
    (file,) = build.folder.stage("release").glob("0*.csv")
    assert file.read_text().startswith("A_merged,count\na0,5\na1 or a2 or")
    assert verify_run(build.folder.path).verified


def test_no_table_is_recoded_by_whose_records_were_published_before(tmp_path: Path) -> None:
    """The two categories of that level say nothing to readers."""
    (tmp_path / "table.csv").write_text("A,B,count\na0,b1,2\na1,b1,1\na2,b0,3\n")
    (tmp_path / "some.csv").write_text("B,count\nb1,3\n")
    where = {"folder": "some.csv", "where": {"A": ["a0", "a1"]}, "code_lists": ["B"]}
    release = {"require": ["A"], "required_only": True, "protect": [{"of": "A", "by": "recoding"}]}
    with pytest.raises(NotReleasableError, match="A with merged categories: nothing merges"):
        built(config(tmp_path, "t", [where], release=release))


def test_a_difference_of_universes_is_refused(tmp_path: Path) -> None:
    """All but five persons were published by others: to publish all tells where each of these is."""
    schema = schema_of([2, 2, 3])
    table = dense(schema, [9, 4, 1, 8, 7, 1, 9, 9, 2, 9, 9, 1])
    write(table, tmp_path)
    told = part(table, 0b011, 2, "below")
    folder_of(tmp_path, "below", [told])
    where = {"folder": "below", "where": {"C": ["0", "1"]}}
    assert built(config(tmp_path, "alone", [], release={"require": ["A*B"]}))
    with pytest.raises(NothingReleasableError, match=r"A\*B is not releasable"):
        built(config(tmp_path, "all", [where], release={"require": ["A*B"]}))
    build = built(config(tmp_path, "rest", [where]))
    (fact,) = build.made.known.published
    assert fact.label(build.made.table.schema) == "A*B where C = 0 or 1"
    assert build.made.known.release == Release.of([])
    assert build.made.found.release.frontier
    assert verify(build.folder.path).verified
    with pytest.raises(InputError, match="is not of these records: the table has other counts of A"):
        built(config(tmp_path, "same", [{"folder": "below"}]))
    assert built(config(tmp_path, "other", [{"folder": "below", "disjoint": True}], release={"require": ["A*B"]}))


def write(table: Table, folder: Path) -> None:
    write_counts(folder / "table.csv", table)


def folder_of(folder: Path, name: str, told: list[Told], form: str = "csv") -> Path:
    """Files of tables as others would publish them."""
    (folder / name).mkdir(exist_ok=True)
    for number, (published, _) in enumerate(told):
        columns = {column: [*values] for column, values in table_columns(published.table).items()}
        for cell in published.suppressed.tolist():
            for column, value in {**published.table.schema.named(cell), "count": None}.items():
                columns[column].append(value)
        if form == "csv":
            write_csv(folder / name / f"{number}.csv", columns)
        else:
            pq.write_table(pa.table(columns), folder / name / f"{number}.parquet")
    return folder / name


@hs.composite
def earlier(draw: hs.DrawFn) -> tuple[Table, Told]:
    """A small table without an empty category, and something published of it."""
    schema = schema_of(draw(hs.sampled_from([[2, 3], [2, 2, 2], [3, 2, 2]])))
    counts = draw(hs.lists(hs.sampled_from([0, 1, 1, 2, 3]), min_size=schema.cells, max_size=schema.cells))
    table = dense(schema, [*counts])
    kept = draw(hs.integers(1, (1 << len(schema)) - 1))
    kind = draw(hs.sampled_from(["marginal", "recoded", "part"]))
    hide = in_part if draw(hs.booleans()) else lambda _, told: told
    if kind == "marginal":
        return table, hide(draw, marginal(table, kept, "before"))
    if kind == "recoded":
        first = schema.sizes[st.members(kept)[0]]
        return table, hide(draw, recoded(table, kept, draw(hs.integers(1, first - 1)), "before"))
    return table, part(table, kept, draw(hs.integers(1, schema.sizes[-1] - 1)), "before")


@settings(max_examples=40)
@given(earlier())
def test_no_count_is_told_by_both(drawn: tuple[Table, Told]) -> None:
    """Whatever is released: each at-risk cell has its width over all tables that agree with it and what was before."""
    table, told = drawn
    assume((table.counts <= 2).any() and len(told[0].table))
    assume(not any((counts == 0).any() for counts in table.one_way()))  # a category that no record has is none
    with TemporaryDirectory() as place:
        folder = Path(place)
        write(table, folder)
        folder_of(folder, "before", [told])
        relation = told[1].model_dump(mode="json", exclude_defaults=True) | {"folder": "before"}
        try:
            build = built(config(folder, "t", [relation], risk={"small_count": 2, "min_width": 1}))
        except NothingReleasableError:  # what was before tells a count by itself
            is_released, public = False, []
        else:
            assert verify(build.folder.path).verified
            is_released = True
            public = read_published(build.folder.stage("release")) if build.made.found.release.frontier != (0,) else []
            assert {name for one in public for name in one.table.schema.names} <= set(table.schema.names)
        released = [(one, EarlierConfig(folder="release")) for one in public]
        known = enumerated(table, [told, *released, total(table)], table.schema.names)
        small = table.codes[table.at_risk(2)].tolist()
        assert all(len(known[tuple(table.schema.named(cell).values())]) > 1 for cell in small) == is_released


def total(table: Table) -> Told:
    """The number of records, which is always public."""
    groups = {"all": table.schema.variables[0].categories}
    whole = Table.of(Schema((Variable("all", ("all",)),)), np.zeros((1, 1), int), np.array([table.total]))
    related = EarlierConfig(folder="total", variables={"all": {"of": "A", "groups": groups}})  # type: ignore[dict-item]
    return Published("total", whole, True), related


def test_a_table_in_part_is_known_from_then_on(tmp_path: Path) -> None:
    """As a fact of the build that names it, by the ledger of all after it, and to the verifier."""
    table = dense(schema_of([4, 2, 2]), [9, 4, 1, 8, 7, 1, 9, 9, 2, 9, 9, 1, 6, 8, 7, 9])
    write(table, tmp_path)
    whole = in_part_of(marginal(table, 0b011, "a"), [[0, 1], [2, 0]])
    grouped = in_part_of(recoded(table, 0b101, 2, "b"), [[1, 0]])
    folder_of(tmp_path, "a", [whole])
    folder_of(tmp_path, "b", [grouped], "parquet")
    relation = {**grouped[1].model_dump(mode="json", exclude_defaults=True), "folder": "b"}
    new_ledger(tmp_path / "led")
    apart = {"forbid": ["A*B", "A*C"]}
    first = built(config(tmp_path, "first", [{"folder": "a"}, relation], release=apart, ledger="led"))
    schema, facts = first.made.table.schema, {fact.source: fact for fact in first.made.known.published}
    told = {fact.label(schema): fact.intervals.cells.tolist() for fact in facts.values() if fact.intervals is not None}
    assert told == {"A*B": [[0, 1], [2, 0]], "C*grouped; published before": [[0, 0]]}
    assert schema.variables[3].categories == ("high", "low")
    assert verify(first.folder.path).verified
    again = built(config(tmp_path, "again", [], release=apart, ledger="led"))
    assert again.made.known.published == first.made.known.published
    assert verify(again.folder.path).verified
    assert verify_run(again.folder.path).verified
    folder_of(tmp_path, "c", [in_part_of(part(table, 0b011, 1, "c"), [[0, 1]])])
    changed = [[0, 1], [2, 1]]
    folder_of(tmp_path, "a", [in_part_of(marginal(dense(schema_of([4, 2, 2]), [8] * 16), 0b011, "a"), changed)])
    for wrong, message in (
        ({"folder": "a"}, "is not of these records: the table has other counts of A"),
        ({"folder": "c", "where": {"C": ["0"]}}, "cells without a count and is of some of the records alone"),
        ({"folder": "a", "disjoint": True}, "has cells without a count, so totals decide nothing; show by key"),
    ):
        with pytest.raises(InputError, match=message):
            built(config(tmp_path, "refused", [wrong]))


def test_counts_between_two_numbers_and_totals_are_known_from_then_on(tmp_path: Path) -> None:
    """As facts of the build, of the ledger's next one and to the verifier; others than the table's are refused."""
    write(dense(schema_of([4, 2, 2]), [9, 4, 1, 8, 7, 1, 9, 9, 2, 9, 9, 1, 6, 8, 7, 9]), tmp_path)
    lines = ["A,B,count", "0,0,13", "0,1,", "1,0,5-9", "1,1,18", "2,0,", "2,1,10", "3,0,14", "3,1,16"]
    totals = ["0,(total),22", "1,(total),26", "2,(total),20-22", "(total),(total),99"]
    (tmp_path / "a.csv").write_text("\n".join([*lines, *totals]) + "\n")
    new_ledger(tmp_path / "led")
    apart = {"forbid": ["A", "A*B"]}
    first = built(config(tmp_path, "first", [{"folder": "a.csv"}], release=apart, ledger="led"))
    told = {fact.label(first.made.table.schema): fact.intervals for fact in first.made.known.published}
    assert {
        label: list(zip(one.cells.tolist(), one.low.tolist(), one.high.tolist(), strict=True))
        for label, one in told.items()
        if one is not None
    } == {"A": [([2], 20, 22), ([3], 0, 99)], "A*B": [([0, 1], 0, 99), ([1, 0], 5, 9), ([2, 0], 0, 99)]}
    again = built(config(tmp_path, "again", [], release=apart, ledger="led"))
    assert again.made.known.published == first.made.known.published
    assert verify(first.folder.path).verified
    assert verify(again.folder.path).verified
    for old, new, message in (
        ("5-9", "5-7", "1 total of A\\*B differ from those of the table"),
        ("20-22", "23", "1 total of A differ from those of the table"),
        ("total),99", "total),98", "1 total of all records differ from those of the table"),
    ):
        (tmp_path / "b.csv").write_text("\n".join([*lines, *totals]).replace(old, new) + "\n")
        with pytest.raises(InputError, match=message):
            built(config(tmp_path, "refused", [{"folder": "b.csv"}]))


def test_small_cells_of_a_table_in_part_keep_the_width_beside_what_comes_later(tmp_path: Path) -> None:
    """B would tell two withheld cells of which one is small, though no at-risk cell; of four it tells none."""
    table = dense(schema_of([4, 2, 2]), [9, 4, 1, 1, 7, 5, 9, 9, 4, 9, 9, 5, 6, 8, 7, 9])
    write(table, tmp_path)
    asked = {"require": ["B"], "forbid": ["A*B", "C"], "required_only": True}
    risk = {"small_count": 2, "min_width": 2}
    folder_of(tmp_path, "a", [in_part_of(marginal(table, 0b011, "a"), [[0, 1], [1, 0]])])
    with pytest.raises(NothingReleasableError, match="B is undecided"):
        built(config(tmp_path, "told", [{"folder": "a"}], release=asked, risk=risk))
    folder_of(tmp_path, "b", [in_part_of(marginal(table, 0b011, "b"), [[0, 0], [0, 1], [1, 0], [1, 1]])])
    build = built(config(tmp_path, "kept", [{"folder": "b"}], release=asked, risk=risk))
    assert build.made.assessed(2)[0].in_part == OwnJudged(1, 0)
    found = verify(build.folder.path)
    assert found.verified
    assert "1 of 1 small cells of suppressed tables are proven to keep the width" in found.notes


def test_what_is_public_cannot_be_forbidden(tmp_path: Path) -> None:
    """Nothing was said, and what was forbidden was published again."""
    table = dense(schema_of([3, 2, 2]), [9, 9, 1, 8, 9, 9, 9, 9, 5, 5, 5, 5])
    write(table, tmp_path)
    published, relation = recoded(table, 0b011, 1, "other")
    folder_of(tmp_path, "other", [(published, relation)])
    folder_of(tmp_path, "same", [(Published("same", table.marginal(0b011), True), EarlierConfig(folder="same"))])
    with pytest.raises(ConfigError, match=r"forbid has A\*B, which was published before; take it out"):
        built(config(tmp_path, "public", [{"folder": "same"}], release={"forbid": ["A*B"]}))
    # a pattern is of the table's variables, not of those that follow from them
    earlier, wished = [relation.model_dump(mode="json", exclude_defaults=True)], {"require": [{"all": 2}]}
    pairs = built(config(tmp_path, "pairs", earlier, release=wished | {"forbid": [{"all": 3}]}))
    assert {"A*B", "A*C", "B*C"} <= {st.label(t, pairs.made.table.schema) for t in pairs.made.found.release.frontier}


def people(table: Table, folder: Path, first: int) -> Path:
    """Every record of a table with a number of its own."""
    codes = np.repeat(table.codes, table.counts, axis=0)
    categories = [variable.categories for variable in table.schema.variables]
    columns: dict[str, Any] = {
        name: [categories[v][code] for code in codes[:, v]] for v, name in enumerate(table.schema.names)
    }
    columns["pid"] = [f"p{first + number}" for number in range(len(codes))]
    write_csv(folder, columns)
    return folder


def test_a_key_of_the_records_decides_what_is_disjoint(tmp_path: Path) -> None:
    table = dense(schema_of([2, 2]), [9, 9, 9, 9])
    people(table, tmp_path / "table.csv", 0)
    folder_of(tmp_path, "before", [marginal(table, 0b11, "before")])
    folder_of(tmp_path, "mine", [marginal(table, 0b01, "mine")])
    key = {"column": "pid", "records": "others.csv"}
    own = {"path": "table.csv", "variables": ["A", "B"]}

    def build(**more: Any) -> Build:
        relation = {"folder": "before", "disjoint": True, "key": {**key, **more}}
        return built(config(tmp_path, "t", [relation, {"folder": "mine"}], table=own))

    people(table, tmp_path / "others.csv", 36)
    found = build()
    assert released(found) == {("A",)}  # what was published before
    assert found.origin.declared == (
        "before: of other records, none of which is in this table; tested by the column pid",
    )
    assert verify_run(found.folder.path).known == "read again from all that the config names"
    people(table, tmp_path / "others.csv", 35)
    told = verify_run(found.folder.path)
    assert not told.verified
    assert "by the key 'pid' they share 1 record" in told.failures[0]
    (tmp_path / "others.csv").unlink()
    assert "others.csv does not exist" in verify_run(found.folder.path).known
    folder_of(tmp_path, "mine", [marginal(table, 0b10, "mine")])
    assert "has other earlier publications" in verify_run(found.folder.path).failures[0]
    with pytest.raises(InputError, match=r"of other records than .*, and its A\*B has the total"):
        built(config(tmp_path, "t", [{"folder": "before", "disjoint": True}], table=own))
    for first, column, message in (
        (35, "pid", "by the key 'pid' they share 1 record"),
        (36, "A", "'A' does not name each record of .*table.csv: 36 have 2 different ones"),
        (36, "none", "has no column 'none' but A, B, pid"),
    ):
        people(table, tmp_path / "others.csv", first)
        with pytest.raises(InputError, match=message):
            build(column=column)
    people(dense(table.schema, [9, 9, 9, 8]), tmp_path / "others.csv", 36)
    with pytest.raises(InputError, match="has 35 records, and the publication of 36"):
        build()
    with pytest.raises(InputError, match=r"none\.csv does not exist"):
        build(records="none.csv")


def test_a_where_of_nobody_is_refused(tmp_path: Path) -> None:
    table = dense(schema_of([2, 2]), [9, 9, 9, 0])
    write(table, tmp_path)
    write_csv(tmp_path / "some.csv", {"A": ["1"], "count": [0]})
    with pytest.raises(InputError, match=r"some\.csv: no record of the table matches where"):
        built(config(tmp_path, "t", [{"folder": "some.csv", "where": {"A": ["1"], "B": ["1"]}}]))
    with pytest.raises(InputError, match="where names 1 category that 'A' does not have"):
        built(config(tmp_path, "t", [{"folder": "some.csv", "where": {"A": ["7"]}}]))


@pytest.mark.parametrize("twice", [{"folder": "a"}, {"entry": 1, "disjoint": True}])
def test_a_publication_is_named_once(czech_folder: Path, twice: dict[str, Any]) -> None:
    again = {**twice, "folder": "./b/../a"} if "folder" in twice else twice
    with pytest.raises(ConfigError, match=r"earlier lists .* twice; list each publication once"):
        open_build(config(czech_folder, "t", [twice, again], ledger="led"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"earlier": [{"entry": 1}]}, "earlier has entry 1, and no ledger is named"),
        ({"earlier": [{"folder": "a", "wher": {}}]}, "wher is an unknown key"),
    ],
)
def test_what_cannot_be_judged_with_it_is_refused(czech_folder: Path, more: dict[str, Any], message: str) -> None:
    earlier = more.pop("earlier", [{"folder": "x"}])
    with pytest.raises(ConfigError, match=message):
        open_build(config(czech_folder, "t", earlier, **more))


def test_an_earlier_folder_that_does_not_fit_is_refused(czech_folder: Path) -> None:
    write_csv(czech_folder / "other.csv", {"Q": ["x", "y"], "count": [3, 1]})
    for folder, message in (("none", "does not exist; give"), ("other.csv", "has the variable 'Q', which the")):
        with pytest.raises(InputError, match=message):
            built(config(czech_folder, "t", [{"folder": folder}]))
