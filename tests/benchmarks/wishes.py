"""Breadth first beside the rule that keeps components small, and every pair required, on three files of microdata.

`python tests/benchmarks/wishes.py [census] [acs16] [acs23] [cps]`: sub-tables found, by their numbers of variables,
questions, seconds and memory under each rule; which two-way sub-tables only one of them
has; and with every pair required, how many fit and which sets conflict.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from multiprocessing import get_context
from time import perf_counter

import yaml

import sdc
from sdc.model import subtable as st
from sdc.model.release import NOTHING
from sdc.model.table import Table
from tests.benchmarks.side_by_side import DATA

MIN_WIDTH = 5


def census() -> Table:
    """Ten recoded variables of the Census-Income file."""
    table = yaml.safe_load((DATA / "census_10.yaml").read_text())["table"]
    del table["path"]
    return sdc.read_table(DATA / "census_income_kdd.parquet", **table)


def acs(first: int) -> Table:
    """Binary variables of the American Community Survey from this one on."""
    return sdc.read_table(DATA / "acs23.parquet", variables=[f"a{k:02}" for k in range(first, 23)])


FILES: dict[str, Callable[[], Table]] = {
    "census": census,
    "acs16": lambda: acs(7),
    "acs23": lambda: acs(0),
    "cps": lambda: sdc.read_table(DATA / "cps_basic_2011.parquet"),
}


def searched(name: str, breadth: int | None) -> tuple[str, set[str], float]:
    """One line about a search, the pairs that it has, and its seconds."""
    table, begin = FILES[name](), perf_counter()
    found = sdc.release(table, NOTHING, "ordered", min_width=MIN_WIDTH, breadth=breadth)
    seconds, sizes = perf_counter() - begin, found.release.by_dimension(table.schema)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    some = " ".join(f"{size:5}" for size in sizes[2:7])
    cost = f"{len(found.steps):5} {seconds:8.1f} s {memory:6} MiB"
    line = f"{found.release.sub_tables:6} {some:36} {cost}  {found.reason or ''}"
    pairs = {
        label
        for t in found.release.views(table.schema)
        if st.dimension(t) == 2
        for label in [st.label(t, table.schema)]
    }
    return line, pairs, seconds


def required(name: str) -> list[str]:
    """What becomes of every pair, required together."""
    table, begin = FILES[name](), perf_counter()
    found = sdc.release(
        table, NOTHING, "ordered", min_width=MIN_WIDTH, require=["all:2"], best_subset=True, questions=1
    )
    told = found.required
    assert told is not None
    kept = len(told.sub_tables) - len(told.refused)
    seconds = perf_counter() - begin
    lines = [f"required all pairs: {kept} of {len(told.sub_tables)} fit, best: {told.is_best}, {seconds:.1f} s"]
    return lines + [f"  {conflict.text(table.schema)}" for conflict in told.conflicts]


def main() -> None:
    """In a process each, so that memory is that of one search."""
    pool = get_context("spawn").Pool(1, maxtasksperchild=1)
    for name in sys.argv[1:] or list(FILES):
        print(
            f"{name}, min width {MIN_WIDTH}\n  rule      sub-tables, of 2, 3, 4, 5, 6 variables     asked", flush=True
        )
        (old, had, _), (new, has, _) = (pool.apply(searched, (name, breadth)) for breadth in (1, None))
        print(f"  small     {old}\n  breadth   {new}")
        print(
            f"  pairs only without breadth: {sorted(had - has) or 'none'}; only with it: {sorted(has - had) or 'none'}"
        )
        print(*("  " + line for line in pool.apply(required, (name,))), sep="\n", flush=True)


if __name__ == "__main__":
    main()
