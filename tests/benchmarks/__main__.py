"""Write BENCHMARKS.md: each job beside its peers, and beside the limits of this machine, all measured now.

    python -m tests.benchmarks [JOB ...]

It takes 5 to 10 minutes on two cores without other work. With names of jobs only these run, and their page is printed.
A job without its data or its rival has a row that says so. The command fails where a rival's answer is not ours, and
then writes nothing.

Public data files come from SDC_DATA_DIR, rivals from `python -m pip install -c constraints.txt '.[test,bench]'`.
LattE's program `count` comes from PATH or from the folder LATTE. The wheel passagemath-latte-4ti2 has it in
`sage_wheels/bin`, where it also needs the program `scdd_gmp` of Debian's libcdd-tools.
"""

import argparse
import importlib
import os
import sys
import time

from tests.benchmarks.hardware import limits
from tests.benchmarks.measure import LIBRARIES, ROOT, DifferentAnswersError, NotMeasured, Row
from tests.benchmarks.page import page

JOBS = ("widths", "counting", "bounds", "enumeration", "fitting", "annealing", "laws", "suppression", "writing")
PAGE = ROOT / "BENCHMARKS.md"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"one of {', '.join(JOBS)}; all of them by default")
    chosen = parser.parse_args(arguments).jobs
    if unknown := sorted(set(chosen) - set(JOBS)):
        parser.error(f"{', '.join(unknown)}: choose from {', '.join(JOBS)}")
    for name in LIBRARIES:  # before a library is imported that reads them
        os.environ[name] = "1"
    begun, load = time.monotonic(), os.getloadavg()[0]
    machine, found = limits(), list[Row | NotMeasured]()
    for name in chosen or JOBS:
        since = time.monotonic()
        try:
            found += importlib.import_module(f"tests.benchmarks.{name}").rows(False, machine)
        except DifferentAnswersError as error:
            print(f"benchmarks: different answers: {error}; nothing was written", file=sys.stderr)
            return 1
        print(f"benchmarks: {name}: {time.monotonic() - since:.0f} s", file=sys.stderr, flush=True)
    text = page(found, machine, load, time.monotonic() - begun)
    if chosen:
        print(text, end="")
    else:
        PAGE.write_text(text, encoding="utf-8")
        print(f"benchmarks: wrote {PAGE.name}", file=sys.stderr)
    missing = sum(isinstance(row, NotMeasured) for row in found)
    print(f"benchmarks: {len(found)} rows, {missing} not measured", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
