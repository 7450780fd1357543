"""Counted cells as sorted arrays: packed into words, summed, spilled as runs where memory ends, merged by key ranges.

A cell is packed into as few int64 words as its variables need, ordered as the codes are, first variable slowest: 40
variables of 4 categories are two words. Cells are one int64 array (words + 1, n), after the words the counts; where
records have weights (words + 4, n), after the counts the sum, the least and the largest of a cell's weights. What fits
memory is merged there; it is the case of no run and one range.
"""

from __future__ import annotations

import tempfile
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.data.vocabulary import Coding, Vocabulary
from sdc.executor import Executor
from sdc.model.errors import InputError, SdcError
from sdc.model.table import MAX_TOTAL
from sdc.model.weights import UNIT
from sdc.paths import require_own

Array: TypeAlias = npt.NDArray[np.int64]
Column: TypeAlias = tuple[Array, npt.NDArray[Any]]
"""A code for each index, and the index of each row."""
Key: TypeAlias = tuple[int, ...]

_WORD, _BITS = 1 << 62, 63
_DENSE = 4  # keys for each row at most, where rows are counted by their keys
_BLOCK = 1 << 16  # cells whose codes are at hand at a time
_PILE_ROWS = 1 << 21  # cells that wait at least before they are summed
_BYTES_PER_WORD = 64
"""Of memory for each word of a cell: what a merge of cells with as many others takes, twice over."""
_SMALL_RUN = 8
"""A run of less than this part of what memory holds is taken in: many parts would be many files."""
_SAMPLES = 1 << 12  # of all runs, from which key ranges are estimated
_UNITED = (np.add, np.add, np.minimum, np.maximum)  # how values of equal cells become one, by their row


class Packing:
    """Cells of variables of the given sizes as words: a size of 0 is taken for 1."""

    # Not `KeySpace`, whose numbers beyond 62 bits are ranks among the cells at hand: parts are counted apart, in other
    # processes, and merged by ranges of keys, so that a cell's key must be the same wherever it is met.

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(max(1, size) for size in sizes)
        self._word, self._step = [0] * len(sizes), [1] * len(sizes)
        word, space = 0, 1
        # words are filled from the last variable on and then counted from the first: so the first word has the first
        # variables, and keys are ordered as codes are
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
            np.take(code_of * step, index, mode="clip", out=codes)  # the only mode that does not buffer; all are inside
            keys[word] += codes
        return keys

    def unpack(self, keys: Array) -> Iterator[Array]:
        """The codes of each variable in turn."""
        rest = list(keys)  # of each word, below what its first variables took
        for word, step in zip(self._word, self._step, strict=True):
            codes = rest[word] // step
            yield codes
            rest[word] = rest[word] - codes * step


def summed(keys: Array, values: Array | None = None) -> Array:
    """The distinct cells, sorted, with what their (1 or 4, n) values come to; without any a count of 1 each."""
    if not keys.shape[1]:
        return np.concatenate([keys, np.empty((1 if values is None else len(values), 0), np.int64)])
    most = int(keys[0].max()) if len(keys) == 1 else _WORD
    if values is None and most < _DENSE * keys.shape[1]:
        counts = np.bincount(keys[0])
        found = np.flatnonzero(counts)
        return np.stack([found, counts[found]])
    # sorted and not hashed: runs are merged by ranges of the same order
    bits = 1 if values is None else int(values[0].max()).bit_length()
    if (values is None or len(values) == 1) and most.bit_length() + bits < _BITS:
        # one number of key and count: to sort numbers is several times faster than to sort places
        counts = keys[0] << bits
        counts += 1 if values is None else values[0]
        counts.sort()
        keys, values = (counts >> bits)[None], (counts & ((1 << bits) - 1))[None]
    else:
        order = np.lexsort(keys[::-1])
        keys = keys[:, order]
        values = np.ones((1, len(order)), np.int64) if values is None else values[:, order]
    first = np.zeros(keys.shape[1], np.bool_)
    first[0] = True
    for word in keys:
        first[1:] |= word[1:] != word[:-1]
    starts = np.flatnonzero(first)
    if len(starts) < len(first):
        # of values without weights there is one row
        values = np.stack([unite.reduceat(row, starts) for unite, row in zip(_UNITED, values, strict=False)])
        keys = keys[:, starts]
    return np.concatenate([keys, values])


def _merged(pieces: Sequence[Array], words: int) -> Array:
    # sums cannot wrap: the totals of all counts and of all weights are within 2^53, see `_grow`
    cells = np.concatenate(pieces, axis=1)
    return summed(cells[:words], cells[words:])


# Tallies


@dataclass(frozen=True)
class SortedRun:
    """So many cells that were spilled, packed by `sizes`; `codes` has the tally's code for each of the run's."""

    path: Path
    cells: int
    sizes: tuple[int, ...]
    codes: tuple[Array, ...]


