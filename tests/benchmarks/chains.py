"""Chains of three builds with earlier publications, each judged by an integer program that shares no code with them.

    python tests/benchmarks/chains.py [181] [seed]

The first two publish tables of some of the records, or of all, as whole or coarser categories; the third publishes of
all, judged together with both. A release with which some at-risk cell is narrower than asked, or that `verify` does not
accept, is a fault. A build that releases nothing, or leaves out a sub-table, though it could go out beside all else is
a refusal without need; they are counted. Exit status 1 where there was a fault.
"""

from __future__ import annotations

import collections
import csv
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from ortools.sat.python import cp_model
from side_by_side import machine, say

from sdc.executor import IN_PROCESS
from sdc.model.errors import SdcError
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all
from sdc.verify.run_folder import verify

SMALL_COUNT = 2
Sums = list[tuple[npt.NDArray[np.int64], int]]  # cells, and what they come to


def main() -> None:
    number, seed = (int(word) for word in (*sys.argv[1:], *("181", "0")[len(sys.argv) - 1 :]))
    say(f"{machine()}; {number} chains of three builds, seed {seed}")
    outcomes = collections.Counter[str]()
    for k in range(number):
        with tempfile.TemporaryDirectory() as folder:
            outcomes.update(Chain(np.random.default_rng([seed, k]), Path(folder)).outcomes())
    for outcome, times in sorted(outcomes.items()):
        say(f"{times:4} {outcome}")
    sys.exit(any(outcome.startswith("FAULT") for outcome in outcomes))


