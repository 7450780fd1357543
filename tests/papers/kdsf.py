"""[KDSF]: critical widths, the ordered marginals, the decomposable releases and the query space over time."""

from collections.abc import Iterable

from sdc import api
from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.release import Release
from sdc.report.figures import ByDimension, levels, most_dangerous
from tests.papers import pictures
from tests.papers.item import Item, Value
from tests.papers.sources import CPS, CZECH, SMALL_COUNT, WIDTH, Sources, prefix

_TABLE_3 = """ACDEF 3, ABCDE 5, ABDEF 6, BCDEF 9, ACDE 10, ABCEF 10, ABCDF 10, ADEF 12, ABDE 12, BDEF 20, ABDF 20,
ACDF 21, CDEF 22, BCDE 23, ABEF 23, ADE 25, ACEF 25, ABCE 26, ABCF 30, ABCD 30, DEF 45, ADF 49, BCEF 52, CDE 54,
AEF 55, BDE 56, ABD 57, ACE 58, ABF 58, ACF 59, ACD 61, ABE 61, ABC 64, BCDF 68, DE 119"""
PRINTED_WIDTHS: dict[str, int] = {
    letters: int(width) for letters, width in (entry.split() for entry in _TABLE_3.split(","))
}
CHAIN = ["ACDEF", "ACDE", "ADE", "DE"]
LEFT_OUT = ["ABCDEF", "ACDEF", "ABCDE", "ABDEF"]
REVERSED = (
    "the letters of the printed table are those of the data in reverse, A for F, B for E and C for D: with them turned "
    "round every entry is found"
)
PRINTED_CPS = {
    3: "[1,7,8,11,12,13] [2,3,7,8,11,12,13] [2,3,4,7,8,11,13] [2,5,7,8,11,13] [5,6,7,8,11,13] [2,4,7,9,11,13] "
    "[2,7,8,10,11,13] [7,8,11,12,13]",
    4: "[1,2,8,11,13] [2,3,4,7,8,11,13] [2,3,7,8,11,12,13] [3,4,5,7,8,13] [3,7,8,9,11,13] [2,7,8,10,11,13] "
    "[3,6,8,12,13]",
    5: "[1,2,7,9,13] [2,7,8,9,11,13] [2,3,7,8,11,13] [2,3,4,7,11,13] [5,7,8,11,12,13] [3,6,8,11,13] [7,8,10,11,12]",
}
"""The released frontiers of the CPS table by the width required."""
RECODE = (
    "the paper's recode of the public records was not published: ours has the same attributes and numbers of "
    "categories, and puts other records together"
)


def turned(letters: str) -> str:
    """A sub-table of the Czech table with its letters reversed."""
    return "".join(sorted(letters.translate(str.maketrans("ABCDEF", "FEDCBA"))))


def _named(subtable: st.SubTable) -> str:
    return "".join(st.names(subtable, CZECH.schema))


def _by_size(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (-len(name), name))


def _graph(width: int) -> DecomposableGraph:
    return DecomposableGraph.parse(PRINTED_CPS[width], CPS)


def _data(_: Sources) -> Value:
    risky = CZECH.counts[CZECH.at_risk(SMALL_COUNT)]
    return {
        "records": CZECH.total,
        "cells": CZECH.schema.cells,
        **{f"cells of count {n}": int((risky == n).sum()) for n in (1, 2)},
    }


def _widths(sources: Sources) -> Value:
    listed = most_dangerous(sources.widths, CZECH.schema, len(PRINTED_WIDTHS))
    return {_named(subtable): width for subtable, width in listed}


def _chains(sources: Sources) -> Value:
    """What is left open of other tables: whether such a chain exists."""
    found = ByDimension.of(levels(sources.widths, CZECH.schema), CZECH.schema)
    return [_named(subtable) for chain in found.chains for subtable in chain]


def _equation_10(sources: Sources) -> Value:
    """At which widths the most dangerous sub-table is bad: its release is not safe for a width of one more."""
    ((subtable, width),) = most_dangerous(sources.widths, CZECH.schema, 1)
    alone = Release.of([subtable, *(1 << axis for axis in CZECH.schema.axes)])  # MPR(T), section 5.2
    found = [
        w
        for w in range(2 * width + 2)
        if not api.assess(CZECH, alone, min_width=w + 1, small_count=SMALL_COUNT).releasable
    ]
    is_smallest = found == list(range(width, 2 * width + 2))
    return f"the {'smallest' if is_smallest else 'largest'} w at which T is bad"


def _prefixes(_: Sources) -> Value:
    return {f"width {w}": prefix(w).sub_tables_with_total(CZECH.schema) for w in range(6, 10)}


def _left_out(sources: Sources) -> Value:
    release = sources.ordered
    return _by_size(_named(t) for t in range(len(sources.widths)) if t not in release)


def _by_dimension(width: int) -> Value:
    release = _graph(width).release
    by_dimension = list(reversed(release.by_dimension(CPS)[1:]))
    return {"sub-tables": release.sub_tables(CPS), "of 7 to 1 variables": by_dimension}


def _counted_cps(sources: Sources) -> Value:
    counts = sources.cps.counts
    numbers = {"ones": 1, "twos": 2, "threes": 3}
    return {
        "records": sources.cps.total,
        "non-zero cells": len(counts),
        **{name: int((counts == n).sum()) for name, n in numbers.items()},
    }


def _annealed_cps(sources: Sources) -> Value:
    return {
        f"width {w}": api.find_release(
            sources.cps, "decomposable", min_width=w, small_count=3, chains=2, steps=20_000
        ).sub_tables
        for w in PRINTED_CPS
    }


