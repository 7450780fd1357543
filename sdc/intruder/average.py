"""The posterior under an average of laws, each weighted by the probability of the release under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil, log, log1p, prod, sqrt
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit, gammaln, logsumexp

from sdc.executor import IN_PROCESS, Executor
from sdc.intruder import ipf
from sdc.intruder.cell_laws import CellLaws, Probabilities
from sdc.intruder.chains import Diagnostics, Sampled, Sampling, agreement, check_memory, shares
from sdc.intruder.enumerated import IndependentPart, TooManyTablesError, enumerated
from sdc.intruder.laws import RELEASED, Law, law_of
from sdc.intruder.posterior import AVERAGE, CHAINS, ENGINES, OVER_DRAWS, Model, Posterior, exact_posterior, of_axes
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table

MAX_CELLS = 2048  # of the dense table, once for each rung
MAX_TABLES = 1 << 14  # of one part: each draw of each rung weighs them all

RUNGS = 4  # for each standard deviation of the log density: more are cheap, as all are drawn at once
SWEEPS = 2  # from draw to draw

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class Climbed:
    """log Z(1) / Z(0), see `climbed`, its Monte Carlo standard error, and the draws at the top."""

    log_ratio: float
    standard_error: float
    top: Sampled


@dataclass(frozen=True, eq=False)
class LadderUnit:
    """A chain for each rung, or one chain given the whole table: all its inputs except the table."""

    law: Law
    parts: tuple[IndependentPart, ...]
    powers: Floats
    cells: Codes
    draws: int
    seed: tuple[int, ...]


def climbed(
    table: Table, begun: _Undrawn, cells: Codes, sampling: Sampling, executor: Executor, number: int
) -> Climbed:
    """Estimate log Z(1) / Z(0) of a model with `generators`, and (n, variables) cells given the release.

    Z(b) is the sum over the feasible tables f, those of the parts, and the integral over the log-linear parameters of
    prod_i theta_i^(alpha + b f_i) / f_i!. So Z(0) is I(alpha) sum_f prod 1 / f_i!, and Pr(R | A) = n! Z(1) / I(alpha).
    The ratio of neighbours on a ladder of powers b is that of the best bridge (Bennett 1976; Meng and Wong 1996). At
    each rung theta and f are drawn in turn, by Bayesian proportional fitting and from the list of each part (Tanner and
    Wong 1987), and neighbours exchange states (Geyer 1991). The marginal of the largest generator is integrated out of
    the ratios. With `over_draws` the top alone is drawn, see `_mean_over_draws`.

    number  index of the law in a family: each has its own seeds, so that errors are independent

    The error is that of the estimating equations, summed over the dependent rungs, with its autocorrelation. A draw
    costs the cells and the entries of all parts, for each rung. Raises InputError for more draws than memory allows.
    """
    powers = np.ones(1) if begun.over_draws else _powers(table, begun.law)
    rungs = "" if begun.over_draws else f" and {len(powers)} rungs"
    check_memory(sampling, stored_numbers(table, begun.law, cells), f"{len(cells)} cells{rungs}")
    seeds = [(sampling.seed, chain, number) for chain in range(sampling.chains)]
    units = [LadderUnit(begun.law, begun.parts, powers, cells, sampling.draws, seed) for seed in seeds]
    counts, notes = (np.stack(own) for own in zip(*executor.run(run_ladder, table, units), strict=True))
    log_ratio, error, series = (_mean_over_draws if begun.over_draws else _bridged)(notes)
    laws, errors = shares(counts, cells, table.count_at(cells))
    r_hat, size = agreement(np.concatenate([counts, series[:, :, None]], axis=2))
    diagnostics = Diagnostics(*sampling.as_fields(errors), r_hat, size, 1.0, 0, "proven")
    return Climbed(log_ratio, error, Sampled(laws, errors, diagnostics))


def stored_numbers(table: Table, law: Law, cells: Codes) -> int:
    """Numbers stored for each draw."""
    return len(cells) + 2 * len(_powers(table, law))


def run_ladder(table: Table, unit: LadderUnit) -> tuple[Ints, Floats]:
    """(draws, cells) counts at the top; and by draw the steps, or of a single rung log Pr(R | theta).

    Half as many draws as are used are discarded first.
    """
    rng, keys = np.random.default_rng(unit.seed), table.schema.keys.pack(unit.cells)
    ladder, is_single = _Ladder(table, unit), len(unit.powers) == 1
    counts, notes = np.empty((unit.draws, len(keys)), np.int64), list[Floats | float]()
    for draw in range(-(unit.draws // 2), unit.draws):
        for sweep in range(1 if is_single else SWEEPS):
            ladder.sweep(sweep % 2, rng)
        if draw >= 0:
            counts[draw] = ladder.tables[-1, keys]
            notes.append(ladder.log_release if is_single else ladder.steps)
    return counts, np.array(notes)


class _Ladder:
    """The states of all rungs.

    tables  (rungs, cells) int64
    logs    (rungs, cells) logarithms of the cell probabilities
    steps   (rungs, 2) log density of the rung below and of the rung above, relative to the rung itself, at its state; 0
            below the first and above the last
    """

    def __init__(self, table: Table, unit: LadderUnit) -> None:
        self._schema, self._parts, self._alpha = table.schema, unit.parts, unit.law.alpha or 0.0
        self._powers, powers = unit.powers[:, None], np.pad(unit.powers, 1, "edge")
        self._nearby = np.stack([powers[1:-1], powers[:-2], powers[2:]])
        largest = _largest(unit.law.generators, table.schema)
        # the first of a cycle: its marginal is not exchanged between rungs, and is drawn before it is used
        self._generators = sorted(unit.law.generators, key=lambda generator: generator != largest)
        self._away = ipf.summed_out(largest, len(table.schema))
        self._total = table.total
        truth = np.zeros(table.schema.cells, np.int64)
        truth[table.schema.keys.pack(table.codes)] = table.counts
        self.tables = np.tile(truth, (len(unit.powers), 1))
        self.logs = np.full(self.tables.shape, -log(table.schema.cells))
        self.steps = np.zeros((len(unit.powers), 2))

    def sweep(self, first: int, rng: np.random.Generator) -> None:
        """Exchange states of every other pair of rungs, starting with rung 0 or 1, then draw theta, then tables."""
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

    @property
    def log_release(self) -> float:
        """log Pr(R | theta), the sum over all feasible tables, at the top."""
        logs, table = self.logs[-1], self.tables[-1].copy()
        log_probability = gammaln(self._total + 1)
        for part in self._parts:
            weights = part.tables @ logs[part.cells] - gammaln(part.tables + 1).sum(axis=1)
            log_probability += logsumexp(weights)
            table[part.cells] = 0
        return float(log_probability + (table * logs - gammaln(table + 1)).sum())

    def _to_neighbours(self) -> Floats:
        """`steps` with the marginal of the largest generator, a Dirichlet, integrated out."""
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
    """(rungs,) from 0 to 1, such that alpha and records together grow by a constant factor.

    With d parameters the log density has near the posterior the standard deviation sqrt(d / 2) per unit of log b:
    neighbours overlap if they are about one of these apart (Gelman and Meng 1998 on the length of a path).
    """
    records = table.total / ((law.alpha or 0.0) * table.schema.cells)
    rungs = ceil(RUNGS * sqrt(_parameters(law.generators, table.schema) / 2) * log1p(records))
    # no record, or no parameter outside the largest generator: then any two rungs suffice
    return np.expm1(np.linspace(0, log1p(records), max(rungs, 1) + 1)) / (records or 1.0)


def _parameters(generators: Sequence[SubTable], schema: Schema) -> int:
    """Free parameters of the model without those of the largest generator, which are integrated out."""
    interactions = {part for generator in generators for part in st.submasks(generator)}
    largest = set(st.submasks(_largest(generators, schema)))
    return sum(prod(schema.sizes[v] - 1 for v in st.members(one)) for one in interactions - largest)


def _largest(generators: Sequence[SubTable], schema: Schema) -> SubTable:
    return max(generators, key=lambda generator: prod(schema.sizes[v] for v in st.members(generator)))


def _drawn(part: IndependentPart, linear: Floats, rng: np.random.Generator) -> Ints:
    """For each rung a table of the part with weight exp(linear f) prod 1 / f!; (rungs, cells of the part)."""
    weights = linear @ part.tables.T + part.logs
    sums = np.cumsum(np.exp(weights - weights.max(axis=1, keepdims=True)), axis=1)
    below = sums < rng.random((len(sums), 1)) * sums[:, -1:]
    found: Ints = part.tables[np.count_nonzero(below, axis=1)]
    return found


def _exchanged(steps: Floats, first: int, rng: np.random.Generator) -> Ints:
    """(rungs,) the rung whose state each gets: every other pair, from the first, exchanges states or not."""
    order, lower = np.arange(len(steps)), np.arange(first, len(steps) - 1, 2)
    # Metropolis: the gain of both
    lower = lower[-rng.standard_exponential(len(lower)) < steps[lower, 1] + steps[lower + 1, 0]]
    order[lower], order[lower + 1] = lower + 1, lower
    return order


def _bridged(steps: Floats) -> tuple[float, float, Floats]:
    """log Z(1) / Z(0) from (chains, draws, rungs, 2) steps, its error, and its (chains, draws) series."""
    from arviz_stats.base import array_stats  # takes a second to import

    series, log_ratio = np.zeros(steps.shape[:2]), 0.0
    for k in range(steps.shape[2] - 1):
        up, down = steps[:, :, k, 1], steps[:, :, k + 1, 0]
        ratio = _ratio(up, down)
        rises, falls = expit(up - ratio), expit(down + ratio)
        # a draw's term in the equation of the ratio, over its slope: the ratio's error is their sum
        slope = (rises * (1 - rises)).mean() + (falls * (1 - falls)).mean()
        series += (rises - falls) / slope
        log_ratio += ratio
    return log_ratio, float(array_stats.mcse(series, chain_axis=0, draw_axis=1, method="mean")), series


def _mean_over_draws(logs: Floats) -> tuple[float, float, Floats]:
    """log E(Pr(R | theta) | R, A) from its (chains, draws) logarithms, as [DFT] (8) to (10) do; its error; and these.

    That is the mean over draws of theta from its posterior, where the probability of the release is the mean over the
    prior.
    """
    from arviz_stats.base import array_stats  # takes a second to import

    highest = float(logs.max())
    shown = np.exp(logs - highest)
    error = float(array_stats.mcse(shown, chain_axis=0, draw_axis=1, method="mean")) / shown.mean()
    return highest + log(shown.mean()), error, logs


def _ratio(up: Floats, down: Floats) -> float:
    """log Z'/Z of two rungs from log q'/q of the draws of the lower one and log q/q' of those of the upper one."""
    ends = [min(up.min(), -down.max()), max(up.max(), -down.min())]
    # the ratio is constant, as without records
    if ends[0] == ends[1]:
        return float(ends[0])
    return float(brentq(lambda r: expit(up - r).mean() - expit(down + r).mean(), *ends))


