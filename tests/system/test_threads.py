"""Numerical libraries with several threads: the same result."""

import os
import subprocess
import sys


def test_the_same_bytes_with_one_and_two_threads() -> None:
    script = """
import hashlib, pickle
from sdc.bounds import linear_program
from sdc.bounds.linear_program import LinearProgram, reaching
from tests.strategies import all_ways, knows, scattered
table = scattered()
program = LinearProgram.of(table, knows(table, all_ways(len(table.schema), 2)))
found = [reaching(program, int(place), 1, table.total, 3) for place in program.place(table.codes[table.at_risk(1)][:3])]
assert any(one.table is not None for one, _ in found)
print(hashlib.sha256(pickle.dumps([(one.proven, by, one.table.tobytes()) for one, by in found])).hexdigest())
"""
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    ]
    assert told[0] == told[1] != ""
