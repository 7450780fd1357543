"""Which process runs which test, where there are several: what is dear to open is opened by one of them, and once."""

import os
from itertools import chain
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

PROCESSES = 4  # of tests/system on two cores: tests of processes and servers wait, and others run meanwhile
TOGETHER = {
    "builds": (
        "tests/system/stages/",
        "tests/system/execution/test_executors.py",
        "tests/integration/data/test_workers.py",
        "tests/system/search/test_workers.py",
        "tests/integration/server/test_simulation.py",
        "tests/integration/test_progress.py",
    ),
    "flows": ("tests/system/flows/",),
    "kills": (
        "tests/system/faults/test_killed_runs.py",
        "tests/system/faults/test_killed_servers.py",
        "tests/system/faults/test_lost_processes.py",
    ),
    "commands": (
        "tests/system/commands/",
        "tests/system/test_examples.py",
        "tests/system/test_handbook.py",
        "tests/system/test_readme.py",
    ),
    "yearbook": ("tests/integration/stages/test_in_part.py", "tests/integration/stages/test_forged_parts.py"),
    "answers in part": ("tests/integration/server/test_in_part.py",),
    "parts": ("tests/system/protect/test_release.py",),
}
"""Tests that open clusters and servers, or share a build: each of these groups runs in one process, the longest first.

And the longest of the others, which a night would wait for if they came last.
"""
APART = ("tests/system/test_capabilities.py::test_each_pair_that_works_by_itself",)
"""Tests of which each case is handed out by itself, after those: in the night they take half an hour."""


class Together(LoadScopeScheduling):
    """Hands out groups, then all other tests file by file, which make what they share once, to whoever is free."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(APART):
            return nodeid
        return next((group for group, paths in TOGETHER.items() if nodeid.startswith(paths)), nodeid.partition("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        waiting = self.workqueue
        together, apart = (group for group in TOGETHER if group in waiting), (s for s in waiting if s.startswith(APART))
        # else whoever gets a long one last is waited for
        waiting.move_to_end(next(chain(together, apart, waiting)), last=False)
        super()._assign_work_unit(node)


def processes(config: pytest.Config) -> int:
    """Folders are tested by several processes; single files by this one, where they can be stopped and looked into."""
    folders = [argument for argument in config.args if Path(argument).is_dir()]
    waits = any("system" in Path(folder).parts or Path(folder).name == "tests" for folder in folders)
    return PROCESSES if waits else len(os.sched_getaffinity(0)) if folders else 0
