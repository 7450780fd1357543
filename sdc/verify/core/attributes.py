"""Whether a release tells of no small group what a sensitive variable is: that none has, or all have, a category.

A group is a cell of a sub-table without the variable's axis; what structural zeros exclude of it is no disclosure. All
sub-tables within the frontier are looked at where structural zeros speak of the variable, else the frontier alone: what
is broken within is broken there.
"""

from collections.abc import Iterator
from itertools import chain, combinations
from math import prod
from typing import Any

import numpy as np

from sdc.verify.core.levels import Array, Cells, SubTable, check
from sdc.verify.core.proof import Claims, EvidenceFolder, folded, matching

MOST_CELLS = 1 << 22  # of a grid in which cells are impossible or not
MOST_VARIABLES = 16  # of a sub-table all within which are looked at


def check_attributes(evidence: EvidenceFolder, claims: Claims, rule: dict[str, Any], claims_safe: bool) -> bool:
    """Whether the rule is kept; what breaks it is a failure where the release is called safe."""
    broken = [evidence.levels.label(view) for view in _broken(evidence, claims, rule)]
    what = f"{', '.join(broken[:5])} tells of a group of at most {rule['most']} records what is sensitive"
    evidence.holds((what, claims_safe and broken))
    return not broken


def _broken(evidence: EvidenceFolder, claims: Claims, rule: dict[str, Any]) -> Iterator[SubTable]:
    unknown = {*rule["sensitive"]} - evidence.categories.keys()
    check(not unknown, f"the sensitive variable {min(unknown, default='')!r} is unknown")
    sensitive = frozenset[str]().union(*(evidence.levels.closed(frozenset([name])) for name in rule["sensitive"]))
    in_part = [fact.view for fact in evidence.in_part.facts if fact.view not in evidence.in_part.rounded]
    for view in _looked_at(evidence, [*claims.release, *in_part], sensitive):
        if any(_is_told(evidence, view, v, rule) for v in view & sensitive):
            yield view


def _looked_at(evidence: EvidenceFolder, public: list[SubTable], sensitive: SubTable) -> Iterator[SubTable]:
    if not _is_in_zeros(evidence, sensitive):
        yield from public
        return
    most = max(map(len, public), default=0)
    check(most <= MOST_VARIABLES, f"all within a sub-table of {most} variables are not looked at")
    sizes = ((view, size) for view in public for size in range(len(view) + 1))
    subsets = chain.from_iterable(combinations(sorted(view), size) for view, size in sizes)
    yield from {evidence.levels.closed(frozenset(kept)) for kept in subsets}


def _is_in_zeros(evidence: EvidenceFolder, variables: SubTable) -> bool:
    """Whether a structural zero speaks of an axis of these variables."""
    named = frozenset[str]().union(*evidence.before.zeros)
    return any(
        family & variables and family & named for family in map(evidence.levels.told.get, evidence.axes) if family
    )


def _is_told(evidence: EvidenceFolder, view: SubTable, v: str, rule: dict[str, Any]) -> bool:
    """Whether of a group beside a sensitive variable too much is told, by the sub-table alone."""
    own = _beside(evidence, view, v)
    others = own - _family(evidence, v)
    columns, rows = {u: evidence.table[u] for u in evidence.levels.telling(others)}, len(evidence.counts)
    records = evidence.at(others, columns) if others else np.full(rows, evidence.total)
    present, possible = np.zeros((2, rows), np.int64)
    for category in range(len(evidence.categories[v])):
        cells = evidence.levels.with_levels({**columns, v: np.full(rows, category, "<u2")})
        present += evidence.at(own, cells) > 0
        possible += ~_excluded(evidence, own, v, cells)
    lacks = present < possible if rule["lacking"] else (present == 1) & (possible > 1)
    return bool((lacks & (records <= rule["most"])).any())


def _family(evidence: EvidenceFolder, v: str) -> SubTable:
    """The axis and the levels that a variable is of."""
    return next(family for axis in evidence.axes if v in (family := evidence.levels.told[axis]))


def _beside(evidence: EvidenceFolder, view: SubTable, v: str) -> SubTable:
    """The sub-table with the variable, and none that is finer, of its axis."""
    return evidence.levels.closed(view - _family(evidence, v) | {v})


def _excluded(evidence: EvidenceFolder, view: SubTable, v: str, cells: Cells) -> Array:
    """(n,) which cells of a sub-table hold impossible cells alone."""
    rows, zeros = len(next(iter(cells.values()))), evidence.before.zeros
    if not _is_in_zeros(evidence, frozenset([v])):
        return np.zeros(rows, np.bool_)
    named = view.union(*zeros)
    grid = _grid(evidence, [axis for axis in evidence.axes if evidence.levels.told[axis] & named])
    flags = np.append(matching(zeros, grid), np.ones(rows, np.bool_)).astype(np.int64)
    columns = [np.append(grid[u], cells[u]) for u in evidence.levels.telling(view)]
    return np.asarray(folded(np.minimum, columns, 0 * flags, flags)[-rows:] == 1)


def _grid(evidence: EvidenceFolder, variables: list[str]) -> Cells:
    """Every cell of these variables, of each axis one, with the levels that they tell."""
    sizes = [len(evidence.categories[v]) for v in variables]
    check(prod(sizes) <= MOST_CELLS, f"{' and '.join(variables)} have more than {MOST_CELLS} cells together")
    codes = np.indices(sizes).reshape(len(sizes), -1).astype("<u2")
    return evidence.levels.with_levels(dict(zip(variables, codes, strict=True)))
