"""A million cells written in each format, and all of 50 million with zeros: seconds, size, and how much memory grew.

    python tests/benchmarks/answers.py [cells] [all cells]

Each in a fresh process; what it held before the first piece is not counted.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from side_by_side import in_child, machine, peak_mib, say, show

from sdc.model.keys import KeySpace
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.server.web.answers import FORMATS, Answer, Shape, pieces

SEED, SECONDS, LIMIT_MIB, SIZES = 2026, 600.0, 300, (40, 40, 50)
SHAPES = {"cells with records": Shape(), "with totals": Shape(totals=True)}


def table_of(cells: int, space: int) -> Table:
    """So many cells of four variables that have at least `space` together."""
    schema = Schema(
        tuple(
            Variable(f"variable {v}", tuple(f"category {c}" for c in range(size)))
            for v, size in enumerate((*SIZES, -(-space // KeySpace(SIZES).cells)))
        )
    )
    rng = np.random.default_rng(SEED)
    keys = np.sort(rng.choice(schema.cells, cells, replace=False, shuffle=False))
    return Table(schema, schema.keys.unpack(keys), rng.geometric(0.3, cells))


def measured(suffix: str, shape: Shape, cells: int, space: int) -> tuple[float, float, float, float]:
    """Seconds to the first piece with cells and to the last, MiB written, and MiB by which the memory grew."""
    answer = Answer("A million cells", table_of(cells, space), shape)
    for _ in pieces(Answer("", table_of(1, 1)), FORMATS[suffix]):
        pass  # what is loaded once a process
    forget_peak()
    before, begun = peak_mib(), time.perf_counter()
    size, first = 0, 0.0
    for number, piece in enumerate(pieces(answer, FORMATS[suffix])):
        size += len(piece)
        # the first of a text is its head
        first = first if number > 1 else time.perf_counter() - begun
    return first, time.perf_counter() - begun, size / (1 << 20), peak_mib() - before


def forget_peak() -> None:
    """From here on the largest resident memory is that of now, where the system can."""
    if (file := Path("/proc/self/clear_refs")).exists():
        file.write_text("5")


def main(cells: int, space: int) -> None:
    say(machine())
    header = ["format", "first s", "seconds", "MiB", "growth MiB"]
    for title, shape in SHAPES.items():
        rows = [[suffix, *in_child(measured, suffix, shape, cells, 3 * cells, limit=SECONDS)] for suffix in FORMATS]
        show(f"{cells:,} {title}", header, rows)
    rows = [[suffix, *in_child(measured, suffix, Shape(zeros=True), cells, space, limit=SECONDS)] for suffix in FORMATS]
    show(f"{space:,} cells with zeros, {cells:,} of them with records", header, rows)
    if (most := max(row[-1] for row in rows)) > LIMIT_MIB:
        sys.exit(f"memory grew by {most:,.0f} MiB, more than {LIMIT_MIB}: it must not grow with the cells")


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*(given + [1_000_000, 50_000_000][len(given) :]))
