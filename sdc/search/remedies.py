"""Remedies: recodes with which what stopped a release may go out after all, each of them tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from sdc.search.growth import Growth, fits_a_worker, grow

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


def attempt(table: Table, unit: tuple[Recode, Growth]) -> Release:
    """The release that grows in the recoded table, as far as it is accepted; nothing where not even its start is."""
    recode, growth = unit
    recoded = recode.table(table)
    everything = Release.of([st.full(len(recoded.schema))])
    return grow(recoded, growth).release if len(recoded.at_risk(growth.criteria.small_count)) else everything


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
    # of each variable the merge, and leaving it out where it has more categories
    pairs = ((merge, replace(merge, merged=tuple(range(table.schema.sizes[merge.variable])))) for merge in merges)
    tried = [recode for pair in pairs for recode in dict.fromkeys(pair) if recode.remaining and _asked(recode, stopped)]
    done = []
    for begin in range(0, len(tried), executor.workers):
        # a round at a time: each unit has the release's whole proof, which is megabytes
        some = tried[begin : begin + executor.workers]
        units = [_attempt(recode, found, stopped, asked) for recode in some]
        for recode, after in zip(some, executor.run(attempt, table, units), strict=True):
            open_, released = _asked(recode, stopped), found.release
            freed = tuple(t for t in open_ if recode.sub_table(t) in after)
            lost = released.sub_tables(table.schema) - recode.release(released).sub_tables(recode.schema)
            done.append(Remedy(recode, open_, freed, lost))
            tell(done[-1])
    return tuple(sorted(done, key=lambda remedy: remedy.lost - len(remedy.freed)))


def _attempt(recode: Recode, found: Grown, stopped: Sequence[Stopped], asked: RiskEvaluator) -> tuple[Recode, Growth]:
    """The growth from the release found to what was stopped, all recoded."""
    sub_tables = np.array([recode.sub_table(t) for t in _asked(recode, stopped)], np.uint64)
    least = asked.criteria.floor  # nobody looks at their widths, which are others after a recode
    widths = CriticalWidths(sub_tables, np.full(len(sub_tables), least), least, len(sub_tables))
    start = Grown(recode.release(found.release), _recoded(found.proof, recode))
    judged = asked.criteria, asked.policy, asked.effort
    return recode, Growth(recode.known(asked.known), *judged, widths, start=start)


def _asked(recode: Recode, stopped: Sequence[Stopped]) -> tuple[SubTable, ...]:
    """What was stopped, each once; what has a variable that is left out would be another sub-table."""
    return tuple(sorted({t for _, sub_tables in stopped for t in sub_tables if st.is_within(t, recode.remaining)}))


def _recoded(proof: Proof, recode: Recode) -> Proof:
    """The same feasible tables, recoded: they are so still, as their marginals are sums of those before."""
    parts = list[ComponentProof]()
    for part in proof.parts:
        variables, found = recode.sub_table(part.variables), part.differences
        if variables and st.has(part.variables, recode.variable):
            column = st.members(recode.before.levels.finest(part.variables)).index(recode.variable)
            cells = recode.codes(found.cells, column)
            schema = recode.schema.restrict(st.members(variables))
            found = Differences.summed(len(found), found.of, cells, found.changes, schema)
        if variables:  # of a part that is nothing but the variable left out nothing is left
            parts.append(ComponentProof(variables, None, found))
    return Proof(tuple(parts), ())


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
