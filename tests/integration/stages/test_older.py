"""What commit 94e8d48 wrote is read, verified and built upon: a ledger, a run folder and a release with hidden cells.

It was built in /agency, which is not there: the test says where its files are now.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
import yaml

from sdc.executor import IN_PROCESS
from sdc.public.published import read_published
from sdc.record.ledger import read_ledger
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from sdc.stages.verified import verify_run

OLD = Path(__file__).with_name("release_94e8d48.tar.gz")
CORNER = [[0, 0], [0, 1], [1, 0], [1, 1]]


@pytest.fixture
def older(tmp_path: Path) -> Path:
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    (manifest,) = tmp_path.glob("runs/t/*/manifest.json")
    manifest.write_text(manifest.read_text().replace("/agency", str(tmp_path)))
    return tmp_path


def test_what_an_older_version_published_is_read_and_verified(older: Path) -> None:
    (run,) = (path.parent for path in older.glob("runs/t/*/manifest.json"))
    (entry,) = read_ledger(older / "led").entries
    assert (entry.name, entry.public) == ("t", {})
    found = verify_run(run)
    assert (found.failures, found.known) == ((), "read again from all that the config names")
    assert {one.label: one.withheld.tolist() for one in read_published(run / "release")}["A*B"] == CORNER


def test_a_build_upon_an_older_ledger_is_judged_beside_its_entry(older: Path) -> None:
    """Another pattern of the same config: neither taken for the first, nor for a build that reuses its stages."""
    config = yaml.safe_load((older / "t.yaml").read_text())
    config["output"] = {"folder": str(older / "runs")}
    (older / "t.yaml").write_text(yaml.safe_dump(config))
    rows = (f"a{i},b{j},{'' if {i, j} <= {0, 2} else 9}" for i in range(3) for j in range(3))
    (older / "like.csv").write_text("\n".join(["A,B,count", *rows, ""]))
    build = open_build(older / "t.yaml")
    assert {record.status for record in run_all(build, IN_PROCESS)} == {"done"}
    assert [source[:23] for source in build.origin.sources] == ["entry 1 of the ledger, "]
    entries = read_ledger(older / "led").entries
    assert [bool(entry.public) for entry in entries] == [False, True]
    (part,) = build.made.found.parts.tables
    assert part.fact.between is not None
    assert {*map(tuple, CORNER)} < {*map(tuple, part.fact.between.cells.tolist())}
    assert verify_run(build.folder.path).verified
