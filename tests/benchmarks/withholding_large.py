"""Sub-tables in part of larger tables, of real ones, and of many required at once.

    python tests/benchmarks/withholding_large.py [three] [many] [cps8] [census] [cps] [large]

three  The made-up yearbook of `withholding.py` with area by age by sex in part, beside the tables that are public.
many   The same of 2,000 areas and a million records: area by education, employment and age, each alone and together.
cps8   cps8.parquet at width 3 under the ordered release, which is maximal: each minimal sub-table outside it in part,
       alone; and a search for which all of them are required.
census Twenty tables that an office would print of census_10.yaml's ten variables, required: what does not fit whole in
       part, beside the best subset. No search is given more than five minutes.
cps    The same of the monthly surveys of cps_basic_2011.parquet by state, quarter, age and five more.
large  Made-up sub-tables in part beside their margins, of ten thousand cells to a million, a tenth of them small.

Three takes a minute, cps8, census and cps five to ten each. Of many each by itself takes from one minute to more than
five, and all three together some twenty-five. A table of a million cells, of which a hundred thousand are small, takes
eight minutes of processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import yaml
from side_by_side import check, data_file, machine, peak_mib, say, show, timed
from withholding import ASKED, MIN_WIDTH, SMALL_COUNT, by_areas, yearbook

from sdc.config.release import ReleaseConfig
from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.parts import Parts
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.inquiry import Inquiry
from sdc.risk.verdict import Policy, Verdict
from sdc.search.best import FoundRelease
from sdc.search.pace import Ending
from sdc.search.parts import FoundParts, in_part
from sdc.search.wishes import PartWish
from sdc.search.withholding import withhold
from sdc.stages.assemble import NOBODY, SearchSettings, Watch, release_search

MINUTES = 5.0
WAYS: tuple[dict[str, str], ...] = (
    {"in_part": "withhold", "conflicts": "best_subset"},
    {"conflicts": "best_subset"},
)
OF_A_CENSUS = (
    "age*sex",
    "age*race",
    "age*education",
    "age*marital",
    "age*employment",
    "sex*income",
    "race*income",
    "education*income",
    "worker_class*income",
    "citizenship*income",
    "age*sex*race",
    "age*sex*marital",
    "age*sex*education",
    "age*sex*employment",
    "age*race*citizenship",
    "race*hispanic*citizenship",
    "sex*education*worker_class",
    "sex*employment*worker_class",
    "race*education*worker_class",
    "race*employment*worker_class",
)
OF_SURVEYS = (
    "state*sex",
    "state*age",
    "state*race",
    "state*hispanic",
    "state*status",
    "quarter*status",
    "age*status",
    "race*status",
    "state*age*sex",
    "state*sex*status",
    "state*quarter*status",
    "state*race*sex",
    "state*race*hispanic",
    "age*sex*status",
    "age*sex*race",
    "age*race*status",
    "sex*race*status",
    "state*age*status",
    "state*age*race",
    "state*race*status",
)
SURVEYS: dict[str, Any] = {
    "variables": ["state", "quarter", "age", "sex", "race", "hispanic", "status", "person"],
    "columns": {"state": "state_fips", "person": "person_type"},
    "recodes": {
        "quarter": {
            "column": "month",
            "bins": {"first": [None, 4], "second": [4, 7], "third": [7, 10], "fourth": [10, None]},
        },
        "age": {
            "bins": {"under 16": [None, 16], "65 and over": [65, None]}
            | {f"{age} to {age + 9}": [age, age + 10] for age in (25, 35, 45)}
            | {"16 to 24": [16, 25], "55 to 64": [55, 65]}
        },
        "race": {
            "groups": {"white": ["1"], "black": ["2"], "native": ["3"], "asian": ["4"], "islander": ["5"], "more": "*"}
        },
        "status": {
            "column": "labor_force_status",
            "groups": {
                "none": ["-1"],
                "work": ["1"],
                "away": ["2"],
                "laid off": ["3"],
                "looking": ["4"],
                "retired": ["5"],
                "disabled": ["6"],
                "other": ["7"],
            },
        },
    },
}


def main() -> None:
    say(machine())
    sections = {"three": three, "many": many, "cps8": cps8, "census": census, "cps": cps, "large": large}
    for name in sys.argv[1:] or sections:
        sections[name]()


def three() -> None:
    by_areas("three variables", yearbook(), [["area*age*sex"]])


def many() -> None:
    table = yearbook(1_000_000, 2_000)
    for names in ASKED:
        by_areas("2,000 areas", table, [names])  # each is told once it is there


# Under a maximal release, and required


def cps8() -> None:
    table = read_table(str(data_file("cps8.parquet")))
    grown, *took = timed(partial(searched, table, MIN_WIDTH, {}))
    outside = grown.release.minimal_uncovered(len(table.schema))
    say(f"cps8: {grown.sub_tables} sub-tables, {len(outside)} minimal ones outside; {took[0]:.1f} s, {took[1]:.1f} s")
    settings = SearchSettings(Criteria.of(SMALL_COUNT, MIN_WIDTH), Policy.REFUSE)
    inquiry = settings.inquiry(table, Knowledge.of(table, NOTHING, NO_ZEROS, ()))
    rows = [alone(table, inquiry, grown, view) for view in outside]
    header = ["outside, alone", "cells", "small", "in part", "withheld", "records", "s", "processor s"]
    show("cps8, each beside the maximal release", header, rows)
    required(
        table, "cps8, all of these required", MIN_WIDTH, [st.label(view, table.schema) for view in outside], MINUTES
    )


def alone(table: Table, inquiry: Inquiry, grown: FoundRelease, view: SubTable) -> list[object]:
    """A sub-table in part beside a release: a row."""
    found: FoundParts
    found, *took = timed(partial(in_part, inquiry, grown.judgement, [PartWish(view)]))
    counts = table.marginal(view).dense.reshape(-1)
    small = int(((counts > 0) & (counts <= SMALL_COUNT)).sum())
    name, how = st.label(view, table.schema), "no" if found.refused else "yes" if found.parts.tables else "whole"
    cells, records = next(((cells, records) for *_, cells, records in withheld(table, found.parts)), (0, 0))
    return [name, len(counts), small, how, f"{cells / len(counts):.1%}", f"{records / table.total:.1%}", *took]


def searched(
    table: Table, width: int, release: Mapping[str, Any], watch: Watch = NOBODY, minutes: float | None = None
) -> FoundRelease:
    """What a search finds, of which all is to be safe."""
    config = ReleaseConfig.model_validate({"minutes": minutes, **release})
    settings = SearchSettings(Criteria.of(SMALL_COUNT, width), Policy.REFUSE, release=config)
    known = Knowledge.of(table, NOTHING, NO_ZEROS, ())
    found = release_search(table, known, settings, settings.widths(table), watch, Ending.of(config)).run("ordered")
    check(found.judgement.verdict is Verdict.SAFE, f"{release}: {found.judgement.verdict.name}")
    return found


def required(table: Table, title: str, width: int, names: Sequence[str], minutes: float | None = None) -> None:
    """Searches for which all of these are required, with sub-tables in part and without."""
    rows, parts = list[list[object]](), list[list[object]]()
    for ways in WAYS:
        grows: list[float] = []
        watch = Watch(on_step=lambda step, grows=grows: grows.append(time.perf_counter()))
        begun = time.perf_counter()
        found, *took = timed(partial(searched, table, width, {"require": names, **ways}, watch, minutes))
        before = (grows[-len(found.steps)] if found.steps else begun + took[0]) - begun
        said = found.required
        assert said is not None
        whole = len(said.sub_tables) - len(said.refused) - len(said.in_part)
        hidden = withheld(table, found.parts)
        parts += [[st.label(view, table.schema), *of] for view, *of in hidden]
        cells, records = shown(table, said.sub_tables, said.refused, hidden)
        counts = whole, len(said.in_part), len(said.refused), f"{cells:.1%}", f"{records:.1%}", found.sub_tables
        rows.append([" ".join(ways.values()), *counts, said.asked, len(found.steps), before, *took])
    header = [
        "otherwise",
        "whole",
        "in part",
        "refused",
        "cells shown",
        "records",
        "sub-tables",
        "asked about required",
    ]
    show(title, [*header, "and growth", "s before growth", "s", "processor s"], rows)
    show("in part", ["", "cells", "withheld", "records"], parts)


def withheld(table: Table, parts: Parts) -> list[tuple[SubTable, int, int, int]]:
    """Of each sub-table in part its cells, those withheld, and the records in these."""
    found = []
    for fact in parts.facts:
        assert fact.between is not None
        records = int(table.marginal(fact.view).count_at(fact.between.cells).sum())
        found.append((fact.view, st.cells(fact.view, table.schema), len(fact.between.cells), records))
    return found


def shown(
    table: Table,
    asked: Sequence[SubTable],
    refused: Sequence[SubTable],
    hidden: Sequence[tuple[SubTable, int, int, int]],
) -> tuple[float, float]:
    """The share of the cells of all that is asked for that are shown, and of the records in them."""
    cells = sum(st.cells(view, table.schema) for view in asked)
    lacking = sum(st.cells(view, table.schema) for view in refused) + sum(cell for *_, cell, _ in hidden)
    records = len(refused) * table.total + sum(record for *_, record in hidden)
    return 1 - lacking / cells, 1 - records / (len(asked) * table.total)


# Twenty tables that an office would print


def census() -> None:
    config = yaml.safe_load(data_file("census_10.yaml").read_text())
    settings = {name: value for name, value in config["table"].items() if name != "path"}
    table = read_table(str(data_file("census_income_kdd.parquet")), **settings)
    required(table, "census_10, twenty required", config["risk"]["min_width"], OF_A_CENSUS, MINUTES)


def cps() -> None:
    table = read_table(str(data_file("cps_basic_2011.parquet")), **SURVEYS)
    say(f"surveys: {table.total:,} records, {len(table):,} cells")
    required(table, "surveys, twenty required", MIN_WIDTH, OF_SURVEYS, MINUTES)


# A million cells


def large() -> None:
    for side in (100, 200, 400, 1_000):
        _large(side)


def _large(side: int) -> None:
    counts = np.random.default_rng(side).negative_binomial(1, 0.055, (side, side))
    codes = np.argwhere(counts > 0)
    schema = Schema(tuple(Variable(name, tuple(map(str, range(side)))) for name in "AB"))
    table = Table.of(schema, codes, counts[tuple(codes.T)])
    known = Knowledge.of(table, Release.of([1, 2]), NO_ZEROS, ())
    inquiry = Inquiry(table, known, Criteria.of(SMALL_COUNT, MIN_WIDTH))
    found, *took = timed(partial(withhold, inquiry, [3]))
    (hidden,), (own,) = found.hidden, found.own
    safe = found.inquiry.ask(NOTHING).verdict.name
    row = [len(hidden), len(own.counts), int(hidden.sum()), int(own.refuted.sum()), safe, peak_mib(), *took]
    header = ["cells", "small", "withheld", "refuted", "all is", "MiB", "s", "processor s"]
    show(f"{side} x {side}", header, [row])


if __name__ == "__main__":
    main()
