"""Kill builds at random moments; resume each until it is done: tests/system/faults/test_killed_runs.py at full scale.

python -m tests.killed_runs [runs] [seed]
"""

from __future__ import annotations

import sys

import pytest

if __name__ == "__main__":
    night = ["--hypothesis-profile", "nightly", "--hypothesis-seed", *(sys.argv[2:3] or ["0"])]
    sys.exit(pytest.main(["tests/system/faults/test_killed_runs.py", "-n", "0", *night]))
