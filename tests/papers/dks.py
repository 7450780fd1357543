"""[DKS] and [DF]: explicit bounds, linear programs, the shuttle, and dichotomous tables."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from sdc import api
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.graph import independence_graph, is_chordal
from sdc.model.release import Release
from sdc.model.table import Table
from tests.papers.item import Item, Value
from tests.papers.sources import CZECH, DELAWARE, DELAWARE_RELEASE, UNSETTLED, Sources, all_ways

PAIRS = all_ways(UNSETTLED.schema, 2)
ALL_BUT_ONE = all_ways(CZECH.schema, len(CZECH.schema) - 1)
COUNTED_GRAPHS = 6  # vertices
SCALE = 3
"""A program's ends are thirds here: of a table three times as large they are whole, and come out exactly."""


def _bounds(table: Table, release: Release | list[str], method: str) -> CellBounds:
    return api.cell_bounds(table, release, cells="all", method=method)


def _unsettled(ends: object) -> dict[str, Value]:
    """By the categories of the cells of [DKS] table 1, in the order of `cell_bounds`."""
    cells = np.indices([2] * 4).reshape(4, -1).T.tolist()
    return dict(zip(("".join("ny"[code] for code in cell) for cell in cells), ends, strict=True))  # type: ignore[call-overload]


def _printed_program() -> Value:
    """[0, 1] for the ones, [0, 0.67] for the zeros and [0, 1.67] for (n, n, y, n)."""
    upper = np.where(UNSETTLED.dense.reshape(-1) == 1, 1.0, 0.67)
    return {**_unsettled([[0, end] for end in upper.tolist()]), "nnyn": [0, 1.67]}


def _program(_: Sources) -> Value:
    larger = Table.of(UNSETTLED.schema, UNSETTLED.codes, SCALE * UNSETTLED.counts)
    found = _bounds(larger, PAIRS, "linear-program")
    return _unsettled([[low, round(high / SCALE, 4)] for low, high in found.outer.tolist()])


def _sharp(_: Sources) -> Value:
    return _unsettled(_bounds(UNSETTLED, PAIRS, "enumeration").outer.tolist())


def _shuttle(_: Sources) -> Value:
    return {
        "decomposable": _beside(DELAWARE, DELAWARE_RELEASE),
        "dichotomous, all with one variable fewer": _beside(CZECH, ALL_BUT_ONE),
        "table 1, all pairs": _beside(UNSETTLED, PAIRS),
    }


def _beside(table: Table, release: Release | list[str]) -> str:
    """How the shuttle's bounds of all cells lie to the sharp ones."""
    found, sharp = (_bounds(table, release, method).outer for method in ("shuttle", "enumeration"))
    if (found == sharp).all():
        return "sharp"
    inside = (found[:, 0] <= sharp[:, 0]).all() and (found[:, 1] >= sharp[:, 1]).all()
    return "contain the sharp bounds" if inside else "do not contain the sharp bounds"


def _explicit(_: Sources) -> Value:
    explicit, sharp = (_bounds(DELAWARE, DELAWARE_RELEASE, method).outer for method in ("decomposable", "enumeration"))
    return {"cells": len(sharp), "of sharp bounds": int((explicit == sharp).all(axis=1).sum())}


def _dichotomous(_: Sources) -> Value:
    widths = _bounds(CZECH, ALL_BUT_ONE, "dichotomous").outer_width
    return {
        "widths": sorted({*widths.tolist()}),
        "feasible tables": api.enumerate_tables(CZECH, ALL_BUT_ONE).feasible_tables,
    }


def _equal(_: Sources) -> Value:
    found = _bounds(CZECH, ALL_BUT_ONE, "dichotomous")
    if (found.outer[:, 0] == found.outer[:, 1]).all():
        return "lower and upper bounds are equal"
    return "widths are equal" if len({*found.outer_width.tolist()}) == 1 else "nothing is equal"


def _graphs(vertices: int) -> Iterator[list[st.SubTable]]:
    pairs = [1 << a | 1 << b for a, b in combinations(range(vertices), 2)]
    for bits in range(1 << len(pairs)):
        yield [pair for k, pair in enumerate(pairs) if bits >> k & 1]


