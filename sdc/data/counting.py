"""Counted cells as sorted arrays: packed into words, summed, spilled to disk as runs, and merged by key ranges.

A cell is packed into as few int64 words as its variables need, in the order of the codes, first variable slowest: 40
variables of 4 categories take two words. Cells are one int64 array (words + 1, n) with the counts in the last row; with
weights (words + 4, n): the counts, then the sum, the least and the largest weight of the cell. Data that fit into
memory are merged there: no run and one range.
"""

from __future__ import annotations

import os
import shutil
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sdc.data.vocabulary import Coding, Vocabulary, indices_of
from sdc.executor import Executor
from sdc.model.errors import InputError, SdcError
from sdc.model.table import MAX_TOTAL, Counts
from sdc.model.weights import UNIT
from sdc.paths import require_own
from sdc.storage.scratch import ScratchWhenUsed

Array: TypeAlias = npt.NDArray[np.int64]
Column: TypeAlias = tuple[Array, npt.NDArray[Any]]
"""A code for each index, and the index of each row."""
Key: TypeAlias = tuple[int, ...]
Folder: TypeAlias = Path | os.PathLike[str]

_WORD, _BITS = 1 << 62, 63
_DENSE = 4  # at most so many keys for each row if rows are counted by key
_BLOCK = 1 << 16  # cells whose codes are in memory at a time
_PILE_ROWS = 1 << 21  # cells that wait before they are summed
_BYTES_PER_WORD = 64
"""Bytes of memory for each word of a cell: twice what a merge with as many others takes."""
_SMALL_RUN = 8
"""A run smaller than this part of the memory is taken in: many parts would be many files."""
_SAMPLES = 1 << 12  # over all runs, to estimate key ranges
_UNITED = (np.add, np.add, np.minimum, np.maximum)  # how values of equal cells are combined, by row


class Packing:
    """Cells of variables of the given sizes as words; a size of 0 counts as 1."""

    # Not `KeySpace`, whose numbers beyond 62 bits are ranks of given cells: parts are counted in several processes and
    # merged by key ranges, so that a cell's key must be the same everywhere.

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(max(1, size) for size in sizes)
        self._word, self._step = [0] * len(sizes), [1] * len(sizes)
        word, space = 0, 1
        # words are filled from the last variable on, then counted from the first: the first word has the first
        # variables, so keys are ordered as codes are
        for v in reversed(range(len(sizes))):
            if space * self.sizes[v] > _WORD:
                word, space = word + 1, 1
            self._word[v], self._step[v] = word, space
            space *= self.sizes[v]
        self.words = word + 1
        self._word = [word - w for w in self._word]

    def pack(self, columns: Iterable[Column], rows: int) -> Array:
        """(words, rows) keys of the rows of these columns, one for each variable."""
        keys = np.zeros((self.words, rows), np.int64)
        index, codes = np.empty(rows, np.intp), np.empty(rows, np.int64)
        for (code_of, indices), word, step in zip(columns, self._word, self._step, strict=True):
            np.copyto(index, indices)
            # the only mode without a buffer; all indices are valid
            np.take(code_of * step, index, mode="clip", out=codes)
            keys[word] += codes
        return keys

    def unpack(self, keys: Array) -> Iterator[Array]:
        """The codes of each variable in turn."""
        rest = list(keys)  # by word, what its first variables leave
        for word, step in zip(self._word, self._step, strict=True):
            codes = rest[word] // step
            yield codes
            rest[word] = rest[word] - codes * step


def summed(keys: Array, values: Array | None = None) -> Array:
    """The distinct cells, sorted, with their combined (1 or 4, n) values, or counts of 1."""
    if not keys.shape[1]:
        return np.concatenate([keys, np.empty((1 if values is None else len(values), 0), np.int64)])
    most = int(keys[0].max()) if len(keys) == 1 else _WORD
    if values is None and most < _DENSE * keys.shape[1]:
        counts = np.bincount(keys[0])
        found = np.flatnonzero(counts)
        return np.stack([found, counts[found]])
    # sorted, not hashed: runs are merged by ranges in this order
    if values is None and len(keys) == 1:
        keys = np.sort(keys)
        starts = _starts(keys)
        return np.stack([keys[0, starts], np.diff(starts, append=keys.shape[1])])
    if values is None:
        values = np.ones((1, keys.shape[1]), np.int64)
    bits = int(values[0].max()).bit_length()
    if len(values) == 1 and most.bit_length() + bits < _BITS:
        # key and count in one number: sorting numbers is several times faster than sorting indices
        counts = (keys[0] << bits) + values[0]
        counts.sort()
        keys, values = (counts >> bits)[None], (counts & ((1 << bits) - 1))[None]
    else:
        order = np.lexsort(keys[::-1])
        keys, values = keys[:, order], values[:, order]
    starts = _starts(keys)
    # values without weights have one row
    sums = [unite.reduceat(row, starts) for unite, row in zip(_UNITED, values, strict=False)]
    return np.concatenate([keys[:, starts], np.stack(sums)])


