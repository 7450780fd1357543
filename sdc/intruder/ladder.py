"""Probabilities that models give a release, without a closed form: by a ladder of laws from prior to posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log, log1p, prod, sqrt
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit, gammaln

from sdc.executor import Executor
from sdc.intruder import ipf
from sdc.intruder.chains import Diagnostics, Sampled, Sampling, agreement, check_kept, shares
from sdc.intruder.enumerated import IndependentPart
from sdc.intruder.laws import Law
from sdc.model import subtable as st
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table

MAX_CELLS = 2048  # of the dense table, once for each rung
MAX_TABLES = 1 << 14  # of one part: each draw of each rung weighs them all

RUNGS = 4  # for each standard deviation that the log density moves: more are cheap, as all are drawn at once
SWEEPS = 2  # from draw to draw

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class Climbed:
    """log Z(1) / Z(0), see `climbed`, its Monte Carlo standard error, and what is drawn at the top."""

    log_ratio: float
    standard_error: float
    top: Sampled


@dataclass(frozen=True, eq=False)
class LadderUnit:
    """A chain for each rung: everything they depend on but the table."""

    law: Law
    parts: tuple[IndependentPart, ...]
    powers: Floats
    cells: Codes
    draws: int
    seed: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Rungs:
    """Of one unit (draws, cells) int64 counts at the top, and (draws, rungs, 2) steps, see `_Ladder`."""

    counts: Ints
    steps: Floats


def climbed(
    table: Table,
    law: Law,
    parts: Sequence[IndependentPart],
    cells: Codes,
    sampling: Sampling,
    executor: Executor,
    number: int,
) -> Climbed:
    """log Z(1) / Z(0) of a model with `generators`, and (n, variables) cells given the release.

    Z(b) is the sum over the feasible tables f, those of `parts`, and the integral over the log-linear parameters of
    prod_i theta_i^(alpha + b f_i) / f_i!. So Z(0) is I(alpha) sum_f prod 1 / f_i!, and Pr(R | A) = n! Z(1) / I(alpha).
    Of neighbours on a ladder of powers b the ratio is that of the best bridge (Bennett 1976; Meng and Wong 1996).
    At each rung theta and f are drawn in turn, by Bayesian proportional fitting and from the list of each part (Tanner
    and Wong 1987), and neighbours exchange states (Geyer 1991). The marginal of the largest generator is integrated
    out of the ratios.

    number  of the law in a family: each has seeds of its own, so that their errors are independent

    The error is that of the estimating equations, summed over the rungs as these depend on each other, with its
    autocorrelation. A draw costs the cells and the entries of all parts, for each rung. InputError for more draws than
    are kept.
    """
    powers = _powers(table, law)
    check_kept(sampling, numbers_kept(table, law, cells), f"{len(cells)} cells and {len(powers)} rungs")
    seeds = [(sampling.seed, chain, number) for chain in range(sampling.chains)]
    units = [LadderUnit(law, tuple(parts), powers, cells, sampling.draws, seed) for seed in seeds]
    found = list(executor.run(run_ladder, table, units))
    log_ratio, error, series = _bridged(np.stack([one.steps for one in found]))
    counts = np.stack([one.counts for one in found])
    laws, errors = shares(counts, cells, table.count_at(cells))
    r_hat, size = agreement(np.concatenate([counts, series[:, :, None]], axis=2))
    told = Diagnostics(*sampling.told(errors), r_hat, size, 1.0, 0, "proven")
    return Climbed(log_ratio, error, Sampled(laws, errors, told))


def numbers_kept(table: Table, law: Law, cells: Codes) -> int:
    """Of each draw."""
    return len(cells) + 2 * len(_powers(table, law))


def run_ladder(table: Table, unit: LadderUnit) -> Rungs:
    """The unit: half as many draws as are kept are thrown away first."""
    rng, asked = np.random.default_rng(unit.seed), table.schema.keys.pack(unit.cells)
    ladder = _Ladder(table, unit)
    counts = np.empty((unit.draws, len(asked)), np.int64)
    steps = np.empty((unit.draws, len(unit.powers), 2))
    for draw in range(-(unit.draws // 2), unit.draws):
        for sweep in range(SWEEPS):
            ladder.sweep(sweep % 2, rng)
        if draw >= 0:
            counts[draw], steps[draw] = ladder.tables[-1, asked], ladder.steps
    return Rungs(counts, steps)


class _Ladder:
    """The states of all rungs.

    tables  (rungs, cells) int64
    logs    (rungs, cells) the logarithms of the cell probabilities
    steps   (rungs, 2) the log density of the rung below, and of the one above, over that of the rung itself, at its
            state; there is none below the first and none above the last: 0
    """

    def __init__(self, table: Table, unit: LadderUnit) -> None:
        self._schema, self._parts, self._alpha = table.schema, unit.parts, unit.law.alpha or 0.0
        self._powers, powers = unit.powers[:, None], np.pad(unit.powers, 1, "edge")
        self._nearby = np.stack([powers[1:-1], powers[:-2], powers[2:]])
        largest = _largest(unit.law.generators, table.schema)
        # the first of a cycle: its marginal is no part of what rungs exchange, and is drawn anew before it is used
        self._generators = sorted(unit.law.generators, key=lambda generator: generator != largest)
        self._away = ipf.summed_out(largest, len(table.schema))
        truth = np.zeros(table.schema.cells, np.int64)
        truth[table.schema.keys.pack(table.codes)] = table.counts
        self.tables = np.tile(truth, (len(unit.powers), 1))
        self.logs = np.full(self.tables.shape, -log(table.schema.cells))
        self.steps = np.zeros((len(unit.powers), 2))

    def sweep(self, first: int, rng: np.random.Generator) -> None:
        """Exchanges states of every other pair of rungs, the first of them 0 or 1, then draws theta, then tables."""
        order = _exchanged(self.steps, first, rng)
        tables, powers = self.tables[order], self._powers
        logs = ipf.cycle(
            self._shaped(self.logs[order]), self._shaped(powers * tables), self._alpha, self._generators, rng
        )
        logs = logs.reshape(tables.shape)
        for part in self._parts:
            tables[:, part.cells] = _drawn(part, powers * logs[:, part.cells], rng)
        self.tables, self.logs = tables, logs
        self.steps = self._to_neighbours()

    def _to_neighbours(self) -> Floats:
        """`steps`, with the marginal of the largest generator integrated out, whose law is a Dirichlet."""
        logs = self._shaped(self.logs)
        marginal = self._shaped(self.tables).sum(axis=self._away).reshape(len(self.tables), -1)
        conditional = (logs - ipf.log_sum(logs, self._away)).reshape(self.logs.shape)
        shapes = self._alpha * self._schema.cells / marginal.shape[1] + self._nearby[:, :, None] * marginal
        densities = gammaln(shapes).sum(axis=2) - gammaln(shapes.sum(axis=2))
        densities += self._nearby * (self.tables * conditional).sum(axis=1)
        found: Floats = (densities[1:] - densities[0]).T
        return found

    def _shaped(self, cells: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """(rungs, of the table's shape)."""
        return cells.reshape(-1, *self._schema.sizes)


def _powers(table: Table, law: Law) -> Floats:
    """(rungs,) from 0 to 1, such that alpha and records together grow by a factor from rung to rung.

    Of d parameters the log density has near the posterior the standard deviation sqrt(d / 2) for each unit of log b:
    neighbours overlap where they are about one of these apart (Gelman and Meng 1998 on the length of a path).
    """
    records = table.total / ((law.alpha or 0.0) * table.schema.cells)
    rungs = ceil(RUNGS * sqrt(_parameters(law.generators, table.schema) / 2) * log1p(records))
    # no record, or no parameter but those of the largest generator: then any two rungs are enough
    return np.expm1(np.linspace(0, log1p(records), max(rungs, 1) + 1)) / (records or 1.0)


def _parameters(generators: Sequence[SubTable], schema: Schema) -> int:
    """Free parameters of the model, but those of the largest generator, which are integrated out."""
    interactions = {part for generator in generators for part in st.submasks(generator)}
    largest = set(st.submasks(_largest(generators, schema)))
    return sum(prod(schema.sizes[v] - 1 for v in st.members(one)) for one in interactions - largest)


def _largest(generators: Sequence[SubTable], schema: Schema) -> SubTable:
    """The generator with most cells."""
    return max(generators, key=lambda generator: prod(schema.sizes[v] for v in st.members(generator)))


def _drawn(part: IndependentPart, linear: Floats, rng: np.random.Generator) -> Ints:
    """For each rung a table of the part, which weighs exp(linear f) prod 1 / f!; (rungs, cells of the part)."""
    weights = linear @ part.tables.T + part.logs
    sums = np.cumsum(np.exp(weights - weights.max(axis=1, keepdims=True)), axis=1)
    below = sums < rng.random((len(sums), 1)) * sums[:, -1:]
    found: Ints = part.tables[np.count_nonzero(below, axis=1)]
    return found


def _exchanged(steps: Floats, first: int, rng: np.random.Generator) -> Ints:
    """(rungs,) the rung whose state each has next: every other pair, from the first, exchanges theirs or does not."""
    order, lower = np.arange(len(steps)), np.arange(first, len(steps) - 1, 2)
    # Metropolis: what both would gain
    lower = lower[-rng.standard_exponential(len(lower)) < steps[lower, 1] + steps[lower + 1, 0]]
    order[lower], order[lower + 1] = lower + 1, lower
    return order


def _bridged(steps: Floats) -> tuple[float, float, Floats]:
    """Of (chains, draws, rungs, 2) steps log Z(1) / Z(0), its error, and the (chains, draws) series of that."""
    from arviz_stats.base import array_stats  # takes a second to import

    series, log_ratio = np.zeros(steps.shape[:2]), 0.0
    for k in range(steps.shape[2] - 1):
        up, down = steps[:, :, k, 1], steps[:, :, k + 1, 0]
        ratio = _ratio(up, down)
        rises, falls = expit(up - ratio), expit(down + ratio)
        # what a draw adds to the equation that the ratio solves, over the slope of it: the ratio's error is their sum
        slope = (rises * (1 - rises)).mean() + (falls * (1 - falls)).mean()
        series += (rises - falls) / slope
        log_ratio += ratio
    return log_ratio, float(array_stats.mcse(series, chain_axis=0, draw_axis=1, method="mean")), series


def _ratio(up: Floats, down: Floats) -> float:
    """log Z'/Z of two rungs from log q'/q of the draws of the lower one and log q/q' of those of the upper one."""
    ends = [min(up.min(), -down.max()), max(up.max(), -down.min())]
    # the ratio is the same everywhere, such as that of no record
    if ends[0] == ends[1]:
        return float(ends[0])
    return float(brentq(lambda r: expit(up - r).mean() - expit(down + r).mean(), *ends))
