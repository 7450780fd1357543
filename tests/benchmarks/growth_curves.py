"""How a growing release gets on with time, by this tree and by that of another commit, at once on a core each.

    python tests/benchmarks/growth_curves.py [--beside TREE] [--minutes 15] [cps13-3 cps13-5 cps13-10 cps14 nltcs acs16
        acs23 census cps]

The ordered search of a table in one process, with its default settings; but for cps13 with every pair required, or the
best of them where they do not fit together. A line a table and tree: how many sub-tables had been accepted after 1, 5
and 15 minutes of processor time, when the first and the last ones were, the required ones together; a search ends with
the minutes that are given. What was accepted is proven, whenever the search ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path

from side_by_side import data_file, machine, say, show

HERE, MINUTES = Path(__file__).parents[2], (1, 5, 15)
WIDTHS = {
    **{f"cps13-{width}": width for width in (3, 5, 10)},
    **dict.fromkeys(["cps14", "nltcs"], 10),
    **dict.fromkeys(["acs16", "acs23", "census", "cps"], 5),
}
HEADER = ["table", "tree", *(f"{m} min" for m in MINUTES), "first at s", "first", "last at s", "sub-tables"]


def main() -> None:
    given = ArgumentParser()
    given.add_argument("names", nargs="*", default=list(WIDTHS), choices=WIDTHS)
    given.add_argument("--beside", type=Path)
    given.add_argument("--minutes", type=float, default=MINUTES[-1])
    asked = given.parse_args()
    trees = [tree for tree in (asked.beside, HERE) if tree is not None]
    say(machine())
    rows = []
    for name in asked.names:
        searches = [begun(name, asked.minutes, tree) for tree in trees]
        for tree, search in zip(trees, searches, strict=True):
            said, _ = search.communicate()
            grown = [(seconds, sub_tables) for seconds, sub_tables in map(json.loads, said.splitlines())]
            after = [max((n for seconds, n in grown if seconds <= 60 * m), default=0) for m in MINUTES]
            grown = grown or [(0.0, 0)]
            rows.append([name, tree.name, *after, *grown[0], *grown[-1]])
            show(name, HEADER, rows[-1:])
    show("sub-tables", HEADER, rows)


def begun(name: str, minutes: float, tree: Path) -> subprocess.Popen[str]:
    """The search of a tree in a process of its own, which prints each that was accepted."""
    command = [sys.executable, __file__, "--one", name, str(minutes)]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    return subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True)


def one(name: str, minutes: float) -> None:
    """Prints processor seconds and sub-tables, as a line of JSON, whenever some were accepted."""
    import sdc
    from sdc.search.step import SearchStep
    from sdc.stages.assemble import Watch
    from tests.benchmarks.wishes import FILES

    file = f"{name.partition('-')[0]}{'_cells' if name == 'nltcs' else ''}.parquet"
    table = FILES[name]() if name in FILES else sdc.read_table(data_file(file))
    required = {} if name.startswith("cps13") else {"require": ["all:2"], "best_subset": True}
    begun = time.process_time()

    def on_step(step: SearchStep) -> None:
        if step.answer and step.added:
            print(json.dumps([time.process_time() - begun, step.length + len(step.added)]), flush=True)

    watch = Watch(on_step=on_step)
    width = WIDTHS[name]
    sdc.find_release(table, sdc.knowledge(table), "ordered", min_width=width, minutes=minutes, watch=watch, **required)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], float(sys.argv[3]))
    else:
        main()