def _starts(keys: Array) -> Array:
    """Where each distinct cell begins in sorted keys."""
    first = np.ones(keys.shape[1], np.bool_)
    first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0) if len(keys) > 1 else keys[0, 1:] != keys[0, :-1]
    return np.flatnonzero(first)


def _merged(pieces: Sequence[Array], words: int) -> Array:
    # sums cannot overflow: all counts and all weights are within 2^53, see `_grow`
    cells = np.concatenate(pieces, axis=1)
    return summed(cells[:words], cells[words:])


# Tallies


@dataclass(frozen=True)
class SortedRun:
    """Spilled cells, packed by `sizes`; `codes` has the tally's code for each code of the run."""

    path: Path
    cells: int
    sizes: tuple[int, ...]
    codes: tuple[Array, ...]


@dataclass
class CellTally:
    """The cells so far in running codes: in memory, and as runs in the folder."""

    codings: Sequence[Coding]
    memory: int
    folder: Folder
    is_weighted: bool = False
    runs: list[SortedRun] = field(default_factory=list)
    total: int = 0
    weight: int = 0
    rows: int = 0

    def __post_init__(self) -> None:
        self.vocabularies = [Vocabulary(coding) for coding in self.codings]
        self.packing = Packing([0] * len(self.codings))
        self.cells = self._no_cells()
        self._pile: list[Array] = []
        self._piled = 0  # cells in it

    @property
    def most_cells(self) -> int:
        """The maximum number of cells in memory."""
        return max(1, self.memory // (2 * _BYTES_PER_WORD * (self.packing.words + 3 * self.is_weighted)))

    def add(self, columns: Iterable[Column], rows: int, values: Array | None, total: int, weight: int = 0) -> None:
        """Add rows in running codes, with (1 or 4, rows) values or counts of 1, and their exact sums.

        InputError if a total exceeds 2^53.
        """
        self._grow(rows, total, weight)
        if rows:
            self._fit()
            self._heap(summed(self.packing.pack(columns, rows), values))

    def unite(self, other: CellTally) -> None:
        """Add the cells of another, closed tally of the same variables; its large runs stay runs."""
        self._grow(other.rows, other.total, other.weight)
        codes = [own.unite(its) for own, its in zip(self.vocabularies, other.vocabularies, strict=True)]
        self._take_cells(other.cells, other.packing, codes)
        for run in other.runs:
            # a run stays on disk: its codes are translated when it is read
            own = tuple(mine[its] for mine, its in zip(codes, run.codes, strict=True))
            if run.cells < self.most_cells // _SMALL_RUN:
                self._take_cells(_mapped(run.path), Packing(run.sizes), own)
            else:
                self.runs.append(replace(run, codes=own))

    def close(self, most_bytes: int) -> CellTally:
        """Sum the waiting cells, and spill them if they exceed the bytes that may travel."""
        self._sum()
        if self.cells.nbytes > most_bytes:
            self.spill()
        return self

    def spill(self) -> None:
        """Turn the cells in memory into a run."""
        if self.cells.shape[1]:
            # current running codes: vocabularies only grow, so codes stay valid
            codes = tuple(np.arange(size) for size in self.packing.sizes)
            self.runs.append(SortedRun(save(self.cells, self.folder), self.cells.shape[1], self.packing.sizes, codes))
            self.cells = self._no_cells()

    def _no_cells(self) -> Array:
        return np.empty((self.packing.words + (4 if self.is_weighted else 1), 0), np.int64)

    def _grow(self, rows: int, total: int, weight: int) -> None:
        self.total, self.rows, self.weight = self.total + total, self.rows + rows, self.weight + weight
        # before adding: sums above 2^53 could overflow, and one bad part would hide another
        if self.total > MAX_TOTAL:
            raise InputError(f"the counts sum to more than {MAX_TOTAL} (2^53); divide the table or check its counts")
        if self.weight > MAX_TOTAL:
            raise InputError(f"the weights sum to more than {MAX_TOTAL // UNIT:,}, with six decimals; scale them down")

    def _take_cells(self, cells: Array, packing: Packing, codes: Sequence[Array]) -> None:
        if cells.shape[1]:
            self._fit()
            self._heap(summed(_translated(cells, packing, self.packing, codes), cells[packing.words :]))

    def _fit(self) -> None:
        sizes = [len(vocabulary) for vocabulary in self.vocabularies]
        if self.packing.sizes != tuple(max(1, size) for size in sizes):
            # first the waiting cells, which have the old packing
            self._sum()
            old, self.packing = self.packing, Packing(sizes)
            keys = _translated(self.cells, old, self.packing, list(map(np.arange, old.sizes)))
            self.cells = np.concatenate([keys, self.cells[old.words :]])

    def _heap(self, cells: Array) -> None:
        self._pile.append(cells)
        self._piled += cells.shape[1]
        # summed when waiting cells outweigh the others: each is sorted a few times for any number of pieces
        most = max(_PILE_ROWS, self.cells.shape[1])
        if self._piled > min(most, self.most_cells):
            self._sum()
            if self.cells.shape[1] > self.most_cells:
                self.spill()

    def _sum(self) -> None:
        if self._pile:
            self.cells = _merged([self.cells, *self._pile], self.packing.words)
            self._pile.clear()
            self._piled = 0


def save(cells: Array, folder: Folder) -> Path:
    """Write cells to a new private file in the folder; SdcError if that fails."""
    try:
        path = Path(folder) / f"{uuid.uuid4().hex}.npy"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        np.save(path, cells)
    except OSError as error:
        raise SdcError(f"scratch {folder} cannot be written: {error}; free the disk, or give more memory") from error
    return path


@contextmanager
def scratch_of(executor: Executor) -> Iterator[Folder]:
    """A folder of runs that all workers can see, created when it is first used; it goes with the block."""
    if executor.scratch is None:
        with ScratchWhenUsed() as own:
            yield own
        return
    folder = executor.scratch / f"cells-{uuid.uuid4().hex}"
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Merging by key ranges


@dataclass(frozen=True)
class FinalCodes:
    """The final packing, and the final code of each running code; negative for bad records, see `Vocabulary.settle`."""

    packing: Packing
    codes: tuple[Array, ...]

    def of(self, run: SortedRun) -> FinalCodes:
        """The final codes for a run."""
        return FinalCodes(self.packing, tuple(own[its] for own, its in zip(self.codes, run.codes, strict=True)))


Problems: TypeAlias = dict[tuple[int, int], int]
"""Bad records by their first problem: (variable, position in `vocabulary.PROBLEMS`)."""


def settle_cells(cells: Array, packing: Packing, settled: FinalCodes) -> tuple[Array, Problems]:
    """The cells of valid records in final order, and the bad ones by first problem."""
    problems: Problems = {}
    # usually no record is bad: then cells are not examined
    if any((codes < 0).any() for codes in settled.codes):
        cells, problems = _without_problems(cells, packing, settled)
    return summed(_translated(cells, packing, settled.packing, settled.codes), cells[packing.words :]), problems


def _translated(cells: Array, old: Packing, new: Packing, codes: Sequence[Array]) -> Array:
    if old.sizes == new.sizes and all(np.array_equal(own, np.arange(len(own))) for own in codes):
        return cells[: old.words]
    keys = np.empty((new.words, cells.shape[1]), np.int64)
    for at in range(0, cells.shape[1], _BLOCK):
        block = cells[: old.words, at : at + _BLOCK]
        keys[:, at : at + _BLOCK] = new.pack(zip(codes, old.unpack(block), strict=True), block.shape[1])
    return keys


def _without_problems(cells: Array, packing: Packing, settled: FinalCodes) -> tuple[Array, Problems]:
    good, problems, counts = np.ones(cells.shape[1], np.bool_), {}, cells[packing.words]
    # by variable: a record with several problems counts once, under the first
    for v, (codes, rows) in enumerate(zip(settled.codes, packing.unpack(cells[: packing.words]), strict=True)):
        for problem in np.unique(codes[codes < 0]).tolist():
            at = good & (codes[rows] == problem)
            problems[v, -1 - problem] = int(counts[at].sum())
            good &= ~at
    return cells[:, good], {key: records for key, records in problems.items() if records}


def merge(tally: CellTally, settled: FinalCodes, executor: Executor) -> tuple[Iterator[Array], Problems]:
    """The cells in final order by key ranges that fit into memory, and the bad records.

    One unit sorts each run, and another merges each range over all runs.
    """
    if not tally.runs:
        cells, problems = settle_cells(tally.cells, tally.packing, settled)
        return iter([cells]), problems
    tally.spill()
    # each unit merges one range of all runs, so nothing is merged twice
    edges = _edges(tally, settled)
    units = [(run, settled.of(run), tally.folder) for run in tally.runs]
    problems, paths = {}, []
    for path, found in executor.run(sort_run, None, units):
        paths.append(path)
        problems = {key: problems.get(key, 0) + found.get(key, 0) for key in problems | found}
    ends, words = zip([None, *edges], [*edges, None], strict=True), settled.packing.words
    ranges = [(paths, start, stop, words, tally.folder) for start, stop in ends]
    return (_mapped(path) for path in executor.run(merge_range, None, ranges)), problems


def sort_run(table: None, unit: tuple[SortedRun, FinalCodes, Folder]) -> tuple[Path, Problems]:
    """Write a run in final order."""
    run, settled, folder = unit
    cells, problems = settle_cells(_mapped(run.path), Packing(run.sizes), settled)
    return save(cells, folder), problems


def merge_range(table: None, unit: tuple[list[Path], Key | None, Key | None, int, Folder]) -> Path:
    """Write the summed cells of all sorted runs with keys from `start` to below `stop`."""
    paths, start, stop, words, folder = unit
    return save(_merged([_between(_mapped(path), start, stop) for path in paths], words), folder)


def _mapped(path: Path) -> Array:
    require_own(path, "name another scratch")
    try:
        cells: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise SdcError(f"scratch {path} cannot be read: {error}; name a scratch that every worker shares") from error
    return cells


def _between(cells: Array, start: Key | None, stop: Key | None) -> Array:
    low = 0 if start is None else _place(cells, start)
    return np.array(cells[:, low : cells.shape[1] if stop is None else _place(cells, stop)])


def _place(cells: Array, key: Key) -> int:
    # a search in a mapped file reads one page for each step
    return bisect_left(range(cells.shape[1]), key, key=lambda i: tuple(cells[: len(key), i].tolist()))


def _edges(tally: CellTally, settled: FinalCodes) -> list[Key]:
    """Keys that cut the final order into ranges that fit into memory, by a sample of every run."""
    total = sum(run.cells for run in tally.runs)
    # runs are in running order, not in final order: every k-th cell is a fair sample of any order
    step = total // _SAMPLES + 1
    samples = [
        settle_cells(np.array(_mapped(run.path)[:, ::step]), Packing(run.sizes), settled.of(run))[0]
        for run in tally.runs
    ]
    keys = _merged(samples, settled.packing.words)[: settled.packing.words]
    ranges = -(-total // tally.most_cells)
    # an edge at the first key would leave a range without cells before it
    chosen = {keys.shape[1] * part // ranges for part in range(1, ranges)} - {0}
    return [tuple(keys[:, at].tolist()) for at in sorted(chosen)]


# Weights

Reals = npt.NDArray[np.float64]


def weights_of(column: pa.Array, name: str, part: str, decimal: str = ".") -> Counts:
    """(records,) int64, in millionths, rounded to six decimals.

    InputError for a weight that is missing, no number, negative, zero to six decimals, or too large; no value is
    quoted.
    """
    values = _numbers(column, f"{part}: weight {name!r}", decimal)
    missing, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    if missing:
        raise InputError(f"{part}: weight {name!r} has missing values; give each record its weight, or leave it out")
    if infinite or values.max(initial=0.0) * UNIT > MAX_TOTAL:
        raise InputError(f"{part}: weight {name!r} has a value above {MAX_TOTAL // UNIT:,}; correct it")
    found: Counts = np.rint(values * UNIT).astype(np.int64)
    if found.min(initial=1) < 1:
        what = "negative" if values.min() < 0 else "zero to six decimals"
        raise InputError(
            f"{part}: weight {name!r} has values that are {what}; a weight is above 0: correct these weights, or "
            "leave the records out"
        )
    return found


def _numbers(column: pa.Array, where: str, decimal: str) -> Reals:
    """(records,) doubles, NaN if missing."""
    is_coded = pa.types.is_dictionary(column.type)
    values = column.dictionary if is_coded else column
    kind = values.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InputError(f"{where} has the type {str(kind).partition('<')[0]}; a weight is a number")
    if is_text and decimal != ".":
        values = pc.replace_substring(values, decimal, ".", max_replacements=1)
    try:
        found: Reals = pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise InputError(f"{where} has values that are not numbers; correct them") from None
    # from text: each distinct value was parsed once, and one more stands for missing ones
    return np.append(found, np.nan)[indices_of(column, len(found))] if is_coded else found
