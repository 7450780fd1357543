"""Remedies: recodes with which what stopped a release may go out after all, each of them tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from sdc.executor import IN_PROCESS
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.recode import Recode
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.protect.recoding import pasted
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.effort import Budget
from sdc.risk.evaluator import RiskEvaluator
from sdc.search.blockers import Cell, Stopped, blockers, near
from sdc.search.grown import Grown
from sdc.search.growth import Growth, fits_a_worker
from sdc.search.ordered import OrderedSearch

MOST_SECONDS = 60.0  # of a reference core, of the budget of a search, for one recode
ABOVE = 1 << 40  # more than all cells near


@dataclass(frozen=True)
class Remedy:
    """A recode that was tried.

    asked  the sub-tables that had been stopped; not those with a variable that is left out
    freed  those of them that the policy accepts with all that was released, recoded
    lost   how many released sub-tables go with a variable that is left out
    """

    recode: Recode
    asked: tuple[SubTable, ...]
    freed: tuple[SubTable, ...]
    lost: int

    @property
    def config(self) -> str:
        """What to paste into the config; where a variable is recoded there already, instead."""
        before, variable = self.recode.before, self.recode.before.variables[self.recode.variable]
        if self.recode.leaves_out:
            return pasted({"table": {"variables": [name for name in before.names if name != variable.name]}})
        merged = self.recode.names
        others = {category: [category] for category in variable.categories if category not in merged}
        return pasted({"table": {"recodes": {variable.name: {"groups": {" or ".join(merged): merged, **others}}}}})


@dataclass(frozen=True, eq=False)
class Attempt:
    """A recode to be tried: its growth is from the release found, the `start`, to what was stopped, all recoded."""

    recode: Recode
    growth: Growth
    start: Grown


def attempt(table: Table, unit: Attempt) -> Release:
    """The release that grows in the recoded table, as far as it is accepted; nothing where not even its start is."""
    growth, start, recoded = unit.growth, unit.start, unit.recode.table(table)
    if not len(recoded.at_risk(growth.criteria.small_count)):
        return Release.of([st.full(len(recoded.schema))])
    evaluator = RiskEvaluator(recoded, growth.known, growth.criteria, growth.policy, growth.effort)
    evaluator.learn(start.proof, start.release)
    evaluation = evaluator.evaluate(start.release)
    if not evaluator.accepts(evaluation):
        return Release.of([])
    return OrderedSearch(evaluator, growth.widths).extended(evaluation).release


def remedies(
    found: Grown, evaluator: RiskEvaluator, variables: int, tell: Callable[[Remedy], None] = lambda remedy: None
) -> tuple[Remedy, ...]:
    """The most promising recodes of at most so many variables, tried on what stopped the release; best first.

    Of each a merge of two categories, see `promising`, and leaving it out. Whether more could be released, once what
    was stopped is, is not asked.
    """
    table, effort, stopped = evaluator.table, evaluator.effort, blockers(found.steps)
    # a worker has for itself what this process has of a larger table
    executor, within = (effort.executor, IN_PROCESS) if fits_a_worker(table) else (IN_PROCESS, effort.executor)
    budget = Budget(effort.budget.seconds_per_cell, min(effort.budget.seconds, MOST_SECONDS))
    asked = replace(evaluator, effort=replace(effort, budget=budget, executor=within))
    merges = islice(promising(table, evaluator.known, evaluator.criteria.small_count, stopped), variables)
    tried = [recode for recode in _each(merges) if _asked(recode, stopped)]
    done = []
    for begin in range(0, len(tried), executor.workers):
        # a round at a time: each unit has the release's whole proof, which is megabytes
        some = tried[begin : begin + executor.workers]
        units = [_attempt(recode, found, stopped, asked) for recode in some]
        for recode, after in zip(some, executor.run(attempt, table, units), strict=True):
            done.append(_remedy(recode, found.release, stopped, after))
            tell(done[-1])
    return tuple(sorted(done, key=lambda remedy: remedy.lost - len(remedy.freed)))


def _each(merges: Iterable[Recode]) -> Iterator[Recode]:
    """Each merge, and where there are more categories leaving the variable out."""
    for recode in merges:
        yield recode
        if not recode.leaves_out and len(recode.before) > 1:
            yield replace(recode, merged=tuple(range(recode.before.sizes[recode.variable])))


def _attempt(recode: Recode, found: Grown, stopped: Sequence[Stopped], evaluator: RiskEvaluator) -> Attempt:
    sub_tables = np.array([recode.sub_table(t) for t in _asked(recode, stopped)], np.uint64)
    least = evaluator.criteria.floor  # nobody looks at their widths, which are others after a recode
    widths = CriticalWidths(sub_tables, np.full(len(sub_tables), least), least, len(sub_tables))
    start = Grown(recode.release(found.release), _recoded(found.proof, recode))
    known = recode.known(evaluator.known)
    return Attempt(recode, Growth(known, evaluator.criteria, evaluator.policy, evaluator.effort, widths), start)


def _asked(recode: Recode, stopped: Sequence[Stopped]) -> tuple[SubTable, ...]:
    """What was stopped, each once; what has a variable that is left out would be another sub-table."""
    return tuple(sorted({t for _, sub_tables in stopped for t in sub_tables if st.is_within(t, recode.remaining)}))


def _remedy(recode: Recode, release: Release, stopped: Sequence[Stopped], after: Release) -> Remedy:
    asked = _asked(recode, stopped)
    freed = tuple(t for t in asked if recode.sub_table(t) in after)
    lost = release.sub_tables(recode.before) - recode.release(release).sub_tables(recode.schema)
    return Remedy(recode, asked, freed, lost)


def _recoded(proof: Proof, recode: Recode) -> Proof:
    """The same feasible tables, recoded: they are so still, as their marginals are sums of those before."""
    # of a part that is nothing but the variable left out nothing is left
    parts = [part for part in proof.parts if recode.sub_table(part.variables)]
    return Proof(tuple(_recoded_part(part, recode) for part in parts), ())


def _recoded_part(part: ComponentProof, recode: Recode) -> ComponentProof:
    variables, found = recode.sub_table(part.variables), part.differences
    if st.has(part.variables, recode.variable):
        column = st.members(recode.before.levels.finest(part.variables)).index(recode.variable)
        cells = recode.codes(found.cells, column)
        schema = recode.schema.restrict(st.members(variables))
        found = Differences.summed(len(found), found.of, cells, found.changes, schema)
    return ComponentProof(variables, None, found)


def promising(table: Table, known: Knowledge, small_count: int, stopped: Sequence[Stopped]) -> Iterator[Recode]:
    """Of each variable the merge of two categories that promises most, the best first.

    First comes what takes the cells that stopped most above the small count, then what brings most occupied cells next
    to them, then what changes the fewest records. None is of a variable that structural zeros name, or that has levels.
    """
    gains, records = Counter[Recode](), table.one_way()
    for cell, sub_tables in stopped:
        for recode, gain in _gains(table, small_count, cell):
            gains[recode] += gain * len(sub_tables)

    def rank(recode: Recode) -> tuple[int, ...]:
        merged = records[recode.variable][list(recode.merged)]
        return -gains[recode], int(merged.min()), recode.variable, *recode.merged

    seen = {v for named in known.zeros.subtables for v in st.members(named)}
    for recode in sorted(gains, key=rank):
        if recode.variable not in seen and recode.remaining:
            seen.add(recode.variable)
            yield recode


def _gains(table: Table, small_count: int, cell: Cell) -> Iterator[tuple[Recode, int]]:
    """The merges that take a cell in, and what each promises for it."""
    around, own = near(table, cell), int(table.count_at(np.array([cell], np.uint16))[0])
    for column, v in enumerate(table.schema.axes):
        if table.schema.levels.of_axis[v] != 1 << v:
            continue  # it has levels, which say what belongs together
        for other in set(range(table.schema.sizes[v])) - {cell[column]}:
            joined = around.differing[:, column] & (around.codes[:, column] == other)
            is_above = own + int(around.counts[joined & around.alone].sum()) > small_count
            merged = min(cell[column], other), max(cell[column], other)
            yield Recode(table.schema, v, merged), ABOVE * is_above + int((joined & ~around.alone).sum())
