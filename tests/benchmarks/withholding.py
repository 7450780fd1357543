"""Sub-tables in part: how much of tables by small areas is withheld, and how much more than the proven least.

    python tests/benchmarks/withholding.py [areas] [search] [least]

areas  A made-up yearbook of 150,000 people in 300 areas of very different size: beside five larger tables that are
       public, area by age, by education and by employment, each alone and all three together. Printed are the cells
       that are withheld, all small ones among them, the records in these, and small cells without a proof, of which
       there is to be none.
search The whole search for a release of the yearbook, with all eight tables required: where what does not fit whole
       goes out in part, and where it is refused.
least  Two-way tables by themselves, of which `sdc.treat.suppression` proves the least of records and cells: the same
       by differences, and how many more are withheld.

The areas take some five minutes, the searches half an hour; of `least` a table of 10 x 10 takes ten seconds, and
larger ones much longer.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from side_by_side import check, machine, say, show

from sdc.config.release import ReleaseConfig
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
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
SIDES, EACH = (10, 16, 24, 40, 64), 3


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
    table = yearbook()
    public = Release.of(st.parse(name, table.schema) for name in PUBLIC)
    inquiry = Inquiry(table, Knowledge.of(table, public, NO_ZEROS, ()), Criteria.of(SMALL_COUNT, MIN_WIDTH))
    check(inquiry.ask(NOTHING).verdict is Verdict.SAFE, "what is public is not safe by itself")
    withhold(inquiry, [st.parse("area*emp", table.schema)])  # kernels are compiled
    rows: list[list[object]] = []
    for names in ASKED:
        views = [st.parse(name, table.schema) for name in names]
        begun = time.perf_counter()
        found = withhold(inquiry, views)
        took = time.perf_counter() - begun
        verdict = found.inquiry.ask(NOTHING).verdict
        check(verdict is Verdict.SAFE, f"{names} in part: {verdict.name}")
        for name, view, hidden, own in zip(names, views, found.hidden, found.own, strict=True):
            counts = table.marginal(view).dense.reshape(-1)
            shares = f"{hidden.mean():.1%}", f"{counts[hidden].sum() / counts.sum():.1%}"
            rows.append([" + ".join(names), name, len(hidden), len(own.counts), *shares, int(own.refuted.sum()), took])
    show("by areas", ["together", "in part", "cells", "small", "withheld", "records", "refuted", "s"], rows)


def search() -> None:
    """In part first, so that no kernel is compiled for the other alone."""
    table, rows = yearbook(), list[list[object]]()
    known = Knowledge.of(table, NOTHING, NO_ZEROS, ())
    asked = {"require": (*PUBLIC, *(name for (name,) in ASKED[:3]))}
    for ways in ({"in_part": "withhold"}, {"conflicts": "best_subset"}):
        release = ReleaseConfig.model_validate(asked | ways)
        settings = SearchSettings(Criteria.of(SMALL_COUNT, MIN_WIDTH), Policy.REFUSE, release=release)
        begun = time.perf_counter()
        widths = settings.widths(table)
        found = release_search(table, known, settings, widths).run("ordered")
        took = time.perf_counter() - begun
        check(found.judgement.verdict is Verdict.SAFE, f"{ways}: {found.judgement.verdict.name}")
        required = found.required
        assert required is not None
        whole = len(required.sub_tables) - len(required.refused) - len(required.in_part)
        withheld = [
            f"{len(fact.between.cells) / st.cells(fact.view, table.schema):.1%}"
            for fact in found.parts.facts
            if fact.between is not None
        ]
        counts = whole, len(required.in_part), len(required.refused), ", ".join(withheld), found.sub_tables
        rows.append([*ways.values(), *counts, required.asked, len(found.steps), took])
    header = ["otherwise", "whole", "in part", "refused", "withheld", "sub-tables", "about required", "questions", "s"]
    show("the search, all required", header, rows)


def yearbook() -> Table:
    """People by area, region, age, sex, education and employment, of areas whose sizes have a heavy tail."""
    rng, records, number = np.random.default_rng(5), 150_000, 300
    size = rng.pareto(1.2, number) + 0.3
    area = rng.choice(number, records, p=size / size.sum())
    age = np.minimum(17, rng.gamma(3, 2.2, records).astype(int))
    sex = rng.integers(0, 2, records)
    edu = np.clip(rng.normal(2 + 0.5 * (area % 3) - 0.15 * np.abs(age - 7), 1.1).round().astype(int), 0, 4)
    old, grown = rng.choice(4, records, p=[0.05, 0.05, 0.1, 0.8]), rng.choice(4, records, p=[0.1, 0.65, 0.1, 0.15])
    emp = np.where(age < 3, 0, np.where(age > 13, old, grown))
    sizes = {"area": number, "region": 10, "age": 18, "sex": 2, "edu": 5, "emp": 4}
    schema = Schema(tuple(Variable(name, tuple(f"{c:03d}" for c in range(n))) for name, n in sizes.items()))
    return Table.of(schema, np.stack([area, area // 30, age, sex, edu, emp], axis=1).astype(np.uint16))


def least() -> None:
    rows: list[list[object]] = []
    for side in SIDES:
        for seed in range(EACH):
            counts = np.random.default_rng([side, seed]).negative_binomial(1, 0.08, (side, side))
            schema = Schema(tuple(Variable(name, tuple(map(str, range(side)))) for name in "AB"))
            table = Table.of(schema, np.argwhere(counts >= 0).astype(np.uint16), counts.reshape(-1))
            begun = time.perf_counter()
            proven = suppress(counts, SMALL_COUNT, MIN_WIDTH)
            between = time.perf_counter()
            known = Knowledge.of(table, Release.of([1, 2]), NO_ZEROS, ())
            found = withhold(Inquiry(table, known, Criteria.of(SMALL_COUNT, MIN_WIDTH)), [3], cost="records")
            ended = time.perf_counter()
            hidden = found.hidden[0].reshape(counts.shape)
            small = int(((counts > 0) & (counts <= SMALL_COUNT)).sum())
            cells = small, int(proven.withheld.sum()), int(hidden.sum())
            costs = proven.weight + cells[1], int(counts[hidden].sum()) + cells[2]
            proof = "yes" if proven.optimal else "no"
            times = between - begun, ended - between
            rows.append([f"{side}x{side}", *cells, proof, *costs, costs[1] / costs[0], *times])
    header = ["table", "small", "least", "by differences", "proven", "cost", "by differences", "ratio", "s", "s"]
    show("two-way tables alone", header, rows)
    ratios = [row[7] for row in rows if isinstance(row[7], float)]
    say(f"{sum(ratios) / len(ratios):.2f} times the records and cells of the least, on average")


if __name__ == "__main__":
    main()
