"""Counting the tables that agree with a release, beside LattE integrale, which counts lattice points of polytopes."""

import os
import shutil
import subprocess
import tempfile
import time
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from sdc.bounds.enumeration import Enumeration, enumerate_tables
from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.table import Table
from tests.benchmarks.measure import Limits, NotMeasured, Row, check, one_core, seconds
from tests.strategies import czech, knows, schema_of

RIVAL, ROUNDS, SECONDS, LIMIT = "LattE", 3, 20.0, 120.0
FRONTIER = ("A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F")
HAIR_AND_EYES = ((68, 119, 26, 7), (20, 84, 17, 94), (15, 54, 14, 10), (5, 29, 14, 16))  # Snee (1974)
SMALL = ((10, 4, 2), (0, 3, 7), (5, 1, 6))
ABSENT = (
    "LattE's program `count` was not found; run `apt-get install latte-int` where the system has that package, "
    "or set LATTE to the folder with `count` and `scdd_gmp`"
)


def rows(short: bool, limits: Limits) -> list[Row | NotMeasured]:
    """The Czech table given six sub-tables, 810 tables agree; and hair by eye colour given its margins, too many."""
    name, count = "counting the feasible tables, ", latte()
    one_way = [1, 2]
    jobs = [(f"{name}3 by 3 given its margins", two_way(SMALL), one_way)]
    if not short:
        frontier = [st.parse(label, czech().schema) for label in FRONTIER]
        jobs = [(f"{name}Czech table, 810", czech(), frontier)]
        jobs += [(f"{name}hair by eye colour, 1.2e15", two_way(HAIR_AND_EYES), one_way)]
    if count is None:
        return [NotMeasured(job, RIVAL, ABSENT) for job, _, _ in jobs]
    return [beside(job, table, released, count, 1 if short else ROUNDS) for job, table, released in jobs]


def latte() -> str | None:
    """The path of `count`, of LattE and not of another program by that name."""
    path = shutil.which("count", path=os.environ.get("LATTE"))
    if path is None:
        return None
    with tempfile.TemporaryDirectory() as folder:  # it leaves files
        said = subprocess.run([path, "--help"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return path if "LattE" in said.stdout + said.stderr else None


def two_way(counts: tuple[tuple[int, ...], ...]) -> Table:
    dense = np.array(counts)
    return Table.of(schema_of(list(dense.shape)), np.argwhere(dense >= 0), dense.reshape(-1))


def beside(job: str, table: Table, released: list[int], count: str, rounds: int) -> Row:
    work = partial(ours_of, table, released)
    begun = time.perf_counter()
    found = work()
    spent = time.perf_counter() - begun
    if not found.complete:
        agree, took = by_latte(table, released, count)
        note = f"ours lists the tables and had {found.feasible_tables:,} of {agree:,} when it was stopped"
        return Row(job, RIVAL, [spent], [took], note=note, stopped=True)
    ours, theirs = list[float](), list[float]()
    for _ in range(rounds):
        with one_core():
            ours.append(seconds(work))
            agree, took = by_latte(table, released, count)
        theirs.append(took)
        check(agree == found.feasible_tables, f"{job}: {found.feasible_tables}, by LattE {agree}")
    return Row(job, RIVAL, ours, theirs, note="one core each, LattE with its start and files; the same number")


def ours_of(table: Table, released: list[int]) -> Enumeration:
    end = time.monotonic() + SECONDS
    return enumerate_tables(table, knows(table, Release.of(released)), watch=lambda _: time.monotonic() < end)


def by_latte(table: Table, released: list[int], count: str) -> tuple[int, float]:
    """The number of tables and the seconds of `count`, of one equation for each cell of each released sub-table."""
    codes = np.array(list(product(*map(range, table.schema.sizes))))
    counts, equations = table.count_at(codes), []
    for subtable in released:
        kept = list(st.members(subtable))
        for levels in product(*(range(table.schema.sizes[v]) for v in kept)):
            inside = (codes[:, kept] == levels).all(axis=1)
            equations.append([int(counts[inside].sum()), *(-inside.astype(int)).tolist()])
    cells = len(codes)
    lines = [
        f"{len(equations)} {cells + 1}",
        *(" ".join(map(str, equation)) for equation in equations),
        " ".join(map(str, ["linearity", len(equations), *range(1, len(equations) + 1)])),
        " ".join(map(str, ["nonnegative", cells, *range(1, cells + 1)])),
    ]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "polytope").write_text("\n".join(lines) + "\n")
        begun = time.perf_counter()
        subprocess.run([count, "polytope"], cwd=folder, capture_output=True, timeout=LIMIT, check=True)
        took = time.perf_counter() - begun
        return int((Path(folder) / "numOfLatticePoints").read_text()), took
