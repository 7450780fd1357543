"""Markov chains on the feasible tables, if these are too many to list and no law is explicit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, comb, log, prod
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sdc.executor import Executor
from sdc.feasible import walk
from sdc.feasible.differences import Differences
from sdc.intruder import exchanges, hypergeometric, ipf
from sdc.intruder.cell_laws import CellLaws, Probabilities
from sdc.intruder.exchanges import Records
from sdc.intruder.laws import Law
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table

MAX_CELLS = 1 << 20  # of the dense table
MAX_ENTRIES = 1 << 24  # of all moves
MAX_STORED = 1 << 26  # stored counts of all draws of a chain, 256 MB
LEAST_DRAWS = 20
ERRORS = 3.0  # standard errors that cover what 997 of a thousand draws of a normal law do
WALKED, NODES = 256, 2_000  # at-risk cells for which a walk finds moves, and its nodes for each

SAFETY, MOST_AT_ONCE = 1.25, 8.0  # multiple of the draws that an error needs by its estimate; multiple of those before
PROPOSALS = 2_000  # from draw to draw, and ten for each listed move

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sampling:
    """The amount of sampling: draws of each of the chains, after half as many discarded ones.

    error  draw until no probability has a larger Monte Carlo standard error; None for no more draws
    most   then the most draws of each chain

    Raises InputError for fewer than 20 draws, less than 1 chain, a negative seed, or an unreachable error.
    """

    draws: int = 1000
    chains: int = 4
    seed: int = 0
    error: float | None = 0.005
    most: int = 64_000

    def __post_init__(self) -> None:
        if self.draws < LEAST_DRAWS:
            raise InputError(f"draws = {self.draws}; give at least {LEAST_DRAWS}")
        if self.chains < 1:
            raise InputError(f"chains = {self.chains}; give at least 1")
        if self.seed < 0:
            raise InputError(f"seed = {self.seed}; give at least 0")
        if self.error is not None and not self.error > 0:
            raise InputError(f"error = {self.error:g}; give a standard error above 0")

    def as_fields(self, errors: Probabilities) -> tuple[int, int, int, float, float | None]:
        """The fields of diagnostics for these errors."""
        return self.draws, self.chains, self.seed, float(errors.max(initial=0.0)), self.error

    def further(self, error: float, numbers: int) -> Sampling | None:
        """The sampling that should reach the required error, up to its limit; None if it is reached or out of reach.

        numbers  stored numbers of each draw
        """
        most = min(self.most, MAX_STORED // max(1, numbers))
        if self.error is None or error <= self.error or self.draws >= most:
            return None
        needed = ceil(self.draws * min(max(SAFETY * (error / self.error) ** 2, 2.0), MOST_AT_ONCE))
        return replace(self, draws=min(needed, most))


@dataclass(frozen=True)
class Diagnostics:
    """Agreement of the chains.

    r_hat                  the largest rank-normalised split R-hat of a cell (Vehtari et al. 2021), 1 if they agree;
                           None if a cell is constant in every chain, with different values
    effective_sample_size  the smallest of a cell, in independent draws
    accepted               share of accepted proposals
    moves                  number of different moves; for exchanged records the edges of the junction tree
    connectivity           "not proven": it is unknown whether the moves reach every feasible table; or "proven":
                           records exchange under a decomposable release, or whole tables are drawn from the
                           complete list
    error                  largest Monte Carlo standard error of a probability; `wanted` the required one, or None
    """

    draws: int
    chains: int
    seed: int
    error: float
    wanted: float | None
    r_hat: float | None
    effective_sample_size: float
    accepted: float
    moves: int
    connectivity: str = "not proven"


def written_r_hat(value: float | None) -> str:
    """For reports and commands."""
    return "not known: chains stay where they are" if value is None else f"up to {value:.3f}"


def written_error(error: float, wanted: float | None) -> str:
    """For reports and commands: the largest error beside the required one."""
    up_to = f"up to {error:.4f}"
    if wanted is None:
        return up_to
    return (
        f"{up_to}, at most {wanted:g} as required"
        if error <= wanted
        else (f"{up_to}, more than the {wanted:g} required: no more may be drawn")
    )


@dataclass(frozen=True, eq=False)
class Sampled:
    """The laws of cells as shares of draws, and the Monte Carlo standard error of each probability."""

    laws: CellLaws
    standard_errors: Probabilities
    diagnostics: Diagnostics


@dataclass(frozen=True, eq=False)
class ChainUnit:
    """A chain: all its inputs except the table."""

    law: Law
    knowledge: Knowledge
    cells: Codes
    draws: int
    seed: tuple[int, int]


@dataclass(frozen=True, eq=False)
class ChainDraws:
    """(draws, cells) int64 counts of one chain, the share of accepted proposals, and facts on the moves."""

    counts: Ints
    accepted: float
    moves: int
    connectivity: str


def sampled(
    table: Table, knowledge: Knowledge, law: Law, cells: Codes, sampling: Sampling, executor: Executor
) -> Sampled:
    """Sample the laws of (n, variables) cells by chains, one unit each; the same for any number of workers.

    Raises ReleaseError if the table or the moves are too large.
    """
    (exchanges.check if by_records(table, knowledge, law) else check)(table, knowledge)
    check_memory(sampling, len(cells), f"{len(cells)} cells")
    units = [ChainUnit(law, knowledge, cells, sampling.draws, (sampling.seed, k)) for k in range(sampling.chains)]
    drawn = list(executor.run(run_chain, table, units))
    counts = np.stack([chain.counts for chain in drawn])
    laws, errors = shares(counts, cells, table.count_at(cells))
    r_hat, size = agreement(counts)
    accepted = float(np.mean([chain.accepted for chain in drawn]))
    of_moves = drawn[0].moves, drawn[0].connectivity
    as_fields = Diagnostics(*sampling.as_fields(errors), r_hat, size, accepted, *of_moves)
    return Sampled(laws, errors, as_fields)


class Walk(Protocol):
    """A chain in its current state: proposals per draw, number of different moves, and their connectivity."""

    connectivity: str

    @property
    def proposals(self) -> int: ...

    @property
    def moves(self) -> int: ...

    def advance(self, state: npt.NDArray[np.uint64], rng: np.random.Generator) -> int:
        """Advance to the next draw; return the number of accepted proposals."""
        ...

    def counts_at(self, cells: Codes) -> Counts: ...

    def table(self) -> Table:
        """Where it is."""
        ...


def run_chain(table: Table, unit: ChainUnit) -> ChainDraws:
    """Run the unit: first away from the other chains, then to the law, then its draws."""
    rng = np.random.default_rng(unit.seed)
    state = rng.integers(0, 1 << 64, 1, np.uint64)
    walk = _begun(table, unit, state, rng)
    stored, accepted = np.empty((unit.draws, len(unit.cells)), np.int64), 0
    for draw in range(-(unit.draws // 2), unit.draws):
        done = walk.advance(state, rng)
        if draw >= 0:
            stored[draw], accepted = walk.counts_at(unit.cells), accepted + done
    return ChainDraws(stored, accepted / (unit.draws * walk.proposals or 1), walk.moves, walk.connectivity)


def _begun(table: Table, unit: ChainUnit, state: npt.NDArray[np.uint64], rng: np.random.Generator) -> Walk:
    if by_records(table, unit.knowledge, unit.law):
        return Records(table, unit.knowledge, unit.law, rng)
    space = Space(table, unit.knowledge, unit.law)
    space.spread(state)
    return space


def walked(table: Table, knowledge: Knowledge, law: Law, seed: int, draws: int = 50) -> Table:
    """The table at which a chain from this one is after so many draws; it has the same released marginals."""
    (exchanges.check if by_records(table, knowledge, law) else check)(table, knowledge)
    rng = np.random.default_rng(seed)
    state = rng.integers(0, 1 << 64, 1, np.uint64)
    walk = _begun(table, ChainUnit(law, knowledge, table.codes[:0], draws, (seed, 0)), state, rng)
    for _ in range(draws):
        walk.advance(state, rng)
    return walk.table()


def by_records(table: Table, knowledge: Knowledge, law: Law) -> bool:
    """Whether to exchange records: always, except for dense tables with far more records than cells.

    A draw costs as much as there are records.
    """
    exchangeable = hypergeometric.is_treatable(knowledge) and law.is_explicit(knowledge)
    return exchangeable and (table.schema.cells > MAX_CELLS or table.total <= MAX_CELLS)


class Space:
    """The feasible tables for a chain, see `chain_kernel.run`: its state, the law's weights, and the moves.

    generators  of a model whose cell probabilities are drawn too, else none
    """

    connectivity = "not proven"

    def __init__(self, table: Table, knowledge: Knowledge, law: Law) -> None:
        schema, cells = table.schema, table.schema.cells
        self.generators = () if law.is_explicit(knowledge) else law.generators
        truth = np.zeros(cells, np.int64)
        truth[schema.keys.pack(table.codes)] = table.counts
        codes = schema.keys.unpack(np.arange(cells))
        terms = law.terms(knowledge)
        values, signs, shifts, keys = [truth], [np.full(cells, -1.0)], [np.ones(cells)], []
        if law.alpha == 1.0 and terms == ((st.full(len(schema)), 1),):
            # Gamma(f + 1) / f! is 1, without rounding
            signs, terms = [np.zeros(cells)], ()
        for sub_table, sign in terms:
            stored = st.members(sub_table)
            within = schema.keys.restricted(stored)
            key = within.pack(codes[:, stored])
            keys.append(key + sum(map(len, values)))
            values.append(np.bincount(key, truth, within.cells).astype(np.int64))
            signs.append(np.full(within.cells, float(sign)))
            shifts.append(np.full(within.cells, law.alpha_of(sub_table, schema)))
        self._values, self._signs, self._shifts = map(np.concatenate, (values, signs, shifts))
        self._keys = np.array(keys, np.int64).reshape(-1, cells)
        self._schema, self._frontier = schema, knowledge.release.frontier
        self._linear = np.full(cells, -log(cells) if self.generators else 0.0)
        self._impossible = knowledge.impossible(codes)
        held = np.flatnonzero(truth)
        self._occupied = np.concatenate([[len(held)], held, np.zeros(cells - len(held), np.int64)])
        self._where = np.zeros(cells, np.int64)
        self._where[held] = np.arange(1, len(held) + 1)
        self._moves, self._alpha = _moves(table, knowledge), law.alpha or 0.0

    def spread(self, state: npt.NDArray[np.uint64]) -> None:
        """Move away from the law's bulk: unweighted, all feasible tables are equally likely."""
        self.proceed(state, 20 * self.proposals, weighted=False)

    def advance(self, state: npt.NDArray[np.uint64], rng: np.random.Generator) -> int:
        if self.generators:
            logs = self._linear.reshape(self._schema.sizes)
            self._linear[:] = ipf.cycle(logs, self._counts, self._alpha, self.generators, rng).reshape(-1)
        return self.proceed(state, self.proposals)

    def counts_at(self, cells: Codes) -> Counts:
        return self._values[self._schema.keys.pack(cells)]

    def proceed(self, state: npt.NDArray[np.uint64], proposals: int, *, weighted: bool = True) -> int:
        """Make proposals by the law or with equal weights; return the number accepted."""
        from sdc.intruder.chain_kernel import run

        return run(
            self._values,
            self._signs if weighted else np.zeros_like(self._signs),
            self._shifts,
            self._linear if weighted else np.zeros_like(self._linear),
            self._keys,
            self._impossible,
            self._occupied,
            self._where,
            np.array(self._schema.sizes, np.int64),
            self._schema.keys.strides,
            np.array(self._frontier, np.int64),
            *self._moves,
            state,
            proposals,
        )

    def table(self) -> Table:
        held = np.flatnonzero(self._counts)
        return Table.of(self._schema, self._schema.keys.unpack(held), self._counts.reshape(-1)[held])

    @property
    def _counts(self) -> Counts:
        return self._values[: len(self._linear)].reshape(self._schema.sizes)

    @property
    def moves(self) -> int:
        return len(self._moves[0]) - 1

    @property
    def proposals(self) -> int:
        """Proposals per draw."""
        return PROPOSALS + 10 * self.moves


