"""Kernels that are compiled beside a build: all that a search calls is, and its process ends with the build."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sdc.stages import warm
from tests.helpers.builds import CZECH_CSV
from tests.helpers.killing import children_with
from tests.integration.stages.test_warm import LARGE, SMALL, kept

__all__ = ["kept"]


SEARCHED = """
import sys
from numba.core.registry import CPUDispatcher
from sdc.config.release import ReleaseConfig
from sdc.data.reading import read_table
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Policy
from sdc.stages.assemble import ALL_WIDTHS, SearchSettings, release_search
from sdc.stages.resolved import known_of
from sdc.stages.warm import warm_build

method, size, *paths = sys.argv[1:]
warm_build(method, small=size == "small")

def compiled():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("sdc.")]
    kernels = {id(k): k for module in modules for k in vars(module).values() if isinstance(k, CPUDispatcher)}
    return {k.__name__ + str(k.signatures) for k in kernels.values() if k.signatures}

before = compiled()
assert len(before) > 5
for path in paths:
    table = read_table(path)
    release = ReleaseConfig(method=method, max_evaluations=20)
    settings = SearchSettings(Criteria.of(2, 6), Policy.REFUSE, ALL_WIDTHS, release)
    release_search(table, known_of(table, []), settings, settings.widths(table)).run(method)
print(sorted(compiled() - before))
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["best", "ordered"])
def test_a_search_calls_nothing_that_was_not_compiled_before(method: str, tmp_path: Path) -> None:
    """Of a small table, and of one with 3^7 cells."""
    large = tmp_path / "large.csv"
    rows = [[(17 * n * n + n // (k + 1)) % 101 % 3 for k in range(7)] for n in range(300)]
    large.write_text("\n".join(",".join(map(str, row)) for row in [[f"v{k}" for k in range(7)], *rows]) + "\n")
    for asked in (["small", str(CZECH_CSV)], ["any", str(CZECH_CSV), str(large)]):
        command = [sys.executable, "-c", SEARCHED, method, *asked]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_the_process_beside_a_build_ends_with_it(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_WARM", "import time; time.sleep(600)")
    with warm.warming("best", None, print) as told_of:
        told_of(LARGE)
        (begun,) = begun_beside()
    assert not begun.is_running()


def begun_beside() -> list[psutil.Process]:
    """The processes that compile."""
    return children_with(warm._WARM, psutil.Process())


def test_it_ends_when_the_table_turns_out_to_be_small(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_WARM", "import time; time.sleep(600)")
    with warm.warming("best", None, print) as told_of:
        (begun,) = begun_beside()
        told_of(SMALL)
        psutil.wait_procs([begun], timeout=300)
        assert not begun.is_running() or begun.status() == psutil.STATUS_ZOMBIE


def test_it_ends_where_the_build_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom sdc.stages import warm\n"
        "warm.cache_folder = lambda: Path(sys.argv[1])\n"
        "warm._WARM = warm._WARM.replace('from sdc', 'import time; time.sleep(600)\\nfrom sdc')\n"
        "with warm.warming('best', None, print):\n  print('on', flush=True)\n  time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, env=os.environ) as build:
        assert build.stdout is not None
        assert build.stdout.readline() == b"on\n"
        children = psutil.Process(build.pid).children()
        build.kill()
    assert len(children) == 1
    _, alive = psutil.wait_procs(children, timeout=300)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
