"""Sub-tables in part: how much of tables by small areas is withheld, and how much more than the proven least.

    python tests/benchmarks/withholding.py [areas] [search] [least]

areas  A made-up yearbook of 150,000 people in 300 areas of very different size: beside five larger tables that are
       public, area by age, by education and by employment, each alone and all three together. Printed are the cells
       that are withheld, all small ones among them, the records in these, and small cells without a proof, of which
       there is to be none.
search The whole search for a release of the yearbook, with all eight tables required: where what does not fit whole
       goes out in part, where it goes out with merged categories, and where it is refused.
least  Two-way tables by themselves, also with rows in groups: records and cells withheld by differences beside the
       least, where `sdc.treat.suppression` proves it within a minute; beside the hypercube method, with cubes that
       are wide enough and with any that are not 0; and beside G-Confid, where GCONFID_PYTHON names an interpreter
       that has it. Of what others withhold it is said how many small cells it leaves too narrow.

The areas take a minute, the searches half an hour, `least` twenty minutes: most of it is for the proofs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from rival_patterns import Dense, Flags, by_cubes, by_gconfid, narrow, small_cells
from side_by_side import check, in_child, machine, say, show, timed

from sdc.config.release import ReleaseConfig
from sdc.model import subtable as st
from sdc.model.errors import NotReleasableError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.inquiry import Inquiry
from sdc.risk.verdict import Policy, Verdict
from sdc.search.withholding import withhold
from sdc.stages.assemble import SearchSettings, release_search
from sdc.treat.suppression import suppress

SMALL_COUNT, MIN_WIDTH = 2, 3
PUBLIC = ("region*sex*edu*emp", "area*region*sex", "region*age*sex", "age*sex*edu", "age*sex*emp")
ASKED = (("area*age",), ("area*edu",), ("area*emp",), ("area*edu", "area*emp", "area*age"))
SIDES, EACH, GROUP = (10, 16, 24, 40, 64), 3, 8
SECONDS = 60.0  # for a proof


def main() -> None:
    say(machine())
    asked = sys.argv[1:] or ["areas", "search", "least"]
    if "areas" in asked:
        areas()
    if "search" in asked:
        search()
    if "least" in asked:
        least()


def areas() -> None:
    by_areas("by areas", yearbook(), ASKED)


def by_areas(title: str, table: Table, asked: Sequence[Sequence[str]]) -> None:
    """Sub-tables of the yearbook in part beside those that are public, those of a line together."""
    public = Release.of(st.parse(name, table.schema) for name in PUBLIC)
    inquiry = Inquiry(table, Knowledge.of(table, public, NO_ZEROS, ()), Criteria.of(SMALL_COUNT, MIN_WIDTH))
    check(inquiry.ask(NOTHING).verdict is Verdict.SAFE, "what is public is not safe by itself")
    withhold(inquiry, [st.parse("area*emp", table.schema)])  # kernels are compiled
    rows: list[list[object]] = []
    for names in asked:
        views = [st.parse(name, table.schema) for name in names]
        found, *took = timed(partial(withhold, inquiry, views))
        verdict = found.inquiry.ask(NOTHING).verdict
        check(verdict is Verdict.SAFE, f"{names} in part: {verdict.name}")
        for name, view, hidden, own in zip(names, views, found.hidden, found.own, strict=True):
            counts = table.marginal(view).dense.reshape(-1)
            shares = f"{hidden.mean():.1%}", f"{counts[hidden].sum() / counts.sum():.1%}"
            rows.append([" + ".join(names), name, len(hidden), len(own.counts), *shares, int(own.refuted.sum()), *took])
    header = ["together", "in part", "cells", "small", "withheld", "records", "refuted", "s", "processor s"]
    show(title, header, rows)


def search() -> None:
    """In part first, so that no kernel is compiled for the other alone."""
    whole, rows = yearbook(), list[list[object]]()
    asked = {"require": (*PUBLIC, *(name for (name,) in ASKED[:3]))}
    coarser = [{"of": name, "how": "coarsen"} for (name,) in ASKED[:3]]
    ways: dict[str, dict[str, Any]] = {
        "withhold": {"in_part": "withhold"},
        "coarsen": {"in_part": coarser},
        "refuse": {"conflicts": "best_subset"},
    }
    for way, section in ways.items():
        release = ReleaseConfig.model_validate(asked | section)
        settings = SearchSettings(Criteria.of(SMALL_COUNT, MIN_WIDTH), Policy.REFUSE, release=release)
        begun = time.perf_counter()
        table, known = whole, Knowledge.of(whole, NOTHING, NO_ZEROS, ())
        if release.coarsens:
            table, known, origin = settings.coarser(table, known)
            settings = replace(settings, origin=origin)
        widths = settings.widths(table)
        found = release_search(table, known, settings, widths).run("ordered")
        took = time.perf_counter() - begun
        check(found.judgement.verdict is Verdict.SAFE, f"{way}: {found.judgement.verdict.name}")
        required = found.required
        assert required is not None
        fit = len(required.sub_tables) - len(required.refused) - len(required.in_part)
        withheld = [
            f"{len(fact.between.cells) / st.cells(fact.view, table.schema):.1%}"
            for fact in found.parts.facts
            if fact.between is not None
        ]
        levels = settings.origin.coarsened(required.in_part, found.release, table.schema)
        withheld += [
            f"{st.cells(coarse, table.schema)} of {st.cells(view, table.schema)} cells left"
            for view, coarse in levels.items()
        ]
        counts = fit, len(required.in_part), len(required.refused), ", ".join(withheld), found.sub_tables
        rows.append([way, *counts, required.asked, len(found.steps), took])
    about = "withheld or left", "sub-tables", "about required", "questions", "s"
    header = ["otherwise", "whole", "in part", "refused", *about]
    show("the search, all required", header, rows)


def yearbook(records: int = 150_000, number: int = 300) -> Table:
    """People by area, region, age, sex, education and employment, of areas whose sizes have a heavy tail."""
    rng, to_a_region = np.random.default_rng(5), number // 10
    size = rng.pareto(1.2, number) + 0.3
    area = rng.choice(number, records, p=size / size.sum())
    age = np.minimum(17, rng.gamma(3, 2.2, records).astype(int))
    sex = rng.integers(0, 2, records)
    edu = np.clip(rng.normal(2 + 0.5 * (area % 3) - 0.15 * np.abs(age - 7), 1.1).round().astype(int), 0, 4)
    old, grown = rng.choice(4, records, p=[0.05, 0.05, 0.1, 0.8]), rng.choice(4, records, p=[0.1, 0.65, 0.1, 0.15])
    emp = np.where(age < 3, 0, np.where(age > 13, old, grown))
    sizes = {"area": number, "region": 10, "age": 18, "sex": 2, "edu": 5, "emp": 4}
    schema = Schema(tuple(Variable(name, tuple(f"{c:03d}" for c in range(n))) for name, n in sizes.items()))
    return Table.of(schema, np.stack([area, area // to_a_region, age, sex, edu, emp], axis=1).astype(np.uint16))


def least() -> None:
    """Also with rows in groups, whose sums are public: then groups are tables of their own, proven each by itself."""
    rows: list[list[object]] = []
    for side in SIDES:
        for size in (side, GROUP):
            groups = [slice(begin, min(begin + size, side)) for begin in range(0, side, size)]
            rows += [_least(side, seed, groups) for seed in range(EACH)]
    header = ["table", "groups", "small", "least", "cost", "in part", "cost", "ratio", "s", "processor s"]
    others = ["cubes", "narrow", "non-zero cubes", "narrow", "G-Confid", "narrow"]
    show("two-way tables alone", [*header, *others], rows)
    for kind, chosen in (("all", rows), ("grouped", [row for row in rows if row[1] != 1])):
        ratios = [row[7] for row in chosen if isinstance(row[7], float)]
        if ratios:
            told = f"{sum(ratios) / len(ratios):.2f} times the least on average, {max(ratios):.2f} at most"
            say(f"{kind}: {told}, of {len(ratios)} proven")


def _least(side: int, seed: int, groups: Sequence[slice]) -> list[object]:
    """A table, in part and by others: a row."""
    counts = np.random.default_rng([side, seed]).negative_binomial(1, 0.08, (side, side))
    hidden, *took = timed(partial(_in_part, counts, groups))
    check(not narrow(counts, hidden, groups, SMALL_COUNT, MIN_WIDTH), f"{side} x {side}: in part it is not wide enough")
    row = [f"{side}x{side}", len(groups), int(small_cells(counts, SMALL_COUNT).sum())]
    proven = in_child(_proven, counts, groups, limit=SECONDS)
    row += proven if proven else ["", ""]
    row += [int(hidden.sum()), _cost(counts, hidden), _cost(counts, hidden) / proven[1] if proven else "", *took]
    for others in (partial(_cubes, width=MIN_WIDTH), partial(_cubes, width=1), _gconfid):
        found = others(counts, groups)
        row += (
            ["", ""] if found is None else [_cost(counts, found), narrow(counts, found, groups, SMALL_COUNT, MIN_WIDTH)]
        )
    return row


def _in_part(counts: Dense, groups: Sequence[slice]) -> Flags:
    """The cells withheld by differences, beside the margins and the sums of the groups."""
    side, told = len(counts), [1, 2]
    variables = [Variable(name, tuple(map(str, range(side)))) for name in "AB"]
    if len(groups) > 1:
        of = tuple(at for at, group in enumerate(groups) for _ in counts[group])
        variables.append(Variable("G", tuple(map(str, range(len(groups)))), Coarser("A", of)))
        told.append(0b110)
    schema = Schema(tuple(variables))
    table = Table.of(schema, np.argwhere(counts >= 0).astype(np.uint16), counts.reshape(-1))
    known = Knowledge.of(table, Release.of(map(schema.levels.closed, told)), NO_ZEROS, ())
    found = withhold(Inquiry(table, known, Criteria.of(SMALL_COUNT, MIN_WIDTH)), [3], cost="records")
    return found.hidden[0].reshape(counts.shape)


def _proven(counts: Dense, groups: Sequence[slice]) -> tuple[int, int] | None:
    """Cells and cost of the least, where it is proven of each group, and there is any."""
    try:
        found = [suppress(counts[group], SMALL_COUNT, MIN_WIDTH) for group in groups]
    except NotReleasableError:
        return None
    cells = sum(int(one.withheld.sum()) for one in found)
    return (cells, cells + sum(one.weight for one in found)) if all(one.optimal for one in found) else None


def _cubes(counts: Dense, groups: Sequence[slice], width: int) -> Flags:
    return np.concatenate([by_cubes(counts[group], SMALL_COUNT, width)[0] for group in groups])


def _gconfid(counts: Dense, groups: Sequence[slice]) -> Flags | None:
    return by_gconfid(counts, groups, SMALL_COUNT, MIN_WIDTH, SECONDS)


def _cost(counts: Dense, hidden: Flags) -> int:
    """Records and cells."""
    return int(counts[hidden].sum() + hidden.sum())


if __name__ == "__main__":
    main()
