"""Levels on which sub-tables may go out that do not fit whole, beside listings of all tables that agree."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sdc.config.release import ReleaseConfig
from sdc.deadline import NEVER, Deadline
from sdc.model import subtable as st
from sdc.model.errors import InputError, NotReleasableError
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.protect.recoding import Merged, known_at, merged, without_levels
from sdc.protect.request import ProtectionRequest
from sdc.public.earlier import Provenance
from sdc.risk.criteria import Criteria
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.verdict import Policy
from sdc.search.best import FoundRelease
from sdc.stages.assemble import SearchSettings, no_widths, release_search
from tests.helpers.deadlines import AfterLooks
from tests.profiles import scaled
from tests.reference import Fact, TooManyTablesError, exact, feasible

SIZES, NAMES = (5, 2, 2), ("area", "sex", "old")
AREAS = ("small", "other", "town", "city", "port")


def table(counts: np.ndarray, areas: tuple[str, ...] = AREAS) -> Table:
    own = [areas, *([f"{name}{code}" for code in range(size)] for name, size in zip(NAMES[1:], SIZES[1:], strict=True))]
    schema = Schema(tuple(Variable(name, tuple(c)) for name, c in zip(NAMES, own, strict=True)))
    return Table.of(schema, np.argwhere(counts >= 0).astype(np.uint16), counts.reshape(-1))


def planned(own: Table, *constraints: ProtectionRequest, width: int = 2, beside: Release = NOTHING) -> Merged:
    evaluator = RiskEvaluator(own, Knowledge.of(own, NOTHING, NO_ZEROS, NO_FACTS), Criteria.of(2, width))
    return merged(evaluator, constraints, 0, beside)


def groups_of(found: Merged) -> list[tuple[int, ...]]:
    levels = found.table.schema.variables[len(NAMES) :]
    return [level.of.groups for level in levels if level.of is not None]


def by_area(*counts: list[int]) -> np.ndarray:
    """Counts by area and sex, which are many of both ages."""
    return np.stack([np.array(counts), np.full((5, 2), 30)], axis=2)


def test_small_categories_are_merged_with_each_other_first() -> None:
    counts = np.array([[1, 9], [9, 2], [20, 30], [40, 50], [60, 60]])
    own = table(np.stack([counts, 0 * counts + 40], axis=2))
    found = planned(own, ProtectionRequest(0b111, ("recoding",)))
    ((label, level),) = found.tried
    assert (label, level) == ("area*sex*old", "area_merged")
    variable = found.table.schema.variables[-1]
    assert variable.categories == ("small or other", "town", "city", "port")
    assert variable.of == Coarser("area", (0, 0, 1, 2, 3))
    assert found.table.schema.variables[:3] == own.schema.variables
    assert found.table.counts.tolist() == own.counts.tolist()


def test_neighbours_alone_are_merged_of_categories_that_are_numbers_in_order() -> None:
    counts = np.array([[1, 9], [20, 30], [40, 50], [60, 60], [9, 1]])
    dense = np.stack([counts, 0 * counts + 40], axis=2)
    wish = ProtectionRequest(0b111, ("recoding",), merge="area")
    for areas in (("0", "1", "2", "3", "4"), ("15-24", "25-34", "35-44", "45-64", "65+")):
        assert groups_of(planned(table(dense, areas), wish)) == [(0, 0, 1, 2, 2)]
    # codes of as many digits are none, and neither are names
    for areas in (("07", "08", "09", "10", "11"), AREAS):
        assert groups_of(planned(table(dense, areas), wish)) == [(0, 1, 2, 3, 0)]


def test_categories_are_merged_within_what_they_tell() -> None:
    """Areas of one region alone: the region's sums are public with others, and would tell areas of two apart."""
    counts = np.array([2, 30, 2, 30, 2, 2])
    schema = Schema((Variable("area", tuple("abcdef")), Variable("region", ("n", "s")), Variable("sex", ("f", "m"))))
    codes = np.array([[area, area // 3, sex] for area in range(6) for sex in range(2)], np.uint16)
    own = Table.of(schema, codes, np.repeat(counts, 2))
    found = planned(own, ProtectionRequest(0b101, ("recoding",)), width=3, beside=Release.of([0b110]))
    (groups,) = (v.of.groups for v in found.table.schema.variables if v.of is not None)
    assert groups == (0, 1, 0, 2, 3, 3)


def test_levels_of_one_axis_are_a_chain() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        own = table(rng.choice([0, 1, 2, 3, 20], SIZES))
        found = planned(own, *(ProtectionRequest(view, ("recoding",), merge="area") for view in (0b011, 0b101, 0b111)))
        levels = sorted(groups_of(found), key=lambda groups: -len({*groups}))
        for fine, coarse in pairwise(levels):
            assert len({*zip(fine, coarse, strict=True)}) == len({*fine})


def test_no_more_than_is_wished_for_is_merged() -> None:
    counts = by_area([1, 9], [9, 2], [20, 30], [40, 50], [60, 60])
    wish = ProtectionRequest(0b111, ("recoding",), merge="area", max_share=0.3)
    assert planned(table(counts), wish).tried == ()


def by_age(*counts: list[int]) -> Table:
    """Counts by area and age of each sex; ages have two levels."""
    schema = Schema(
        (
            Variable("area", tuple("nsw")[: len(counts)]),
            Variable("old", ("no", "yes"), Coarser("age", (0, 0, 1, 1))),
            Variable("older", ("0", "1", "more"), Coarser("age", (0, 1, 2, 2))),
            Variable("age", ("0", "1", "2", "3")),
            Variable("sex", ("f", "m")),
        )
    )
    dense = np.stack([np.array(counts)] * 2, axis=2)
    return Table.of(schema, np.argwhere(dense >= 0).astype(np.uint16), dense.reshape(-1))


def test_levels_that_any_axis_has_are_tried_beside_the_one_that_is_made() -> None:
    """What leaves most cells first, here 9 of 12, then 8, then 6."""
    own = by_age([1, 9, 1, 9], [9, 9, 9, 9], [9, 9, 9, 9])
    view = own.schema.levels.closed(st.parse("area*age", own.schema))
    found = planned(own, ProtectionRequest(view, ("recoding",)), width=3)
    assert found.tried == tuple(("area*age", level) for level in ("older", "area_merged", "old"))
    assert planned(own, ProtectionRequest(view, ("recoding",), merge="area"), width=3).tried == (
        ("area*age", "area_merged"),
    )
    most = planned(own, ProtectionRequest(view, ("recoding",), max_share=0.7), width=3)
    assert most.tried == (("area*age", "older"), ("area*age", "area_merged"))


def test_what_has_no_categories_to_merge_goes_out_at_a_level_of_another_axis() -> None:
    """Two areas merged are all; by the finer level of ages a small count would tell itself."""
    own = by_age([1, 9, 1, 9], [9, 9, 9, 9])
    section = {"require": ["area*age"], "required_only": True, "protect": [{"of": "area*age", "by": "recoding"}]}
    found, origin = find(own, section)
    assert [level for _, level in origin.tried] == ["older", "old"]
    schema = found.evaluation.knowledge.schema
    assert [st.label(element, schema) for element in found.release.frontier] == ["area*old"]


def find(own: Table, section: dict[str, Any], deadline: Deadline = NEVER) -> tuple[FoundRelease, Provenance]:
    """The release of a section, with the levels that are made for it."""
    settings = SearchSettings(Criteria.of(2, 3), Policy.REFUSE, release=ReleaseConfig.model_validate(section))
    table, known, origin = settings.coarser(own, Knowledge.of(own, NOTHING, NO_ZEROS, NO_FACTS), deadline)
    return release_search(table, known, replace(settings, origin=origin), no_widths()).run("ordered"), origin


def test_levels_are_made_until_the_deadline() -> None:
    """What has none by then is refused, which is said."""
    own = table(by_area([1, 9], [9, 2], [20, 30], [40, 50], [60, 60]))
    section = {"require": ["area*sex*old"], "required_only": True, "on_conflict": "drop"}
    section["protect"] = [{"of": "area*sex*old", "by": "recoding"}]
    found = list[FoundRelease]()
    for walks in (0, 1, None):
        one, origin = find(own, section, NEVER if walks is None else AfterLooks(most=walks))
        assert origin.planned == (None if walks is None else 0)
        assert (not origin.left) == (walks is None)
        found.append(one)
        said = f"ended early before it was found which categories to merge of {', '.join(origin.left)}; more time"
        assert (said in (found[-1].reason or "")) == (walks is not None)
    assert [one.ended_after for one in found] == [{"coarsening": 0}, {"coarsening": 0}, {}]
    none, some = found[0].required, found[2].required
    assert none is not None
    assert some is not None
    assert (len(none.refused), len(some.refused)) == (1, 0)
    with pytest.raises(NotReleasableError, match="ended early before it was found which of them to merge; give it"):
        find(own, section | {"on_conflict": "refuse"}, AfterLooks(most=1))


def test_what_has_no_axis_is_refused() -> None:
    own = table(by_area([1, 9], [9, 2], [20, 30], [40, 50], [60, 60]))
    with pytest.raises(InputError, match=r"recode area\*sex .* 'old' is none of its axes; name an axis"):
        planned(own, ProtectionRequest(0b011, ("recoding",), merge="old"))


def test_levels_are_taken_off_again() -> None:
    own = table(by_area([1, 9], [9, 2], [20, 30], [40, 50], [60, 60]))
    known = Knowledge.of(own, Release.of([0b011]), NO_ZEROS, NO_FACTS)
    found = planned(own, ProtectionRequest(0b111, ("recoding",), merge="area"))
    more = known_at(known, found.table.schema)
    assert more.release.frontier == (0b1011,)
    assert without_levels(found.table, more, 0b1000) == (own, known)


def test_what_goes_out_with_merged_categories_keeps_the_width() -> None:
    """Judged by a listing of all tables that agree with what is released, cell by cell of its levels."""
    rng, judged = np.random.default_rng(9), 0
    while judged < scaled(60, fewest=4):
        counts = np.concatenate([rng.choice([0, 1, 1, 2, 3, 4], (4, 2, 2)), np.zeros((1, 2, 2), np.int64)])
        if counts.sum() > 14:
            continue  # too many tables agree
        own, at_risk = table(counts), (counts > 0) & (counts <= 2)
        section = {"of": "area*sex", "by": "recoding", "cost": ("cells", "records")[judged % 2]}
        asked = {"require": ["sex", "area*sex"], "on_conflict": "drop", "required_only": True, "protect": [section]}
        settings = SearchSettings(Criteria.of(2, 2), Policy.REFUSE, release=ReleaseConfig.model_validate(asked))
        try:
            levelled, before, origin = settings.coarser(own, Knowledge.of(own, NOTHING, NO_ZEROS, NO_FACTS))
            settings = replace(settings, origin=origin)
            found = release_search(levelled, before, settings, settings.widths(levelled)).run("ordered")
            assert found.required is not None
            if not origin.coarsened(found.required.in_part, found.release, levelled.schema):
                continue  # it fits whole
            facts = told(found.release.frontier, levelled.schema, counts)
            tables = feasible(SIZES, [*exact(counts, ()), *facts], 30_000)[:, at_risk.reshape(-1)]
        except (NotReleasableError, TooManyTablesError):
            continue
        assert (np.ptp(tables, axis=0) >= 2).all()
        judged += 1


def told(frontier: Iterable[int], schema: Schema, counts: np.ndarray) -> Iterator[Fact]:
    """What sub-tables on whatever levels tell, cell by cell."""
    cells = np.argwhere(counts >= 0)
    for element in frontier:
        codes = schema.columns(cells, st.members(schema.levels.finest(element)))
        for group in np.unique(codes, axis=0):
            inside = [tuple(cell) for cell in cells[(codes == group).all(axis=1)].tolist()]
            count = sum(int(counts[cell]) for cell in inside)
            yield Fact(frozenset(inside), count, count)