def _utility(sources: Sources) -> Value:
    found = {"ordered": sources.ordered, "decomposable": sources.annealed.release}
    return {name: release.sub_tables_with_total(CZECH.schema) for name, release in found.items()}


ITEMS = (
    Item(
        "kdsf-czech",
        "KDSF",
        "section 5.2",
        "The table of the Czech car workers: its size, and its cells with counts of 1 and 2.",
        {"records": 1841, "cells": 64, "cells of count 1": 1, "cells of count 2": 2},
        _data,
    ),
    Item(
        "kdsf-table-3",
        "KDSF",
        "table 3",
        "The 35 most dangerous sub-tables of the Czech table by critical width.",
        PRINTED_WIDTHS,
        _widths,
        checked={turned(letters): width for letters, width in PRINTED_WIDTHS.items()},
        why=REVERSED,
        draw=lambda sources, _: pictures.query_space(sources.widths, sources.ordered),
    ),
    Item(
        "kdsf-figure-6",
        "KDSF",
        "figure 6",
        "A most dangerous sub-table of each dimension of the Czech table, each of which contains the next one.",
        CHAIN,
        _chains,
        checked=list(map(turned, CHAIN)),
        why=REVERSED,
    ),
    Item(
        "kdsf-equation-10",
        "KDSF",
        "equation 10",
        "What the critical width of a sub-table T is, of all w at which T is bad: that has a cell of width w or less.",
        "the largest w at which T is bad",
        _equation_10,
        checked="the smallest w at which T is bad",
        why="a sub-table that is bad at a width is bad at every larger one, so that there is no largest; what table 3 "
        "prints is the smallest",
    ),
    Item(
        "kdsf-ordered",
        "KDSF",
        "section 5.2",
        "Ordered marginals: sub-tables of the longest releasable prefix, of 64 with the grand total.",
        {f"width {w}": 60 for w in range(6, 10)},
        _prefixes,
        draw=lambda sources, _: pictures.bounds(sources.ordered),
    ),
    Item(
        "kdsf-left-out",
        "KDSF",
        "section 5.2",
        "Ordered marginals: the sub-tables that are not released.",
        _by_size(LEFT_OUT),
        _left_out,
        checked=_by_size(map(turned, LEFT_OUT)),
        why=REVERSED,
        draw=lambda sources, _: pictures.matrix(sources.ordered),
    ),
    Item(
        "kdsf-decomposable",
        "KDSF",
        "section 5.2",
        f"The best decomposable release of the Czech table at width {WIDTH} by annealing, of 64 with the grand total.",
        48,
        lambda sources: sources.annealed.sub_tables_with_total,
    ),
    Item(
        "kdsf-equation-5",
        "KDSF",
        "equation 5",
        f"The utility of both releases of the Czech table, in sub-tables with the grand total, at width {WIDTH}.",
        {"ordered": 60, "decomposable": 48},
        _utility,
        draw=lambda _, __: pictures.risk_utility(),
    ),
    Item(
        "kdsf-cps-space",
        "KDSF",
        "section 5.1",
        "The CPS table of 13 attributes: its cells, and its sub-tables without the grand total.",
        {"cells": 2_592_000, "sub-tables": 8191},
        lambda _: {"cells": CPS.cells, "sub-tables": st.full(len(CPS))},
    ),
    Item(
        "kdsf-cps-counts",
        "KDSF",
        "section 5.1",
        "The counts of the CPS table.",
        {"records": 299_285, "non-zero cells": 41_672, "ones": 22_996, "twos": 6_435, "threes": 3_032},
        _counted_cps,
        checked={"records": 299_285, "non-zero cells": 41_674, "ones": 23_133, "twos": 6_368, "threes": 3_004},
        why=RECODE,
        needs="cps13.parquet",
    ),
    Item(
        "kdsf-cps-3",
        "KDSF",
        "section 5.1",
        "Sub-tables of the decomposable release for width 3, counted from its printed frontier.",
        {"sub-tables": 351, "of 7 to 1 variables": [2, 18, 61, 105, 100, 52, 13]},
        lambda _: _by_dimension(3),
    ),
    Item(
        "kdsf-cps-3-frontier",
        "KDSF",
        "section 5.1",
        "How many sub-tables the printed frontier for width 3 has.",
        8,
        lambda _: len(_graph(3).release.frontier),
        checked=7,
        why="the printed [7,8,11,12,13] is within [1,7,8,11,12,13], and no frontier has both",
    ),
    Item(
        "kdsf-cps-4",
        "KDSF",
        "section 5.1",
        "Sub-tables of the decomposable release for width 4, counted from its printed frontier.",
        319,
        lambda _: _graph(4).release.sub_tables(CPS),
    ),
    Item(
        "kdsf-cps-5",
        "KDSF",
        "section 5.1",
        "Sub-tables of the decomposable release for width 5, counted from its printed frontier.",
        239,
        lambda _: _graph(5).release.sub_tables(CPS),
        checked=223,
        why="the printed frontier has 223, counted one by one: the number or the frontier is a misprint",
    ),
    Item(
        "kdsf-cps-annealed",
        "KDSF",
        "section 5.1",
        "Sub-tables of the decomposable releases of the CPS table that annealing finds, with counts of 1 to 3 at risk.",
        {"width 3": 351, "width 4": 319, "width 5": 239},
        _annealed_cps,
        checked={"width 3": 271, "width 4": 271, "width 5": 255},
        why=RECODE,
        needs="cps13.parquet",
    ),
    Item(
        "kdsf-cps-recode",
        "KDSF",
        "section 5.1",
        "The same releases on the paper's own recode of the records.",
        {"width 3": 351, "width 4": 319, "width 5": 239},
        None,
        needs="the groups of categories of the 13 attributes, which were never published",
    ),
)
