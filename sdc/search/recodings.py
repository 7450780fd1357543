"""Recodings: changes of a config with which refused sub-tables may be released, in whole or coarser, each one tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import yaml

from sdc.executor import IN_PROCESS
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.named import Rows
from sdc.model.recode import Recode
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.effort import Budget
from sdc.risk.evaluator import RiskEvaluator
from sdc.search.blockers import Cell, Stopped, blockers, near
from sdc.search.grown import Grown
from sdc.search.growth import Growth, fits_a_worker, grow

MOST_SECONDS = 60.0  # of a reference core, of the budget of a search, for one recode
ABOVE = 1 << 40  # more than all cells near
MOST_ASKED = 200  # coarser forms of a sub-table


@dataclass(frozen=True)
class Recoding:
    """A change of the config that was tried: a recode of the table, or a coarser sub-table instead of a refused one.

    names   variables of the sub-table that may be released instead; cells  of it, zeros too
    lost    cells of the refused one less its own; of a recode the released sub-tables with the variable left out
    config  what to paste into the config
    asked   the refused sub-tables; not those with a variable that is left out
    freed   those of them that are released too after a recode, with all that was released, recoded
    """

    names: tuple[str, ...]
    cells: int
    lost: int
    config: str
    asked: tuple[SubTable, ...]
    freed: tuple[SubTable, ...] = ()
    recode: Recode | None = None

    @staticmethod
    def by_recode(recode: Recode, asked: tuple[SubTable, ...], freed: tuple[SubTable, ...], lost: int) -> Recoding:
        """What to paste takes the place of a recode of the variable that the config has already."""
        variable, merged = recode.before.variables[recode.variable], recode.names
        if recode.leaves_out:
            table: dict[str, Any] = {"variables": [name for name in recode.before.names if name != variable.name]}
        else:
            others = {category: [category] for category in variable.categories if category not in merged}
            table = {"recodes": {variable.name: {"groups": {" or ".join(merged): merged, **others}}}}
        return Recoding((), 0, lost, _pasted({"table": table}), asked, freed, recode)

    @staticmethod
    def of_sub_table(refused: SubTable, instead: SubTable, schema: Schema, release: Mapping[str, Any]) -> Recoding:
        """With the section `release` of which it was tried that `instead` is released."""
        cells = st.cells(instead, schema)
        lost = st.cells(refused, schema) - cells
        return Recoding(tuple(st.names(instead, schema)), cells, lost, _pasted({"release": release}), (refused,))

    @property
    def facts(self) -> dict[str, Any]:
        """Of a coarser sub-table, as a document has it."""
        return {"sub_table": list(self.names), "cells": self.cells, "lost": self.lost, "config": self.config}


class Recodings(Rows[Recoding]):
    """What may be released instead of a refused sub-table, what keeps most cells first."""

    def by_name(self) -> dict[str, Sequence[Any]]:
        return {name: [getattr(row, name) for row in self] for name in ("names", "cells", "lost", "config") if self}


def _pasted(section: Mapping[str, Any]) -> str:
    """A section of a config in one line of YAML."""
    text: str = yaml.safe_dump(section, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    return text.strip().removeprefix("{").removesuffix("}")


def coarser(
    evaluator: RiskEvaluator, release: Release, sub_table: SubTable, allows: Callable[[SubTable], bool]
) -> Recoding | None:
    """The sub-table at coarser levels, or without a variable, that is safe with a release and keeps the most cells.

    Each variable may give way to a coarser level of it, and any variable may be left out. Asked from the
    most cells on, of equal ones those with more variables first; none where none of the first `MOST_ASKED` may go out
    that `allows` lets out.
    """
    schema = evaluator.table.schema
    for candidate in islice(filter(allows, candidates(sub_table, schema)), MOST_ASKED):
        if evaluator.accepts(evaluator.anew().evaluate(release.add(candidate))):
            return Recoding.of_sub_table(sub_table, candidate, schema, {"require": [st.label(candidate, schema)]})
    return None


def candidates(sub_table: SubTable, schema: Schema) -> Iterator[SubTable]:
    """All coarser forms of a sub-table but itself, those with the most cells first."""
    found = set(st.subsets(sub_table, schema)) - {st.GRAND_TOTAL, sub_table}
    yield from sorted(found, key=lambda t: (-st.cells(t, schema), -st.ways(t, schema), t))


def attempt(table: Table, unit: tuple[Recode, Growth]) -> Release:
    """The release that grows in the recoded table, as far as it is accepted; nothing where not even its start is."""
    recode, growth = unit
    recoded = recode.table(table)
    everything = Release.of([st.full(len(recoded.schema))])
    return grow(recoded, growth).release if len(recoded.at_risk(growth.criteria.small_count)) else everything


def recodes(found: Grown, evaluator: RiskEvaluator, variables: int, tell: Callable[[str], None]) -> list[Recoding]:
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
    every = ((recode, _asked(recode, stopped)) for pair in pairs for recode in dict.fromkeys(pair) if recode.remaining)
    tried = [(recode, open_) for recode, open_ in every if open_]
    done = list[Recoding]()
    for begin in range(0, len(tried), executor.workers):
        # a round at a time: each unit has the release's whole proof, which is megabytes
        some = tried[begin : begin + executor.workers]
        units = [_attempt(recode, open_, found, asked) for recode, open_ in some]
        for (recode, open_), after in zip(some, executor.run(attempt, table, units), strict=True):
            freed = tuple(t for t in open_ if recode.sub_table(t) in after)
            lost = found.release.sub_tables(table.schema) - recode.release(found.release).sub_tables(recode.schema)
            done.append(Recoding.by_recode(recode, open_, freed, lost))
            name = table.schema.names[recode.variable]
            what = f"leaving out {name}" if recode.leaves_out else f"merging two categories of {name}"
            tell(f"remedies: {what}: {len(freed)} of {len(open_)} sub-tables freed, {lost} lost")
    return sorted(done, key=lambda one: one.lost - len(one.freed))


def _attempt(recode: Recode, open_: tuple[SubTable, ...], found: Grown, asked: RiskEvaluator) -> tuple[Recode, Growth]:
    """The growth from the release found to what was stopped, all recoded."""
    sub_tables = np.array([recode.sub_table(t) for t in open_], np.uint64)
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