CLOSE = 1e-9  # tolerance of the sum of priors


def average(
    table: Table,
    knowledge: Knowledge,
    priors: Mapping[str, float],
    cells: Codes,
    alpha: float,
    sampling: Sampling | None = None,
    executor: Executor = IN_PROCESS,
    *,
    over_draws: bool = False,
) -> Posterior:
    """The average over a family of laws, weighted by Pr(A | R) ([DFT] 5.4); sampled for non-decomposable models.

    Pr(A | R) is proportional to the prior of A times Pr(R | A), the sum of Pr(F | A) over the feasible tables F.

    over_draws  weigh by the mean of Pr(R | theta) over draws of theta from its posterior instead, as [DFT] (8) to (10)
                do. It uses the release twice, so that all models look alike: in the table of [DFT] it gives .23 .66
                .11 for priors of .22 .67 .11, of which the printed .18 .72 .10 is an estimate from 500 draws; Pr(R | A)
                gives .10 .69 .20

    Raises InputError if there is no law, a prior is negative, priors do not sum to 1, or a law has no prior of its own
    or an unknown probability of the release.
    """
    check_priors(priors)
    if not table.schema.levels.is_flat:
        keys = table.schema.columns(cells)
        flat = average(table.flat, knowledge.flat, priors, keys, alpha, sampling, executor, over_draws=over_draws)
        return of_axes(flat, table.schema)
    laws = [law_of(name, table.schema, alpha) for name in priors]
    # check all of them before sampling
    begun, more = [_begun(table, knowledge, law, cells, over_draws) for law in laws], sampling or Sampling()
    numbers = [stored_numbers(table, one.law, cells) for one in begun if isinstance(one, _Undrawn)]
    while True:
        found = [
            one if isinstance(one, Posterior) else _sampled(table, one, cells, more, executor, number)
            for number, one in enumerate(begun)
        ]
        averaged = replace(_averaged(found, priors, alpha), law=OVER_DRAWS if over_draws else AVERAGE)
        diagnostics = averaged.diagnostics
        if diagnostics is None or (further := more.further(diagnostics.error, max(numbers))) is None:
            return averaged
        more = further