def _moves(table: Table, knowledge: Knowledge) -> tuple[Ints, Ints, Ints]:
    """Moves that preserve the released marginals: start, positions of dense cells, changes; duplicates are possible.

    Basic moves on the minimal unreleased sets, and differences that a walk finds for at-risk cells, as in certificates.
    """
    parts = [_basic_moves(table, chosen) for chosen in knowledge.structure.minimal_unreleased]
    found = _walked(table, knowledge)
    walks = (np.diff(found.start), table.schema.keys.pack(found.cells), found.changes)
    lengths, places, changes = (np.concatenate(arrays) for arrays in zip(*parts, walks, strict=True))
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), places, changes


def _walked(table: Table, knowledge: Knowledge) -> Differences:
    if not walk.can_search(table):
        return Differences.none(len(table.schema.axes))
    cells = table.codes[np.argsort(table.counts, kind="stable")[:WALKED]]
    return walk.find(table, knowledge, cells, np.full(len(cells), 2), nodes=NODES).differences


def _basic_moves(table: Table, chosen: SubTable) -> tuple[Ints, Ints, Ints]:
    """All basic moves on a set: two categories of each of its variables, and one of each other one.

    (moves,) lengths, and (moves * 2^dimension,) dense cells and changes.
    """
    sizes, strides = table.schema.sizes, table.schema.keys.strides
    members = st.members(chosen)
    others = [v for v in range(len(sizes)) if v not in members]
    base = np.zeros(1, np.int64)
    for v in others:
        base = (base[:, None] + np.arange(sizes[v]) * strides[v]).reshape(-1)
    pairs = [np.array(list(combinations(range(sizes[v]), 2)), np.int64) * strides[v] for v in members]
    # (corners of all choices of pairs, 2^dimension), the last variable fastest
    corners, signs = np.zeros((1, 1), np.int64), np.ones(1, np.int64)
    for pair in pairs:
        corners = (corners[:, None, :, None] + pair[None, :, None, :]).reshape(len(corners) * len(pair), -1)
        signs = (signs[:, None] * np.array([1, -1])).reshape(-1)
    places = (base[:, None, None] + corners[None]).reshape(-1)
    moves = len(base) * len(corners)
    return np.full(moves, len(signs)), places, np.tile(signs, moves)


