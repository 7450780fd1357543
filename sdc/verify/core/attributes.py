"""Check that a release reveals no sensitive category of a small group: that none, or all, of the group have it.

A group is a cell of a sub-table without the variable's axis; categories that structural zeros exclude are no
disclosure. If structural zeros involve the variable, all sub-tables within the frontier are checked; otherwise the
frontier is enough, because a violation within it shows there too.
"""

from collections.abc import Iterator
from itertools import chain, combinations
from math import prod
from typing import Any

import numpy as np

from sdc.verify.core.levels import Array, Cells, SubTable, check
from sdc.verify.core.proof import Claims, EvidenceFolder, folded, matching

MOST_CELLS = 1 << 22  # of a grid of possible and impossible cells
MOST_VARIABLES = 16  # of a sub-table whose sub-tables are all checked


def check_attributes(evidence: EvidenceFolder, claims: Claims, rule: dict[str, Any], claims_safe: bool) -> bool:
    """Whether the rule holds; a violation is a failure if the release is called safe."""
    broken = [evidence.levels.label(view) for view in _broken(evidence, claims, rule)]
    what = f"{', '.join(broken[:5])} reveals a sensitive category of a group of at most {rule['most']} records"
    evidence.holds((what, claims_safe and broken))
    return not broken


def _broken(evidence: EvidenceFolder, claims: Claims, rule: dict[str, Any]) -> Iterator[SubTable]:
    unknown = {*rule["sensitive"]} - evidence.categories.keys()
    check(not unknown, f"the sensitive variable {min(unknown, default='')!r} is unknown")
    sensitive = frozenset[str]().union(*(evidence.levels.closed(frozenset([name])) for name in rule["sensitive"]))
    in_part = [fact.view for fact in evidence.in_part.facts if fact.view not in evidence.in_part.rounded]
    for view in _checked(evidence, [*claims.release, *in_part], sensitive):
        if any(_is_revealed(evidence, view, v, rule) for v in view & sensitive):
            yield view


def _checked(evidence: EvidenceFolder, public: list[SubTable], sensitive: SubTable) -> Iterator[SubTable]:
    if not _is_in_zeros(evidence, sensitive):
        yield from public
        return
    most = max(map(len, public), default=0)
    check(most <= MOST_VARIABLES, f"a sub-table has {most} variables, at most {MOST_VARIABLES} can be checked")
    sizes = ((view, size) for view in public for size in range(len(view) + 1))
    subsets = chain.from_iterable(combinations(sorted(view), size) for view, size in sizes)
    yield from {evidence.levels.closed(frozenset(subset)) for subset in subsets}


def _is_in_zeros(evidence: EvidenceFolder, variables: SubTable) -> bool:
    named = frozenset[str]().union(*evidence.before.zeros)
    families = (evidence.levels.implied[axis] for axis in evidence.axes)
    return any(family & variables and family & named for family in families)


def _is_revealed(evidence: EvidenceFolder, view: SubTable, v: str, rule: dict[str, Any]) -> bool:
    """Whether the sub-table reveals too much of a sensitive variable for some group."""
    own = _beside(evidence, view, v)
    others = own - _family(evidence, v)
    columns, rows = {u: evidence.table[u] for u in evidence.levels.finest(others)}, len(evidence.counts)
    records = evidence.at(others, columns) if others else np.full(rows, evidence.total)
    present, possible = np.zeros((2, rows), np.int64)
    for category in range(len(evidence.categories[v])):
        cells = evidence.levels.with_levels({**columns, v: np.full(rows, category, "<u2")})
        present += evidence.at(own, cells) > 0
        possible += ~_excluded(evidence, own, v, cells)
    lacks = present < possible if rule["lacking"] else (present == 1) & (possible > 1)
    return bool((lacks & (records <= rule["most"])).any())


def _family(evidence: EvidenceFolder, v: str) -> SubTable:
    return next(family for axis in evidence.axes if v in (family := evidence.levels.implied[axis]))


def _beside(evidence: EvidenceFolder, view: SubTable, v: str) -> SubTable:
    """The sub-table with the variable instead of finer ones of its axis."""
    return evidence.levels.closed(view - _family(evidence, v) | {v})


def _excluded(evidence: EvidenceFolder, view: SubTable, v: str, cells: Cells) -> Array:
    """(n,) cells of a sub-table that contain impossible cells only."""
    rows, zeros = len(next(iter(cells.values()))), evidence.before.zeros
    if not _is_in_zeros(evidence, frozenset([v])):
        return np.zeros(rows, np.bool_)
    named = view.union(*zeros)
    grid = _grid(evidence, [axis for axis in evidence.axes if evidence.levels.implied[axis] & named])
    flags = np.append(matching(zeros, grid), np.ones(rows, np.bool_)).astype(np.int64)
    columns = [np.append(grid[u], cells[u]) for u in evidence.levels.finest(view)]
    return np.asarray(folded(np.minimum, columns, 0 * flags, flags)[-rows:] == 1)


def _grid(evidence: EvidenceFolder, variables: list[str]) -> Cells:
    """Every cell of these variables, at most one for each axis, with their levels."""
    sizes = [len(evidence.categories[v]) for v in variables]
    check(prod(sizes) <= MOST_CELLS, f"{' and '.join(variables)} have more than {MOST_CELLS} cells together")
    codes = np.indices(sizes).reshape(len(sizes), -1).astype("<u2")
    return evidence.levels.with_levels(dict(zip(variables, codes, strict=True)))