def _averaged(found: Sequence[Posterior], priors: Mapping[str, float], alpha: float) -> Posterior:
    """Combine laws by priors and probabilities of the release, with errors if some were sampled."""
    with np.errstate(divide="ignore"):
        logs = np.log(list(priors.values())) + [_known(one.log_evidence) for one in found]
    weights = np.exp(logs - logsumexp(logs))
    is_exact = all(one.log_evidence_error is None for one in found)
    engines = {one.engine for one in found} | (set() if is_exact else {CHAINS})
    of_truth = [one.log_probability for one in found if one.log_probability is not None]
    averaged = Posterior(
        AVERAGE,
        alpha,
        " and ".join(sorted(engines, key=ENGINES.index)),
        mixture([one.cells for one in found], weights),
        max((one.feasible_tables for one in found if one.feasible_tables is not None), default=None),
        float(logsumexp(of_truth, b=weights)) if len(of_truth) == len(found) else None,
        float(logsumexp(logs)),
        all(one.equals_released for one in found),
        tuple(map(Model, found, priors.values(), weights.tolist())),
    )
    return averaged if is_exact else _with_errors(averaged)


def check_priors(priors: Mapping[str, float]) -> None:
    """InputError unless the priors are probabilities of a family."""
    if not priors:
        raise InputError(f"the law {AVERAGE} averages several laws; give each its prior, such as saturated=0.5")
    for name, prior in priors.items():
        if not prior >= 0:
            raise InputError(f"the prior of {name} is {prior}; give a probability")
    if abs(sum(priors.values()) - 1) > CLOSE:
        raise InputError(f"the priors of {', '.join(priors)} sum to {sum(priors.values()):g}; they must sum to 1")


