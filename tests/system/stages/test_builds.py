"""Builds that are killed, and builds with workers: they end with the same release as one in one process."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sdc.executor import Executor
from sdc.stages.build import open_build
from tests.helpers.builds import ANNEALED, BEST, CZECH_CSV, NAMES, Config, built, made, redone
from tests.helpers.folders import contents
from tests.integration.stages.test_stages import recoded_parts, table_of
from tests.integration.stages.test_sweep import swept

KILLED = """
import os, signal, sys
from pathlib import Path
from sdc.stages import release, stages
from sdc.stages.build import open_build
from sdc.executor import IN_PROCESS
whole = release.write_publication
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def say(line):
    if sys.argv[2] == "annealing" and "annealing round 2" in line:
        die()
if sys.argv[2] == "release":
    release.write_publication = lambda *arguments, **settings: (whole(*arguments, **settings), die())
stages.run_all(open_build(Path(sys.argv[1])), IN_PROCESS, say)
"""


def killed(file: Path, during: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, file, during], timeout=900)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_build_that_is_killed_while_it_anneals(config: Config, two_workers: Executor) -> None:
    """Killed in one process, it goes on with two workers and ends as if nothing had happened."""
    file = config(release=ANNEALED)
    whole = built(file)
    expected = {name: contents(whole.folder.stage(name)) for name in ("search", "confidential")}
    shutil.rmtree(whole.folder.path)
    killed(file, "annealing")
    assert whole.folder.parts("search").is_dir()
    build = built(file, two_workers)
    assert {name: contents(build.folder.stage(name)) for name in expected} == expected
    assert {path.name for path in build.folder.path.iterdir()} == {".lock", "log.jsonl", "manifest.json", *NAMES}


def test_a_killed_build_publishes_nothing_and_goes_on_where_it_was(config: Config, finished: Path) -> None:
    file = config()
    killed(file, "release")
    build = open_build(file)
    assert not build.folder.stage("release").exists()
    assert len(list(build.folder.path.glob(".release.*.unfinished"))) == 1
    assert redone(made(file)[1]) == ["release"]
    assert contents(build.folder.stage("release")) == contents(finished)
    assert not list(build.folder.path.glob(".*.unfinished"))


def test_two_workers_anneal_the_same(config: Config, two_workers: Executor) -> None:
    alone = built(config(release=BEST))
    expected = contents(alone.folder.stage("search"))
    shutil.rmtree(alone.folder.path)
    assert contents(built(config(release=BEST), two_workers).folder.stage("search")) == expected


def test_two_workers_publish_the_same_bytes(config: Config, finished: Path, two_workers: Executor) -> None:
    build, statuses = made(config(), two_workers)
    assert redone(statuses) == NAMES
    for name in ("release", "table", "widths", "search", "assessment"):
        assert contents(build.folder.stage(name)) == contents(finished.parent / name)


def test_the_report_is_the_same_wherever_and_however_it_is_made(
    config: Config, tmp_path: Path, two_workers: Executor
) -> None:
    """Whole in one process; elsewhere, from a copy of the data, with two workers; of stages that were reused."""
    expected = contents(built(config(curve={"min_width": [3]})).folder.stage("confidential"))
    copied, there = shutil.copy(CZECH_CSV, tmp_path), {"folder": str(tmp_path / "elsewhere")}
    elsewhere = config(curve={"min_width": [3]}, table={"path": str(copied)}, output=there)
    other, statuses = made(elsewhere, two_workers)
    assert set(statuses.values()) == {"done"}
    assert contents(other.folder.stage("confidential")) == expected
    other.folder.discard("confidential")
    again, statuses = made(elsewhere)
    assert redone(statuses) == ["confidential"]
    assert contents(again.folder.stage("confidential")) == expected


@pytest.mark.parametrize("most", [12, 29])
def test_two_workers_choose_the_same_floor(
    config: Config, most: int, two_workers: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = contents(swept(config(widths={"most": most}))[0].folder.stage("widths"))
    file = config(widths={"most": most}, output={"folder": "again"})
    assert contents(swept(file, two_workers)[0].folder.stage("widths")) == whole


def test_two_workers_count_recoded_parts_the_same(tmp_path: Path, two_workers: Executor) -> None:
    config = recoded_parts(tmp_path)
    expected = contents(table_of(open_build(config))[0])
    config.write_text(config.read_text().replace(str(tmp_path / "runs"), str(tmp_path / "others")))
    assert contents(table_of(open_build(config), two_workers)[0]) == expected