def check(table: Table, knowledge: Knowledge) -> None:
    """ReleaseError for facts beside the release, and for a dense table or moves beyond the limits."""
    if knowledge.facts:
        raise ReleaseError(
            f"{knowledge.facts[0].source} is about some cells only, and chains preserve whole marginals; choose fewer "
            "variables, so that all tables that agree can be listed"
        )
    sizes = table.schema.sizes
    if table.schema.cells > MAX_CELLS:
        raise ReleaseError(
            f"the table has {table.schema.cells} cells, and chains are of at most {MAX_CELLS} unless both the release "
            "and the model of the law are decomposable; choose fewer variables, or these"
        )
    entries = sum(
        prod(comb(size, 2) * 2 if st.has(chosen, v) else size for v, size in enumerate(sizes))
        for chosen in knowledge.structure.minimal_unreleased
    )
    if entries > MAX_ENTRIES:
        raise ReleaseError(
            f"the basic moves that preserve the release have {entries} entries, and chains take at most {MAX_ENTRIES}"
            "; choose fewer variables, or the law released and a decomposable release"
        )


def check_memory(sampling: Sampling, numbers: int, what: str) -> None:
    """InputError if the draws of a chain do not fit into memory."""
    if numbers * sampling.draws > MAX_STORED:
        most = MAX_STORED // numbers
        raise InputError(f"draws = {sampling.draws} of {what}; give at most {most}, or fewer cells")