class Chain:
    """A table, what was published of it so far, and how it is named in a config."""

    def __init__(self, random: np.random.Generator, folder: Path) -> None:
        self.random, self.folder = random, folder
        self.sizes = random.permutation([2, 3, int(random.integers(2, 4)), *[2] * int(random.integers(0, 2))]).tolist()
        self.names = [f"v{v}" for v in range(len(self.sizes))]
        self.min_width = int(random.integers(1, 4))
        weights = random.dirichlet(np.full(int(np.prod(self.sizes)), 0.7))
        # every category has a record among any of the others
        self.dense = random.multinomial(int(random.integers(30, 90)), weights).reshape(self.sizes) + (
            random.random(self.sizes) < 0.5
        )
        self.cells = np.arange(self.dense.size).reshape(self.sizes)
        self.sums: Sums = [(self.cells.reshape(-1), int(self.dense.sum()))]
        self.earlier: list[dict[str, Any]] = []

    def outcomes(self) -> Iterator[str]:
        yield from self.part("first")
        yield from self.part("second")
        yield from self.built("third", self.cells, {}, self.earlier)

    def part(self, name: str) -> Iterator[str]:
        """A build of some of the records, or of all."""
        kind = self.random.choice(["all", "where", "where", "two"])
        chosen = self.random.choice(len(self.sizes), {"all": 0, "where": 1, "two": 2}[str(kind)], replace=False)
        where = {int(v): sorted(self._some(int(v))) for v in chosen}
        inside = self.cells[np.ix_(*(where.get(v, list(range(size))) for v, size in enumerate(self.sizes)))]
        yield from self.built(name, inside, where, [])

    def _some(self, v: int) -> list[int]:
        most = max(1, self.sizes[v] - 1)
        number = int(self.random.integers(1, most + 1))
        found: list[int] = self.random.choice(self.sizes[v], number, replace=False).tolist()
        return found

    def built(
        self, name: str, inside: npt.NDArray[np.int64], where: dict[int, list[int]], earlier: list[dict[str, Any]]
    ) -> Iterator[str]:
        kept = [v for v in range(len(self.sizes)) if v not in where]
        counts = self.dense.reshape(-1)[inside]
        totals = counts.sum(axis=tuple(where)) if where else counts
        of_each = (totals.sum(axis=tuple(u for u in range(totals.ndim) if u != k)) for k in range(totals.ndim))
        if any((one == 0).any() for one in of_each):
            return
        self._write(name, totals, [self.names[v] for v in kept])
        config = {
            "name": name,
            "table": {"path": f"{name}.csv"},
            "risk": {"small_count": SMALL_COUNT, "min_width": self.min_width},
            "earlier": earlier,
            "execution": {"cluster": "in-process"},
            "output": {"folder": str(self.folder / "runs")},
        }
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(config))
        build, kind = open_build(file), _kind(earlier)
        try:
            run_all(build, IN_PROCESS)
        except SdcError as error:
            if not earlier:
                return  # nothing of it could be published by itself
            without_need = self._is_safe([]) and (self.dense.reshape(-1) <= SMALL_COUNT).any()
            yield f"{'refused without need' if without_need else 'refused'} ({kind}): {type(error).__name__}"
            if type(error).__name__ != "NothingReleasableError":
                say(f"{name}: {str(error)[:300]}")
            return
        released = [[*map(int, names)] for names in _released(build, self.names)]
        own = [self._sums(inside, subtable) for subtable in released]
        self.sums += [sum_ for sums in own for sum_ in sums]
        if not earlier:
            relation: dict[str, Any] = {"folder": str(build.folder.stage("release"))}
            if where:
                relation["where"] = {self.names[v]: [str(code) for code in codes] for v, codes in where.items()}
            if released:
                self.earlier.append(relation)
            return
        if not verify(build.folder.path).verified or not self._is_safe([]):
            say(f"{name}: {config}")
            yield f"FAULT ({kind}): published and not safe"
            return
        lacking = self._lacking(released)
        yield f"{'published, though more could be' if lacking else 'published, and nothing fits beside it'} ({kind})"

    def _write(self, name: str, totals: npt.NDArray[np.int64], names: list[str]) -> None:
        with (self.folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*names, "count"])
            for cell in product(*map(range, totals.shape)):
                if totals[cell]:
                    writer.writerow([*cell, int(totals[cell])])

    def _sums(self, inside: npt.NDArray[np.int64], subtable: list[int]) -> Sums:
        """A published marginal of some of the records."""
        codes = np.stack(np.unravel_index(inside.reshape(-1), self.sizes), axis=1)[:, subtable]
        found: Sums = []
        for cell in {tuple(row) for row in codes.tolist()}:
            members = inside.reshape(-1)[(codes == cell).all(axis=1)]
            found.append((members, int(self.dense.reshape(-1)[members].sum())))
        return found

    def _lacking(self, released: list[list[int]]) -> bool:
        """Whether some sub-table just outside of the release could be public beside all else."""
        sets = [set(subtable) for subtable in released]
        for number in range(1, 1 << len(self.sizes)):
            members = {v for v in range(len(self.sizes)) if number >> v & 1}
            is_out = not any(members <= other for other in sets)
            children = [members - {v} for v in members]
            is_next = is_out and all(not child or any(child <= other for other in sets) for child in children)
            if is_next and self._is_safe(self._sums(self.cells, sorted(members))):
                return True
        return False

    def _is_safe(self, more: Sums) -> bool:
        """Whether every at-risk cell keeps its width over all tables with these sums."""
        counts = self.dense.reshape(-1)
        model = cp_model.CpModel()
        cells = [model.new_int_var(0, int(counts.sum()), "") for _ in counts]
        for members, total in [*self.sums, *more]:
            model.add(sum(cells[i] for i in members.tolist()) == total)
        for cell in np.flatnonzero((counts > 0) & (counts <= SMALL_COUNT)).tolist():
            ends = []
            for sense in (model.minimize, model.maximize):
                sense(cells[cell])
                solver = cp_model.CpSolver()
                solver.parameters.num_workers = 1
                assert solver.solve(model) == cp_model.OPTIMAL
                ends.append(int(solver.value(cells[cell])))
            if ends[1] - ends[0] < self.min_width:
                return False
        return True


def _kind(earlier: list[dict[str, Any]]) -> str:
    many = sum("where" in one for one in earlier)
    return f"{len(earlier)} before, {many} of some records"


def _released(build: Build, names: list[str]) -> list[list[int]]:
    schema = build.made.table.schema
    return [
        [names.index(schema.names[v]) for v in range(len(schema)) if element >> v & 1 and schema.names[v] in names]
        for element in build.made.found.release.frontier
        if element
    ]


if __name__ == "__main__":
    main()
