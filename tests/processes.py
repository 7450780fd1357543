"""Which process runs which test, where there are several: what is dear to open is opened by one of them, and once."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

PROCESSES = 3  # on two cores: tests of processes and servers wait, and one more runs meanwhile
TOGETHER = {
    "clusters": (
        "tests/build/",
        "tests/execution/test_executors.py",
        "tests/faults/test_killed_runs.py",
        "tests/faults/test_killed_servers.py",
        "tests/faults/test_lost_processes.py",
        "tests/flows/",
        "tests/test_progress.py",
    ),
    "commands": ("tests/test_cli.py",),
}
"""Tests that open clusters and servers, or share a build: each of these groups runs in one process."""


class Together(LoadScopeScheduling):
    """Hands out groups, and all other tests file by file, which make what they share once, to whoever is free."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group for group, paths in TOGETHER.items() if nodeid.startswith(paths)), nodeid.partition("::")[0])


def processes(config: pytest.Config) -> int:
    """Folders are tested by several processes; single files by this one, where they can be stopped and looked into."""
    return PROCESSES if any(Path(argument).is_dir() for argument in config.args) else 0
