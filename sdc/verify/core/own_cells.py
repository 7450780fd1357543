"""Small cells of suppressed or rounded sub-tables: the width of each over feasible tables.

Cells are exempt that prior knowledge alone, or for a sub-table published now the release without suppression, makes too
narrow: further suppression cannot widen them.
"""

from math import prod
from typing import Any

import numpy as np

from sdc.verify.core.levels import Array, Cells, SubTable, check, keys_of
from sdc.verify.core.proof import Claims, ComponentProof, EvidenceFolder, Fact, folded, is_within, matching

MOST_CELLS = 1 << 22  # of a sub-table


def own_cells(evidence: EvidenceFolder, claims: Claims, small_count: int, min_width: int) -> tuple[int, int, list[str]]:
    """Return how many cells must keep the width, for how many it is unproven, and the revealed sub-tables.

    Revealed: earlier publications suppressed such cells, and this release has the sub-table whole. Call it after the
    components have been proven.
    """
    cells, unproven, revealed = 0, 0, list[str]()
    for view in dict.fromkeys(fact.view for fact in evidence.known.facts):
        is_whole = is_within(view, claims.release)
        before = () if is_within(view, evidence.before.release) else evidence.before.facts
        is_out = is_whole and not any(_suppresses(evidence, fact) for fact in before if fact.view == view)
        own = {} if is_out else _small(evidence, view, small_count)
        own = own and _at(own, ~_narrow(evidence, view, own, min_width))
        if is_whole or not own:
            revealed += [evidence.levels.label(view)] if own and _len(own) else []
            continue
        inside = [part for part in claims.parts if view & evidence.essential <= part.variables]
        widths = np.max([_widths(evidence, view, own, part) for part in inside], axis=0, initial=0)
        cells, unproven = cells + _len(own), unproven + int((widths < min_width).sum() if inside else _len(own))
    return cells, unproven, revealed


def _suppresses(evidence: EvidenceFolder, fact: Fact) -> bool:
    every = prod(len(evidence.categories[v]) for v in evidence.levels.finest(fact.view))
    if fact.universe or not len(fact.low) == every > 0:
        return len(fact.low) > 0
    first = int(fact.low.argmax())
    base = max(int((fact.high - fact.low)[first] // 2 if fact.low[first] else fact.high[first]), 1) + 1
    counts = fact.high - base + 1
    is_near = np.array_equal(fact.low, np.maximum(counts - base + 1, 0)) and not (counts % base).any()
    return not is_near or base > evidence.total


def _len(cells: Cells) -> int:
    return len(next(iter(cells.values())))


def _at(cells: Cells, flags: Array) -> Cells:
    return {v: codes[flags] for v, codes in cells.items()}


def _small(evidence: EvidenceFolder, view: SubTable, small_count: int) -> Cells:
    """Cells of a view with 1 up to the small count that are known only between bounds; may be empty."""
    facts = [fact for fact in evidence.known.facts if fact.view == view]
    cells = {v: np.concatenate([fact.cells[v] for fact in facts]) for v in facts[0].cells}
    if not _len(cells):
        return {}
    key = keys_of(evidence.levels.columns(cells, view), np.zeros(_len(cells), np.int64))
    first = np.zeros(_len(cells), np.bool_)
    first[np.unique(key, return_index=True)[1]] = True
    cells = _at(cells, first)
    counts = evidence.at(view, cells)
    own_variables = np.any([_is_exact(evidence, fact, cells) for fact in facts], axis=0)
    cells = _at(cells, (counts > 0) & (counts <= small_count) & ~own_variables)
    return cells if _len(cells) else {}


def _is_exact(evidence: EvidenceFolder, fact: Fact, cells: Cells) -> Any:
    """(n,) whether a fact gives the exact counts of cells of its view."""
    low, high = evidence.room(fact, cells)
    inside = matching([fact.universe], cells)
    return inside & ~is_listed(evidence, fact, cells) & (low == 0) & (high == 0)


def is_listed(evidence: EvidenceFolder, fact: Fact, cells: Cells) -> Array:
    """(n,) whether a fact lists each cell, and so does not give its count."""
    listed = len(fact.low)
    both = [np.append(fact.cells[v], cells[v]) for v in evidence.levels.finest(fact.view)]
    key = keys_of(both, np.zeros(listed + _len(cells), np.int64))
    return np.isin(key[listed:], key[:listed])


def _narrow(evidence: EvidenceFolder, view: SubTable, own: Cells, min_width: int) -> Array:
    """(n,) which cells are narrower than the width by prior knowledge alone.

    A cell has at most the count of each of its marginals; at least one marginal's count minus the maxima of all other
    cells; then at most one marginal's count minus the minima of all others.
    """
    before, own_variables = evidence.before, evidence.levels.finest(view)
    if any(fact.view == view for fact in evidence.in_part.facts):
        before = before._replace(release=[*before.release, *evidence.in_part.beside])
    sizes = [len(evidence.categories[v]) for v in own_variables]
    check(prod(sizes) <= MOST_CELLS, f"{evidence.levels.label(view)} has more than {MOST_CELLS} cells, some suppressed")
    grid = evidence.levels.with_levels(dict(zip(own_variables, np.indices(sizes).reshape(len(sizes), -1), strict=True)))
    counts, cells = evidence.at(view, grid), prod(sizes)
    low, high = np.zeros(cells, np.int64), np.full(cells, evidence.total)
    for fact in [*before.facts, *evidence.labels_beside(before)]:
        if fact.view == view:
            least, most = evidence.room(fact, grid)
            low, high = np.maximum(low, counts + least), np.minimum(high, counts + most)
    high[matching(before.zeros, grid)] = 0
    shared = {frozenset[str](), *(element & view for element in before.release)}
    of = {part: keys_of(evidence.levels.columns(grid, part), 0 * counts) for part in shared}
    groups = [(group, evidence.at(part, grid)) for part, group in of.items()]
    for _, of_part in groups:
        high = np.minimum(high, of_part)
    for group, of_part in groups:
        low = np.maximum(low, of_part - (folded(np.add, (), group, high) - high))
    for group, of_part in groups:
        high = np.minimum(high, of_part - (folded(np.add, (), group, low) - low))
    place = np.ravel_multi_index([own[v].astype(np.int64) for v in own_variables], sizes)
    return np.asarray((high - low < min_width)[place])


def _widths(evidence: EvidenceFolder, view: SubTable, own: Cells, part: ComponentProof) -> Array:
    """(n,) difference of the largest and least count of each cell over the feasible tables of a component."""
    is_feasible, own_variables = evidence.is_feasible[part.variables], evidence.levels.finest(view & part.variables)
    of, cells, changes = part.of[is_feasible], _at(part.cells, is_feasible), part.changes[is_feasible]
    sums, number = folded(np.add, [cells[v] for v in own_variables], of, changes), _len(own)
    columns = [np.append(own[v], cells[v]) for v in own_variables]
    values = np.append(np.zeros(number, np.int64), sums)
    low, high = (folded(f, columns, 0 * values, values)[:number] for f in (np.minimum, np.maximum))
    return np.asarray(np.maximum(high, 0) - np.minimum(low, 0))