@dataclass
class Tally:
    """The cells met so far in running codes: those in memory, and runs in the folder where they were too many."""

    codings: Sequence[Coding]
    memory: int
    folder: Path
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
        """Cells that may be in memory."""
        return max(1, self.memory // (2 * _BYTES_PER_WORD * (self.packing.words + 3 * self.is_weighted)))

    def add(self, columns: Iterable[Column], rows: int, counts: Array | None, total: int) -> None:
        """Rows in running codes, with the exact sum of their counts; InputError where the sum of all passes 2^53."""
        self._grow(rows, total, 0)
        self._take(columns, rows, None if counts is None else counts[None])

    def add_weighted(self, columns: Iterable[Column], weights: Array) -> None:
        """Records in running codes with (rows,) weights; InputError where the sum of all passes 2^53."""
        rows = len(weights)
        # in two halves, whose sums cannot wrap around
        self._grow(rows, rows, (int((weights >> 32).sum()) << 32) + int((weights & 0xFFFFFFFF).sum()))
        self._take(columns, rows, np.stack([np.ones(rows, np.int64), weights, weights, weights]))

    def unite(self, other: Tally) -> None:
        """The cells of another tally of the same variables, which is closed; its large runs stay runs."""
        self._grow(other.rows, other.total, other.weight)
        codes = [own.unite(its) for own, its in zip(self.vocabularies, other.vocabularies, strict=True)]
        self._take_cells(other.cells, other.packing, codes)
        for run in other.runs:
            # a run stays on disk as it is: its codes are translated when it is read
            own = tuple(mine[its] for mine, its in zip(codes, run.codes, strict=True))
            if run.cells < self.most_cells // _SMALL_RUN:
                self._take_cells(_mapped(run.path), Packing(run.sizes), own)
            else:
                self.runs.append(replace(run, codes=own))

    def close(self, most_bytes: int) -> Tally:
        """Sums what is piled up, and spills it where it has more bytes than is to travel."""
        self._sum()
        if self.cells.nbytes > most_bytes:
            self.spill()
        return self

    def spill(self) -> None:
        """Makes the cells in memory a run."""
        if self.cells.shape[1]:
            # running codes of now: vocabularies only grow, so that a code once given stays
            codes = tuple(np.arange(size) for size in self.packing.sizes)
            self.runs.append(SortedRun(save(self.cells, self.folder), self.cells.shape[1], self.packing.sizes, codes))
            self.cells = self._no_cells()

    def _no_cells(self) -> Array:
        return np.empty((self.packing.words + (4 if self.is_weighted else 1), 0), np.int64)

    def _grow(self, rows: int, total: int, weight: int) -> None:
        self.total, self.rows, self.weight = self.total + total, self.rows + rows, self.weight + weight
        # here, before the counts are added: sums of what passes 2^53 could wrap, and one bad part would hide another
        if self.total > MAX_TOTAL:
            raise InputError(f"the counts sum to more than {MAX_TOTAL} (2^53); divide the table or check its counts")
        if self.weight > MAX_TOTAL:
            raise InputError(
                f"the weights sum to more than {MAX_TOTAL // UNIT:,}, of which 6 decimals are kept; scale them down"
            )

    def _take_cells(self, cells: Array, packing: Packing, codes: Sequence[Array]) -> None:
        if cells.shape[1]:
            self._fit()
            self._heap(summed(_translated(cells, packing, self.packing, codes), cells[packing.words :]))

    def _take(self, columns: Iterable[Column], rows: int, values: Array | None) -> None:
        if rows:
            self._fit()
            self._heap(summed(self.packing.pack(columns, rows), values))

    def _fit(self) -> None:
        """Packs anew where the vocabularies have grown."""
        sizes = [len(vocabulary) for vocabulary in self.vocabularies]
        if self.packing.sizes != tuple(max(1, size) for size in sizes):
            # first what is piled up, which is packed as before
            self._sum()
            self.cells, self.packing = _repacked(self.cells, self.packing, Packing(sizes)), Packing(sizes)

    def _heap(self, cells: Array) -> None:
        self._pile.append(cells)
        self._piled += cells.shape[1]
        # summed when what is piled up outweighs the cells: each is sorted a few times, however many pieces come
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


def _repacked(cells: Array, old: Packing, new: Packing) -> Array:
    """The same cells, in the same order, with room for more categories."""
    return np.concatenate([_translated(cells, old, new, list(map(np.arange, old.sizes))), cells[old.words :]])


def save(cells: Array, folder: Path) -> Path:
    """A new file of cells in the folder, for the eyes of this user; SdcError where it cannot be written."""
    path = folder / f"{uuid.uuid4().hex}.npy"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        np.save(path, cells)
    except OSError as error:
        raise SdcError(f"scratch {folder} cannot be written: {error}; free the disk, or give more memory") from error
    return path


def scratch_of(executor: Executor) -> Path:
    """A name for a folder of runs that whoever runs units can see; nothing is made."""
    return (executor.scratch or Path(tempfile.gettempdir())) / f"cells-{uuid.uuid4().hex}"


# Merging by key ranges


@dataclass(frozen=True)
class FinalCodes:
    """Final packing and the final code for each running code; negative where it is a fault, see `Vocabulary.settle`."""

    packing: Packing
    codes: tuple[Array, ...]

    def of(self, run: SortedRun) -> FinalCodes:
        """The same for the codes of a run."""
        return FinalCodes(self.packing, tuple(own[its] for own, its in zip(self.codes, run.codes, strict=True)))


Faults: TypeAlias = dict[tuple[int, int], int]
"""Records by the first of their faults: (variable, its place in `vocabulary.FAULTS`)."""


def settle_cells(cells: Array, packing: Packing, settled: FinalCodes) -> tuple[Array, Faults]:
    """The cells of good records in final order, and the bad ones by their first fault."""
    faults: Faults = {}
    # mostly nothing is bad, and then no cell is looked at for it
    if any((codes < 0).any() for codes in settled.codes):
        cells, faults = _without_faults(cells, packing, settled)
    return summed(_translated(cells, packing, settled.packing, settled.codes), cells[packing.words :]), faults


def _translated(cells: Array, old: Packing, new: Packing, codes: Sequence[Array]) -> Array:
    """The keys by another packing of cells by one, with the new code for each old one."""
    keys = np.empty((new.words, cells.shape[1]), np.int64)
    for at in range(0, cells.shape[1], _BLOCK):
        block = cells[: old.words, at : at + _BLOCK]
        keys[:, at : at + _BLOCK] = new.pack(zip(codes, old.unpack(block), strict=True), block.shape[1])
    return keys


def _without_faults(cells: Array, packing: Packing, settled: FinalCodes) -> tuple[Array, Faults]:
    good, faults, counts = np.ones(cells.shape[1], np.bool_), {}, cells[packing.words]
    # by the order of the variables: a record with several faults counts once, under the first
    for v, (codes, rows) in enumerate(zip(settled.codes, packing.unpack(cells[: packing.words]), strict=True)):
        for fault in np.unique(codes[codes < 0]).tolist():
            at = good & (codes[rows] == fault)
            faults[v, -1 - fault] = int(counts[at].sum())
            good &= ~at
    return cells[:, good], {key: records for key, records in faults.items() if records}


def merge(tally: Tally, settled: FinalCodes, executor: Executor) -> tuple[Iterator[Array], Faults]:
    """The cells in final order by key ranges, none of which is much more than memory holds, and the bad records.

    Each run is put in final order by one unit, and each range is merged from all of them by another.
    """
    if not tally.runs:
        cells, faults = settle_cells(tally.cells, tally.packing, settled)
        return iter([cells]), faults
    tally.spill()
    # every unit merges one range of all runs: ranges together are the whole order, so nothing is merged twice
    edges = _edges(tally, settled)
    units = [(run, settled.of(run), tally.folder) for run in tally.runs]
    faults, paths = {}, []
    for path, found in executor.run(sort_run, None, units):
        paths.append(path)
        faults = {key: faults.get(key, 0) + found.get(key, 0) for key in faults | found}
    ends, words = zip([None, *edges], [*edges, None], strict=True), settled.packing.words
    ranges = [(paths, start, stop, words, tally.folder) for start, stop in ends]
    return (_mapped(path) for path in executor.run(merge_range, None, ranges)), faults


def sort_run(table: None, unit: tuple[SortedRun, FinalCodes, Path]) -> tuple[Path, Faults]:
    """Writes a run in final order."""
    run, settled, folder = unit
    cells, faults = settle_cells(_mapped(run.path), Packing(run.sizes), settled)
    return save(cells, folder), faults


def merge_range(table: None, unit: tuple[list[Path], Key | None, Key | None, int, Path]) -> Path:
    """Writes the cells with keys of so many words from `start` to below `stop` of all sorted runs, summed."""
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
    # a search in a mapped file reads a page a step, not the file
    return bisect_left(range(cells.shape[1]), key, key=lambda i: tuple(cells[: len(key), i].tolist()))


def _edges(tally: Tally, settled: FinalCodes) -> list[Key]:
    """Keys that cut the final order into ranges of about what memory holds, by a sample of every run."""
    total = sum(run.cells for run in tally.runs)
    # runs are in running order and not in the final one; every so many of their cells are a fair sample in any order
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
