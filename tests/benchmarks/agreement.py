"""Answers about random tables beside the enumeration of all their feasible tables, with and without exact methods.

    python tests/benchmarks/agreement.py [2000] [seed]

A third of the tables have structural zeros. Each is judged twice under min widths 1 to 4: as a small table, by exact
methods, and as if it were large, by walks, sparsest differences and outer bounds. A wrong verdict, an inner end beyond
the sharp one, an outer one within it, or a proof that does not show its inner ends is a fault, and the exit status then
1; what stays undecided is counted. Some minutes.
"""

from __future__ import annotations

import collections
import sys
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from side_by_side import machine, say

from sdc.bounds.enumeration import enumerate_tables
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Budget, Effort
from sdc.risk.inquiry import Inquiry
from sdc.risk.support import support_of
from sdc.risk.verdict import Verdict

SMALL_COUNT, MIN_WIDTHS, MOST_TABLES = 2, (1, 2, 3, 4), 200_000
BUDGET = Budget(0.2, 20)


def main() -> None:
    number, seed = (int(word) for word in (*sys.argv[1:], *("2000", "0")[len(sys.argv) - 1 :]))
    say(f"{machine()}; {number} tables, seed {seed}")
    outcomes, tables, random = collections.Counter[str](), 0, np.random.default_rng(seed)
    while tables < number:
        table, zeros = random_table(random)
        known = Knowledge.of(table, random_release(random, len(table.schema)), zeros, NO_FACTS)
        if len(table.at_risk(SMALL_COUNT)) and (sharp := sharp_bounds(table, known)) is not None:
            tables += 1
            for way, most in (("exact methods", None), ("walks", 0)):
                for outcome in judged(table, known, sharp, most):
                    outcomes[f"{way}: {outcome}"] += 1
    for outcome, times in sorted(outcomes.items()):
        say(f"{times:6} {outcome}")
    sys.exit(any("FAULT" in outcome for outcome in outcomes))


def judged(table: Table, known: Knowledge, sharp: Intervals, most_exact: int | None) -> list[str]:
    """What each of the questions came to; with `most_exact` cells at most a table counts as small."""
    with patch("sdc.bounds.method.SMALL_TABLE_CELLS", 256 if most_exact is None else most_exact):
        return [one(table, known, sharp, width) for width in MIN_WIDTHS]


def one(table: Table, known: Knowledge, sharp: Intervals, min_width: int) -> str:
    release = known.release
    asked = Inquiry(table, replace(known, release=NOTHING), Criteria.of(SMALL_COUNT, min_width), effort=Effort(BUDGET))
    judgement, bounds = asked.examine(release)
    shown = support_of(judgement.proof, table, asked.criteria.small_count, judgement.knowledge).inner
    if not (within(sharp, bounds.outer) and within(bounds.inner, sharp)):
        return f"FAULT: bounds {bounds} of {table.codes.tolist()} {table.counts.tolist()} under {release}"
    if not np.array_equal(shown, bounds.inner):
        return f"FAULT: a proof does not show the inner bounds of {table.codes.tolist()} under {release}"
    expected = Verdict.SAFE if (np.diff(sharp) >= min_width).all() else Verdict.UNSAFE
    if judgement.verdict not in (expected, Verdict.UNDECIDED):
        return f"FAULT: {judgement.verdict!r} of {table.codes.tolist()} {table.counts.tolist()} under {release}"
    return "as enumerated" if judgement.verdict is expected else f"undecided, {expected.name.lower()} in truth"


def within(inner: Intervals, outer: Intervals) -> bool:
    return bool((inner[:, 0] >= outer[:, 0]).all() and (inner[:, 1] <= outer[:, 1]).all())


def sharp_bounds(table: Table, known: Knowledge) -> Intervals | None:
    """(at-risk cells, 2) from all feasible tables; None where they are too many."""
    seen = enumerate_tables(table, known, MOST_TABLES)
    if not seen.complete:
        return None
    cells = table.codes[table.at_risk(SMALL_COUNT)].astype(np.int64)
    at = np.ravel_multi_index(tuple(cells.T), table.schema.sizes)
    return np.stack([seen.lower[at], seen.upper[at]], axis=1)


def random_table(random: np.random.Generator) -> tuple[Table, StructuralZeros]:
    """2 to 5 variables, at most 36 cells, 1 to 12 records; every third has a structural zero that it fits."""
    while np.prod(sizes := random.integers(2, 5, int(random.integers(2, 6))).tolist()) > 36:
        pass
    names = "ABCDE"[: len(sizes)]
    schema = Schema(tuple(Variable(n, tuple(map(str, range(size)))) for n, size in zip(names, sizes, strict=True)))
    codes = random.integers(0, sizes, (int(random.integers(1, 13)), len(sizes)))
    table = Table.of(schema, codes)
    if random.random() >= 1 / 3:
        return table, NO_ZEROS
    named = random.choice(len(sizes), 2, replace=False).tolist()
    zeros = StructuralZeros((tuple((v, (int(random.integers(0, sizes[v])),)) for v in named),))
    occupied = ~zeros.contains(table.codes, table.schema)
    return Table.of(schema, table.codes[occupied], table.counts[occupied]), zeros


def random_release(random: np.random.Generator, variables: int) -> Release:
    """Up to six sub-tables."""
    return Release.of(random.integers(0, st.full(variables) + 1, int(random.integers(1, 7))).tolist())


if __name__ == "__main__":
    main()