def _decomposable_graphs(_: Sources) -> Value:
    return {
        f"vertices {n}": sum(is_chordal(independence_graph(edges, n)) for edges in _graphs(n))
        for n in range(1, COUNTED_GRAPHS + 1)
    }


def _branches(sources: Sources) -> Value:
    """Of whom both ends meet, and are those of an enumeration."""
    return {
        "table 1, all pairs": _met(UNSETTLED, PAIRS),
        "Czech table, the longest prefix": _met(CZECH, sources.ordered),
    }


def _met(table: Table, release: Release) -> str:
    found, sharp = (_bounds(table, release, method).outer for method in ("branch-and-bound", "enumeration"))
    return "sharp" if (found == sharp).all() else "not sharp"


def _decomposable(sources: Sources) -> Value:
    found = [_bounds(CZECH, sources.annealed.release, name).outer for name in ("decomposable", "integer-program")]
    return {"cells": CZECH.schema.cells, "of sharp bounds": int((found[0] == found[1]).all(axis=1).sum())}


NUMBERS = (1, 2, 8, 61, 822, 18_154, 617_675, 30_888_596)

ITEMS = (
    Item(
        "df-theorem",
        "DF",
        "theorem",
        "Explicit bounds of a decomposable release are sharp: of the best of the Czech table, beside integer programs.",
        {"cells": 64, "of sharp bounds": 64},
        _decomposable,
    ),
    Item(
        "dks-theorem-1",
        "DKS",
        "theorem 1",
        "Explicit bounds of a decomposable release are sharp: of the table of [DFT], all cells beside an enumeration.",
        {"cells": 18, "of sharp bounds": 18},
        _explicit,
    ),
    Item(
        "dks-table-1",
        "DKS",
        "table 1",
        "A table of 16 cells that no other table agrees with in all pairs: sharp bounds are the counts.",
        _unsettled([[count, count] for count in UNSETTLED.dense.reshape(-1).tolist()]),
        _sharp,
    ),
    Item(
        "dks-table-1-program",
        "DKS",
        "table 1",
        "The bounds of the same cells by linear programming: of a table three times as large, divided by 3.",
        _printed_program(),
        _program,
        within=0.005,
    ),
    Item(
        "dks-shuttle",
        "DKS",
        "section 4",
        "The generalised shuttle: where its bounds are sharp, and that elsewhere they contain the sharp ones.",
        {
            "decomposable": "sharp",
            "dichotomous, all with one variable fewer": "sharp",
            "table 1, all pairs": "contain the sharp bounds",
        },
        _shuttle,
    ),
    Item(
        "dks-branches",
        "DKS",
        "section 4.5",
        "Branch and bound with the shuttle inside is sharp for any release: all cells, beside an enumeration.",
        {"table 1, all pairs": "sharp", "Czech table, the longest prefix": "sharp"},
        _branches,
    ),
    Item(
        "dks-proposition-1",
        "DKS",
        "proposition 1",
        "Dichotomous tables with all sub-tables of one variable fewer: all widths are one less than the number of "
        "feasible tables; here of the Czech table.",
        {"widths": [1], "feasible tables": 2},
        _dichotomous,
    ),
    Item(
        "dks-equal",
        "DKS",
        "section 4.2",
        "The same tables: what is equal.",
        "equal",
        _equal,
        checked="widths are equal",
        why="it is the widths that are equal, and not the two bounds of a cell, between which at least one count lies",
    ),
    Item(
        "dks-graphs",
        "DKS",
        "section 2",
        "The decomposable graphs on up to 6 labelled vertices, among all graphs.",
        {f"vertices {n}": number for n, number in enumerate(NUMBERS[:COUNTED_GRAPHS], start=1)},
        _decomposable_graphs,
    ),
    Item(
        "dks-graphs-8",
        "DKS",
        "section 2",
        "The decomposable graphs on 7 and 8 labelled vertices.",
        {f"vertices {n}": number for n, number in enumerate(NUMBERS[COUNTED_GRAPHS:], start=COUNTED_GRAPHS + 1)},
        None,
        needs="hours: every one of 2^21 and 2^28 graphs would be looked at",
    ),
)
