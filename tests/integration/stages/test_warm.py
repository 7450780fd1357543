"""Kernels before they are needed: what is compiled for made-up tables is all that a build of other tables calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sdc import compiled
from sdc.model.schema import Schema, Variable
from sdc.stages import warm
from tests.helpers.killing import children_with

SMALL, LARGE = (Schema(tuple(Variable(name, ("0", "1")) for name in names)) for names in ("ABC", "ABCDEFGHI"))
SEARCHED = """
import sys
from numba.core.registry import CPUDispatcher
from sdc.config.release import ReleaseConfig
from sdc.ingest.reading import read_table
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Policy
from sdc.stages.assemble import ALL_WIDTHS, SearchSettings, release_search
from sdc.stages.warm import known_of, made_up_tables, warm_build

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
    settings = SearchSettings(Criteria.of(2, 6), Policy.REFUSE, ALL_WIDTHS, ReleaseConfig(method=method, questions=20))
    release_search(table, known_of(table), settings, settings.widths(table)).run(method)
print(sorted(compiled() - before))
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["best", "ordered"])
def test_a_search_calls_nothing_that_was_not_compiled_before(method: str, tmp_path: Path) -> None:
    """Of a small table, and of one with 3^7 cells."""
    czech = Path(__file__).parents[3] / "configs" / "czech_auto_workers.csv"
    large = tmp_path / "large.csv"
    rows = [[(17 * n * n + n // (k + 1)) % 101 % 3 for k in range(7)] for n in range(300)]
    large.write_text("\n".join(",".join(map(str, row)) for row in [[f"v{k}" for k in range(7)], *rows]) + "\n")
    for asked in (["small", str(czech)], ["any", str(czech), str(large)]):
        command = [sys.executable, "-c", SEARCHED, method, *asked]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(warm, "kept_folder", lambda: tmp_path)
    return tmp_path


def test_what_was_compiled_once_is_noted_beside_it(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()
    monkeypatch.setattr(warm, "warm_build", lambda *what: asked.append(what))
    warm.warm_and_mark("best", None)
    assert asked == [("best", None)]
    assert len(list(kept.iterdir())) == 1
    monkeypatch.delattr(subprocess, "Popen")
    said = list[str]()
    with warm.warming("best", None, said.append):
        pass
    assert said == []


def test_a_first_build_says_that_it_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compiled, warm):
        monkeypatch.setattr(module, "kept_folder", lambda: tmp_path)
    monkeypatch.setattr(warm, "_WARM", "")
    said = list[str]()
    for _ in range(2):
        with warm.warming("best", None, said.append):
            (tmp_path / "bounds").mkdir(exist_ok=True)
            (tmp_path / "bounds" / "shuttle.tighten-20.py312.1.nbc").touch()
    (line,) = said
    assert line.startswith("nothing is compiled on this machine yet: what a build calls first takes a minute")


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
        psutil.wait_procs([begun], timeout=60)
        assert not begun.is_running() or begun.status() == psutil.STATUS_ZOMBIE


def test_a_small_table_is_warmed_for_by_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[str, bool]]()
    monkeypatch.setattr(warm, "_warmed", set())
    monkeypatch.setattr(warm, "warm_build", lambda method, *, small: asked.append((method, small)))
    for schema in (SMALL, LARGE, SMALL):
        warm.warm_once("ordered", schema)
    assert asked == [("ordered", True), ("ordered", False)]


def test_it_ends_where_the_build_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom sdc.stages import warm\n"
        "warm.kept_folder = lambda: Path(sys.argv[1])\n"
        "warm._WARM = warm._WARM.replace('from sdc', 'import time; time.sleep(600)\\nfrom sdc')\n"
        "with warm.warming('best', None, print):\n  print('on', flush=True)\n  time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, env=os.environ) as build:
        assert build.stdout is not None
        assert build.stdout.readline() == b"on\n"
        children = psutil.Process(build.pid).children()
        build.kill()
    assert len(children) == 1
    _, alive = psutil.wait_procs(children, timeout=60)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def test_where_there_is_no_room_for_what_is_compiled_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not where all is kept already."""
    monkeypatch.setattr(compiled, "kept_folder", lambda: tmp_path)
    monkeypatch.setattr(warm, "kept_folder", lambda: tmp_path)
    monkeypatch.setattr(warm, "_WARM", "")
    monkeypatch.setattr(compiled, "ROOM", 1 << 60)
    said = list[str]()
    with warm.warming("best", None, said.append):
        pass
    (line,) = said
    assert line.startswith(
        f"compiled code may have no room, so that each process compiles for a minute: {tmp_path} has "
    )
    assert line.endswith(
        " MiB left, and 1099511627776 are enough; make room, or set NUMBA_CACHE_DIR to a folder that has it"
    )
    marker = warm._marker("best", None)
    assert marker is not None
    marker.touch()
    with warm.warming("best", None, said.append):
        pass
    assert len(said) == 1
    monkeypatch.setattr(compiled, "ROOM", 1)
    assert compiled.no_room() == ""


def test_where_nothing_can_be_kept_that_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_without_place", ["walk", "sweep"])
    monkeypatch.setattr(warm, "kept_folder", lambda: None)
    said = list[str]()
    with warm.warming("best", None, said.append):
        pass
    assert said == [compiled.not_kept()]
    assert "no place" in said[0]
