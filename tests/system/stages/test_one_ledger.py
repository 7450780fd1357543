"""Builds on one ledger: killed at each point around the entry, and two at once."""

import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sdc.executor import IN_PROCESS
from sdc.record.ledger import new_ledger, read_ledger
from sdc.run_format import METADATA
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from sdc.stages.verified import verify_run
from tests.helpers.builds import written
from tests.helpers.folders import contents
from tests.profiles import scaled

TABLE = "A,B,count\na0,b0,1\na0,b1,9\na0,b2,9\na1,b0,9\na1,b1,9\na1,b2,9\na2,b0,9\na2,b1,9\na2,b2,9\n"
DIES = """
import os, signal, sys
from pathlib import Path
from sdc.executor import IN_PROCESS
from sdc.stages import release
from sdc.stages.build import open_build
from sdc.stages.stages import run_all

point, rename, record = sys.argv[2], Path.rename, release.record_publication

def dies(at, done=None):
    if at == point:
        os.kill(os.getpid(), signal.SIGKILL)

def renamed(path, target):
    name = Path(target).name
    dies("release is synced" if name == "release" else "")
    rename(path, target)
    dies("search is named" if name == "search" else "release is named" if name == "release" else "")

def recorded(*of):
    dies("before the entry")
    record(*of)
    dies("after the entry")

Path.rename, release.record_publication = renamed, recorded
run_all(open_build(Path(sys.argv[1])), IN_PROCESS)
"""
POINTS = {
    "search is named": 0,
    "before the entry": 0,
    "after the entry": 1,
    "release is synced": 1,
    "release is named": 1,
}
"""At which a build is killed, and how many entries there are then."""


@pytest.mark.parametrize("point", POINTS)
def test_a_build_killed_around_its_entry_publishes_what_the_entry_says(point: str, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(TABLE)
    new_ledger(tmp_path / "led")
    release = {"require": ["A", "B"], "protect": [{"of": "A*B"}]}
    file = written(tmp_path, "t", table={"path": "table.csv"}, release=release, ledger="led")
    killed = subprocess.run([sys.executable, "-c", DIES, str(file), point], stderr=subprocess.PIPE, timeout=900)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    before = read_ledger(tmp_path / "led").entries
    assert len(before) == POINTS[point]
    build = open_build(file)
    assert build.folder.stage("release").exists() == (point == "release is named")
    statuses = {record.name: record.status for record in run_all(build, IN_PROCESS)}
    assert statuses["search"] == "reused"
    (entry,) = read_ledger(tmp_path / "led").entries
    assert (entry,) == (before or (entry,))
    metadata = (build.folder.stage("release") / METADATA).read_bytes()
    assert entry.metadata == f"sha256:{hashlib.sha256(metadata).hexdigest()}"
    assert verify_run(build.folder.path).verified


ROUNDS = scaled(50, fewest=3)
AT_ONCE = """
import sys, time
from pathlib import Path
from sdc.executor import IN_PROCESS
from sdc.model.errors import SdcError
from sdc.stages.build import open_build
from sdc.stages.stages import run_all

me, other, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(rounds):
    Path(f"{number}.{me}").touch()
    while not Path(f"{number}.{other}").exists():
        time.sleep(0.001)
    try:
        run_all(open_build(Path(f"{number}/{me}.yaml")), IN_PROCESS)
    except SdcError as error:
        Path(f"{number}/{me}.txt").write_text(str(error))
"""


@pytest.mark.parametrize("same", [False, True])
def test_two_builds_at_once_are_judged_beside_each_other(same: bool, tmp_path: Path) -> None:
    """Two configs, or one and the same in two places, which has one entry."""
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "table.csv").write_text(TABLE)
        new_ledger(folder / "led")
        for me in "AB":
            release = {"require": ["A" if same else me], "required_only": True}
            of, runs = {"path": "table.csv"}, {"folder": str(folder / me)}
            file = written(folder, "t", table=of, release=release, ledger="led", assessment="proven", output=runs)
            file.rename(folder / f"{me}.yaml")
    names = (("A", "B"), ("B", "A"))
    builds = [
        subprocess.Popen([sys.executable, "-c", AT_ONCE, *own, str(ROUNDS)], cwd=tmp_path, stderr=subprocess.PIPE)
        for own in names
    ]
    for build in builds:
        errors = build.communicate(timeout=1200)[1]
        assert build.returncode == 0, errors.decode()
    for number in range(ROUNDS):
        entries = read_ledger(tmp_path / str(number) / "led").entries
        said = [path.read_text() for path in tmp_path.glob(f"{number}/*.txt")]
        if same:  # who came when the other one was entered already has no search result to publish
            releases = [contents(release) for release in tmp_path.glob(f"{number}/*/t/*/release")]
            assert ["it is entry 1 of the ledger" in text for text in said] == [True] * (2 - len(releases))
            assert all(release == releases[0] for release in releases)
            assert len(entries) == 1
        else:
            assert said == []
            before, after = entries
            assert after.known["release"] == [*map(list, before.sub_tables)]
