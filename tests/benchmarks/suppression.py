"""Suppression in two-way tables whose margins are public, beside optimal suppression by pytauargus."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.protect.one_table import suppress
from sdc.protect.suppression import suppress_jointly
from sdc.risk.criteria import Criteria
from sdc.risk.evaluator import RiskEvaluator
from tests.benchmarks import tauargus
from tests.benchmarks.measure import Limits, NotMeasured, Row, check, in_child, lacks, one_core, seconds
from tests.strategies import schema_of

RIVAL, SMALL_COUNT, MIN_WIDTH, ROUNDS, LIMIT, FAR = "pytauargus", 2, 3, 3, 120.0, 1 << 20

Dense = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def rows(short: bool, limits: Limits) -> list[Row | NotMeasured]:
    """Made-up tables: the least suppression, proven, of a small one; one by differences, as builds do, of a larger."""
    sides = (5, 6) if short else (10, 24)
    works = {"proven least suppression": (sides[0], least), "suppression by differences": (sides[1], by_differences)}
    found: list[Row | NotMeasured] = []
    for name, (side, work) in works.items():
        job = f"{name}, {side} by {side} cells"
        absent = lacks(job, RIVAL, packages=["pytauargus"])
        found += absent or [beside(job, side, work, work is least, 1 if short else ROUNDS)]
    return found


def least(counts: Dense) -> Flags:
    return suppress(counts, SMALL_COUNT, MIN_WIDTH).withheld.reshape(counts.shape)


def by_differences(counts: Dense) -> Flags:
    schema = schema_of(list(counts.shape))
    table = Table.of(schema, np.argwhere(counts >= 0), counts.reshape(-1))
    known = Knowledge.of(table, Release.of([1, 2]), NO_ZEROS, ())
    found = suppress_jointly(RiskEvaluator(table, known, Criteria.of(SMALL_COUNT, MIN_WIDTH)), [3])
    return found.flags[0].reshape(counts.shape)


def beside(job: str, side: int, work: Callable[[Dense], Flags], is_least: bool, rounds: int) -> Row | NotMeasured:
    """Patterns may differ: each must protect every small cell, and none may cost less than the proven least."""
    counts = np.random.default_rng([side, 0]).negative_binomial(1, 0.08, (side, side))
    work(counts)  # kernels are loaded
    ours, theirs = list[float](), list[float]()
    for _ in range(rounds):
        found = list[Flags]()
        with one_core():
            ours.append(seconds(lambda: found.append(work(counts))))  # noqa: B023
            answer = in_child(tauargus.suppress, counts.tolist(), SMALL_COUNT, MIN_WIDTH, limit=LIMIT)
        if answer is None:
            return NotMeasured(job, RIVAL, f"it took more than {LIMIT:.0f} s")
        theirs.append(answer[0])
        patterns = {"ours": found[0], RIVAL: np.array(answer[1])}
        for name, hidden in patterns.items():
            narrow = sum(width < MIN_WIDTH for width in widths(counts, hidden))
            check(narrow == 0, f"{job}: {narrow} small cells are not protected by {name}")
        own, other = (int(counts[hidden].sum() + hidden.sum()) for hidden in patterns.values())
        check(not is_least or own <= other, f"{job}: ours costs {own}, {RIVAL} {other}")
    note = (
        f"one core each, {RIVAL} with its files; both protect every small cell, {RIVAL} by slightly stricter limits; "
        f"records and cells suppressed: ours {own}, {RIVAL} {other}"
    )
    return Row(job, RIVAL, ours, theirs, note=note)


def widths(counts: Dense, hidden: Flags) -> Iterator[int]:
    """The width of each small cell for a reader of the margins and the cells that stay, by maximal flows."""
    for row, column in np.argwhere((counts > 0) & (counts <= SMALL_COUNT)).tolist():
        yield sum(farthest(counts, hidden, row, column, way) for way in (1, -1)) if hidden[row, column] else 0


def farthest(counts: Dense, hidden: Flags, row: int, column: int, way: int) -> int:
    """How far a cell can move: the flow back from its column to its row, or from its row to its column."""
    rows, columns = np.nonzero(hidden)
    kept = (rows != row) | (columns != column)
    rows, columns = rows[kept], columns[kept]
    tails, heads = np.concatenate([rows, len(counts) + columns]), np.concatenate([len(counts) + columns, rows])
    room = np.concatenate([np.full(len(rows), FAR), counts[rows, columns]]).astype(np.int32)
    nodes = sum(counts.shape)
    ends = (len(counts) + column, row) if way > 0 else (row, len(counts) + column)
    most = int(maximum_flow(csr_array((room, (tails, heads)), (nodes, nodes)), *ends).flow_value)
    return min(most, FAR if way > 0 else int(counts[row, column]))
