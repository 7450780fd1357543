"""What a pattern tells to whoever knows how it was chosen, beside what whole refusals tell.

    python tests/benchmarks/pattern.py [tables] [most]

Random tables of 8 to 18 cells, of which all two-way sub-tables are required: those that do not fit whole are refused,
go out in part, or with merged categories. Each is released, and then every table that agrees with what is published is
released again by the same settings; who knows them is left with those that end the same. Printed are the tables with a
small cell that falls below the width by that alone, an at-risk cell or a small one of a sub-table in part, and how many
such cells there are. Of a table with which more than `most` agree, 2,000 unless told, nothing is told.

300 tables, the default, take more than half an hour; what is found so far is printed after every tenth of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from side_by_side import machine, say, show

from sdc.config.release import ReleaseConfig
from sdc.intruder.refusals import Refusals
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Policy
from sdc.stages.assemble import SearchSettings, release_search
from sdc.stages.refusals import refusals

SIZES = ((2, 2, 2), (2, 3, 2), (3, 3, 2), (2, 2, 3), (4, 2, 2))
SMALL_COUNT, MIN_WIDTH = 2, 2
WAYS: dict[str, dict[str, Any]] = {
    "refused whole": {},
    "in part": {"in_part": "withhold"},
    "merged": {"in_part": [{"of": {"all": 2}, "how": "coarsen"}]},
}


def main() -> None:
    say(machine())
    number, most = (int(told) for told in [*sys.argv[1:], *("300", "2000")[len(sys.argv) - 1 :]])
    found: dict[str, list[Refusals]] = {way: [] for way in WAYS}
    parts = 0
    for k, table in enumerate(islice(tables(np.random.default_rng(0)), number), 1):
        told = {way: tell(table, how, most) for way, how in WAYS.items()}
        if all(one is not None and one.reason is None for one in told.values()):
            for way, one in told.items():
                found[way] += [one] if one is not None else []
            parts += told["in part"] is not None and len(told["in part"].own_left) > 0
        if k == number or not k % max(1, number // 10):
            say(f"{len(found['in part'])} of {k} tables of which all that agree could be released again")
            rows = [row(way, told) for way, told in found.items()]
            show(f"Below the width for whoever knows the settings, {parts} in part", HEADER, rows)


HEADER = ("required sub-tables", "tables", "with such a cell", "at-risk cells", "such", "small cells in part", "such ")


def row(way: str, found: list[Refusals]) -> list[object]:
    narrowed = [one.narrowed(MIN_WIDTH) for one in found]
    cells, own = (sum(one[k] for one in narrowed) for k in (0, 1))
    at_risk, of_parts = sum(len(one.left) for one in found), sum(len(one.own_left) for one in found)
    return [way, len(found), sum(map(any, narrowed)), at_risk, cells, of_parts, own]


def tables(rng: np.random.Generator) -> Iterator[Table]:
    """With at-risk cells, without end."""
    while True:
        sizes = SIZES[rng.integers(len(SIZES))]
        variables = tuple(Variable("ABC"[v], tuple(map(str, range(size)))) for v, size in enumerate(sizes))
        cells = np.array([*np.ndindex(*sizes)], np.uint16)
        table = Table.of(Schema(variables), cells, rng.integers(0, 6, len(cells)) * (rng.random(len(cells)) < 0.8))
        if len(table.at_risk(SMALL_COUNT)):
            yield table


def tell(table: Table, how: dict[str, Any], most: int) -> Refusals | None:
    """What the release tells; None where there is none."""
    section = {"require": ("A*B", "A*C", "B*C"), "conflicts": "best_subset"} | how
    settings = SearchSettings(
        Criteria.of(SMALL_COUNT, MIN_WIDTH), Policy.REFUSE, release=ReleaseConfig.model_validate(section)
    )
    known = Knowledge.of(table, NOTHING, NO_ZEROS, ())
    if settings.release.coarsens:
        table, known, origin = settings.coarser(table, known)
        settings = replace(settings, origin=origin)
    try:
        found = release_search(table, known, settings, settings.widths(table)).run("ordered")
    except ReleaseError:
        return None
    return refusals(table, known, settings, "ordered", found.release, most, found.parts)


if __name__ == "__main__":
    main()