@dataclass(frozen=True, eq=False)
class _Undrawn:
    """A law of an average before its draws.

    exact            its posterior except log Pr(R | A), if all of its model is public; else None
    parts            parts of the feasible tables that may be drawn; none if the posterior is exact, because then the
                     cell probabilities have the same law given any feasible table
    feasible_tables  M(T), None if not counted
    log_probability  log Pr(F | R) of the true table under the law `released`
    over_draws       see `average`; then all parts are there
    """

    law: Law
    exact: Posterior | None
    parts: tuple[IndependentPart, ...]
    feasible_tables: int | None
    log_probability: float
    over_draws: bool = False


def _begun(
    table: Table, knowledge: Knowledge, law: Law, cells: Codes, over_draws: bool = False
) -> Posterior | _Undrawn:
    """The exact part of a law of an average; InputError if the probability of the release cannot be computed."""
    if not law.generators and law.model is None:
        why = "it has no prior"
    elif knowledge.zeros:
        why = "there are structural zeros"
    elif (law.generators or over_draws) and table.schema.cells > MAX_CELLS:
        why = f"its cell probabilities are drawn, and the table has {table.schema.cells} cells, more than {MAX_CELLS}"
    else:
        why = "too many feasible tables vary together to list them"
        with suppress(TooManyTablesError):
            if over_draws:
                listed, model = enumerated(table, knowledge, Law(RELEASED), MAX_TABLES), law.model
                exact = exact_posterior(table, knowledge, law, cells)
                drawn = replace(law, model=None, generators=model.cliques) if model else law
                return _Undrawn(drawn, exact, listed.parts, listed.feasible_tables, 0.0, True)
            if not law.is_explicit(knowledge):
                listed = enumerated(table, knowledge, Law(RELEASED), MAX_TABLES)
                return _Undrawn(law, None, listed.parts, listed.feasible_tables, listed.log_probability_of_truth)
            if (exact := exact_posterior(table, knowledge, law, cells)) is not None:
                of_truth = _known(exact.log_probability)
                return _Undrawn(law, exact, (), exact.feasible_tables, of_truth) if law.generators else exact
    raise InputError(
        f"the law {law.name} cannot be averaged: {why}, so that the probability it gives the release is not known; "
        "name other models, such as [a,b][b,c], or a release under which fewer tables are feasible"
    )


