"""Sub-tables that go out in part: how much of each is withheld, and a picture of where."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from sdc.model import subtable as st
from sdc.model.fact import Fact
from sdc.model.subtable import SubTable
from sdc.protect.one_table import least_suppressed
from sdc.report import svg
from sdc.report.evidence import AuditEvidence

PAGE, TOP, LEFT = 1000.0, 26.0, 26.0
LARGEST, SMALLEST, MOST_DRAWN = 14.0, 1.5, 30_000  # the side of a cell, and how many are drawn
MOST_NAMED = 20


@dataclass(frozen=True)
class PartRow:
    """A sub-table that goes out in part.

    cells, withheld  how many it has, and how many of them have no count; records  in these
    small            of these with 1 up to the small count; implied  of them those known without it
    why              why it does not fit whole, where it was required; picture  None where it has too many cells
    least            how many of its cells have to be withheld at least
    again            how many of them an earlier edition withheld; None where none was named
    new              names of those that it did not, the first of them
    share            of the records that the withheld cells hold; most  in one of them
    largest          the largest of them, and what each protects
    """

    label: str
    cells: int
    withheld: int
    records: int
    small: int
    implied: int
    why: str
    picture: Markup | None
    least: int
    again: int | None
    new: tuple[str, ...]
    share: float
    most: int
    largest: tuple[str, ...]


def in_part(audit: AuditEvidence) -> list[PartRow]:
    """What goes out but for some cells, as the search found it."""
    parts, schema, found = audit.found.suppressed_tables, audit.table.schema, list[PartRow]()
    known = audit.known.plus(audit.found.release).plus_facts(parts.facts)
    own = audit.criteria.primary_cells(audit.table, known, parts.before(audit.known))
    kept = {view: places for view, _, places in own.of_views(schema)}
    largest = {one.sub_table: tuple(cell.text for cell in one.largest) for one in audit.found.suppressed}
    for number, part in enumerate(parts.tables):
        fact = part.fact
        if part.base or fact.intervals is None:
            continue
        counts, cells = audit.table.marginal(fact.view).count_at(fact.intervals.cells), st.cells(fact.view, schema)
        small = int(((counts > 0) & (counts <= audit.criteria.primary_count)).sum())
        protected = kept.get(fact.view, np.zeros(0, np.int64))
        implied, least = small - len(protected), _least(audit, fact.view, protected)
        label, why = st.label(fact.view, schema), audit.found.required.why(fact.view) if audit.found.required else ""
        picture = _picture(audit, fact, f"part-{number}")
        again, new = _beside_before(audit, fact)
        numbers = cells, len(counts), int(counts.sum()), small, implied
        most = float(counts.sum() / audit.table.total), int(counts.max()), largest.get(label, ())
        found.append(PartRow(label, *numbers, why, picture, least, again, new, *most))
    return found


def _least(audit: AuditEvidence, view: SubTable, places: npt.NDArray[np.int64]) -> int:
    """How many cells of a sub-table have to be withheld at least beside what is known and released."""
    schema, known = audit.table.schema, audit.known.plus(audit.found.release)
    sizes = schema.restrict(st.members(view)).keys.sizes
    small = np.zeros(sizes, np.bool_)
    small.reshape(-1)[places] = True
    axes = [own for axis in schema.axes if (own := view & schema.levels.of_axis[axis])]
    return least_suppressed(small, [view & ~own in known.release for own in axes])


@dataclass(frozen=True)
class CoarserRow:
    """A sub-table that goes out with merged categories, and as what.

    cells    how many it has; left  and how many of what goes out
    records  which share is in merged categories
    """

    label: str
    coarser: str
    cells: int
    left: int
    records: float


def coarsened(audit: AuditEvidence) -> list[CoarserRow]:
    """What goes out with merged categories, as the search found it."""
    schema = audit.table.schema
    found = audit.origin.coarsened(audit.found.suppressed_required, audit.found.release, schema)
    return [
        CoarserRow(
            st.label(view, schema),
            st.label(coarser, schema),
            st.cells(view, schema),
            st.cells(coarser, schema),
            _in_merged(audit, view, coarser),
        )
        for view, coarser in found.items()
    ]


def _in_merged(audit: AuditEvidence, view: SubTable, coarser: SubTable) -> float:
    """Which share of the records is in categories that were merged with others."""
    levels = audit.table.schema.levels
    (level,) = st.members(levels.finest(coarser) & ~levels.finest(view))
    groups = levels.groups[level]
    records = audit.table.one_way()[levels.axis_of[level]]
    return float(records[(np.bincount(groups) > 1)[groups]].sum() / records.sum())


def rounded(audit: AuditEvidence) -> list[str]:
    """What goes out rounded, and what readers know of it."""
    schema, said = audit.table.schema, list[str]()
    for part in audit.found.suppressed_tables.tables:
        if part.base:
            by = "".join(f", its sums by {st.label(margin.view, schema)}" for margin in part.margins)
            said.append(
                f"{part.label(schema)} goes out rounded: readers know that each of its counts{by} and its total became "
                f"a multiple of {part.base} that is less than {part.base} away."
            )
    if said:
        said.append("Which of the tables that may be published so was chosen, and how, is taken as unknown to them.")
    return said


def _beside_before(audit: AuditEvidence, fact: Fact) -> tuple[int | None, tuple[str, ...]]:
    """How many cells are withheld that an earlier edition withheld, and the names of others."""
    if fact.view not in audit.again:
        return None, ()
    assert fact.intervals is not None
    inside = audit.table.schema.restrict(st.members(fact.view))
    before = np.isin(inside.keys.pack(fact.intervals.cells), audit.again[fact.view])
    return int(before.sum()), tuple(map(inside.written, fact.intervals.cells[~before][:MOST_NAMED]))


def _picture(audit: AuditEvidence, fact: Fact, name: str) -> Markup | None:
    """The cells in rows, by the longest axis, and columns, by all others; those withheld and small ones are marked."""
    marginal = audit.table.marginal(fact.view)
    schema, sizes = marginal.schema, marginal.schema.keys.sizes
    longest = int(np.argmax(sizes))
    others = [axis for axis in range(len(sizes)) if axis != longest]
    rows, columns = sizes[longest], prod(sizes[axis] for axis in others)
    side = min(LARGEST, (PAGE - LEFT) / columns)
    if rows * columns > MOST_DRAWN or side < SMALLEST:
        return None
    assert fact.intervals is not None
    withheld, dense = np.zeros(sizes, np.bool_), marginal.dense
    withheld[tuple(fact.intervals.cells.T)] = True
    order = [longest, *others]
    hidden, counts = (some.transpose(order).reshape(rows, columns) for some in (withheld, dense))
    small = (counts > 0) & (counts <= audit.criteria.primary_count)
    titles = [schema.variables[schema.axes[axis]].name for axis in order]
    parts = [
        svg.text(LEFT, 14, f"{' and '.join(titles[1:]) or 'all'} →", "t strong"),
        svg.text(0, 0, f"{titles[0]} →", "t strong", transform=f"translate(14 {TOP:.0f}) rotate(90)"),
        svg.box(LEFT, TOP, columns * side, rows * side, "#eef2f6", class_="edge"),
        _squares(np.argwhere(hidden), side, 0.0, "withheld"),
        _squares(np.argwhere(small), side, side / 5, "small-count"),
    ]
    description = (
        f"Each row is a category of {titles[0]}, the first at the top. A dark cell is withheld, a light one is "
        f"published; a bright mark is on each cell with a count of 1 to {audit.criteria.primary_count}."
    )
    title = f"Cells of {st.label(fact.view, audit.table.schema)}"
    return svg.figure(name, PAGE, TOP + max(rows * side, 90.0) + 8, title, description, parts)


def _squares(cells: npt.NDArray[np.int64], side: float, within: float, class_: str) -> Markup:
    """One path of all of them: thousands of elements would be slow to show."""
    length = side - 2 * within
    at = ((LEFT + column * side + within, TOP + row * side + within) for row, column in cells.tolist())
    drawn = "".join(f"M{x:.1f} {y:.1f}h{length:.1f}v{length:.1f}h-{length:.1f}z" for x, y in at)
    return svg.element("path", d=drawn, class_=class_)