def shares(counts: Ints, cells: Codes, truth: Counts) -> tuple[CellLaws, Probabilities]:
    """Shares of each count in (chains, draws, cells) counts, and their standard errors."""
    from arviz_stats.base import array_stats  # takes a second to import

    laws, errors = [], []
    for column in np.moveaxis(counts, -1, 0):
        least = int(column.min())
        is_count = column[None] == np.arange(least, int(column.max()) + 1)[:, None, None]
        found = is_count.mean(axis=(1, 2))
        sizes = array_stats.ess(is_count.astype(np.float64), chain_axis=1, draw_axis=2, method="mean")
        laws.append((least, found))
        errors.append(standard_errors(found, np.where(found > 0, sizes, sizes[found > 0].min())))
    return CellLaws.of_each(cells, truth, laws), np.concatenate([np.empty(0), *errors])


def standard_errors(found: Probabilities, sizes: Probabilities) -> Probabilities:
    """Standard errors of shares of independent draws; positive for shares of 0 and 1 too.

    sqrt(p (1 - p) / n) is far too small for a share p near 0: 1 of 800 draws often comes from a probability that is
    seven of these away. As in Wilson's interval, p is shifted towards a half by as many draws as make three errors
    right near 0 and 1 (Wilson 1927; Agresti and Coull 1998).
    """
    towards = (sizes * found + ERRORS**2 / 2) / (sizes + ERRORS**2)
    errors: Probabilities = np.sqrt(towards * (1 - towards) / sizes)
    return errors


def agreement(series: npt.NDArray[np.number]) -> tuple[float | None, float]:
    """Largest R-hat and smallest effective sample size of the non-constant ones of (chains, draws, series)."""
    from arviz_stats.base import array_stats  # takes a second to import

    changing = series[:, :, (series != series[:1, :1]).any(axis=(0, 1))].astype(np.float64)
    if not changing.shape[-1]:
        return 1.0, float(series.shape[0] * series.shape[1])
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(invalid="ignore", divide="ignore"):
        r_hat, size = array_stats.rhat(changing, **axes), array_stats.ess(changing, **axes)
    agree = np.isfinite(r_hat).all()
    return float(np.max(r_hat)) if agree else None, float(np.min(size))