def _sampled(
    table: Table, begun: _Undrawn, cells: Codes, sampling: Sampling, executor: Executor, number: int
) -> Posterior:
    """The posterior under a law with a non-decomposable model, with an estimate of Pr(R | A)."""
    law, exact = begun.law, begun.exact
    found = climbed(table, begun, cells[:0] if exact else cells, sampling, executor, number)
    # log n! sum_f prod 1 / f!, of which the true table has the share Pr(F | R)
    log_tables = gammaln(table.total + 1) - gammaln(table.counts + 1).sum() - begun.log_probability
    evidence, top = found.log_ratio + (0.0 if begun.over_draws else float(log_tables)), found.top
    if exact is None:
        rest = None, evidence, False, (), top.standard_errors
        exact = Posterior(law.name, law.alpha, CHAINS, top.laws, begun.feasible_tables, *rest)
    return replace(exact, log_evidence=evidence, log_evidence_error=found.standard_error, diagnostics=top.diagnostics)


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("the probabilities are those of an exact law, or of a law with a prior after sampling")
    return value


def mixture(laws: Sequence[CellLaws], weights: Probabilities) -> CellLaws:
    """The weighted sum of each cell's laws."""
    first, start, places = _common(laws)
    mixed = np.zeros(start[-1])
    for law, place, weight in zip(laws, places, weights, strict=True):
        mixed[place] += weight * law.probabilities
    return CellLaws(laws[0].cells, laws[0].counts, first, start, mixed)


def _common(laws: Sequence[CellLaws]) -> tuple[Counts, Counts, list[Counts]]:
    """Common first counts and starts for all laws, and the positions of each law's probabilities."""
    first = np.min([law.first for law in laws], axis=0)
    last = np.max([law.ranges[:, 1] for law in laws], axis=0)
    start = np.concatenate([[0], np.cumsum(last - first + 1)])
    shifts = [np.repeat(start[:-1] + law.first - first - law.start[:-1], np.diff(law.start)) for law in laws]
    return first, start, [np.arange(len(shift)) + shift for shift in shifts]


def _with_errors(averaged: Posterior) -> Posterior:
    """An average with the errors of its sampled laws.

    With s_a the error of log Pr(R | A), w_a the probability of a model and p_a that of a count under it, whose mean is
    p, the derivatives are dw_b / dlog Pr(R | A) = w_b ([a = b] - w_a) and dp / dlog Pr(R | A) = w_a (p_a - p). Models
    are drawn independently. Within one model p_a and Pr(R | A) use the same draws: there errors add up, not squares.
    """
    found = [model.posterior for model in averaged.models]
    weights = np.array([model.probability for model in averaged.models])
    errors = np.array([one.log_evidence_error or 0.0 for one in found])
    of_weights = np.linalg.norm(weights[:, None] * (np.eye(len(found)) - weights) * errors, axis=1)
    of_cells = _cell_errors(averaged, weights * errors)
    diagnostics = [one.diagnostics for one in found if one.diagnostics]
    return replace(
        averaged,
        log_probability=None,
        log_evidence_error=float(np.linalg.norm(weights * errors)),
        models=tuple(
            replace(model, standard_error=error)
            for model, error in zip(averaged.models, of_weights.tolist(), strict=True)
        ),
        standard_errors=of_cells,
        diagnostics=replace(_worst(diagnostics), error=float(max(of_cells.max(initial=0.0), of_weights.max()))),
    )


def _cell_errors(averaged: Posterior, errors: Probabilities) -> Probabilities:
    """Errors of the average's probabilities; (models,) errors w_a s_a."""
    mixed, squares = averaged.cells.probabilities, np.zeros_like(averaged.cells.probabilities)
    places = _common([model.posterior.cells for model in averaged.models])[2]
    for model, place, error in zip(averaged.models, places, errors, strict=True):
        own, of_own = np.zeros((2, len(mixed)))
        own[place] = model.posterior.cells.probabilities
        of_own[place] = 0.0 if model.posterior.standard_errors is None else model.posterior.standard_errors
        squares += (model.probability * of_own + error * np.abs(own - mixed)) ** 2
    found: Probabilities = np.sqrt(squares)
    return found


def _worst(diagnostics: Sequence[Diagnostics]) -> Diagnostics:
    """The R-hat that is furthest from 1 and the smallest effective sample size over the sampled laws."""
    r_hats = [one.r_hat for one in diagnostics if one.r_hat is not None]
    return replace(
        diagnostics[0],
        r_hat=max(r_hats) if len(r_hats) == len(diagnostics) else None,
        effective_sample_size=min(one.effective_sample_size for one in diagnostics),
    )
