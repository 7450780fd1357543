"""Proofs of what was published: kept beside the ledger, checked again, and what every later build begins with."""

import hashlib
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sdc.events import WARNING, EventText, heard
from sdc.model.errors import NothingReleasableError, SdcError
from sdc.record.ledger import new_ledger, read_ledger
from sdc.stages.build import Build
from tests.helpers.builds import built
from tests.helpers.commands import invoked
from tests.helpers.kept import ROOT
from tests.helpers.yearbook import config

SECONDS = 1e-6  # nothing is found by a search
FIRST: dict[str, Any] = {
    "require": ["area*sex", "area*edu", "area*age"],
    "protect": "suppression",
    "required_only": True,
}


def published(folder: Path, name: str, **release: Any) -> Build:
    return built(config(folder, name, ledger="led", release=release, sharp_seconds=0.1))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger with one entry, of a yearbook one of whose tables is suppressed."""
    new_ledger(tmp_path / "led")
    build = published(tmp_path, "first", **FIRST)
    assert build.made.found.suppressed_tables.tables
    return tmp_path / "led"


def test_a_proof_is_kept_and_later_builds_begin_with_it(ledger: Path) -> None:
    (entry,), folder = read_ledger(ledger).entries, ledger.with_name("led.proofs")
    (file,) = folder.iterdir()
    assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(file.stat().st_mode)) == (0o700, 0o600)
    assert entry.proof == f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    # a table within a published one, and one of new variables, where a search alone finds no proof
    second = published(ledger.parent, "second", require=["area"], required_only=True, seconds=SECONDS)
    assert second.made.found.release.contains(second.made.known.release)
    published(ledger.parent, "third", require=["area*age"], protect="suppression", required_only=True, seconds=SECONDS)


KILLED = """
import os, sys
from pathlib import Path
from tests.integration.stages.test_proofs import FIRST, published

def killed(path, to, rename=Path.rename):
    return os._exit(9) if to.parent.name == "led.proofs" else rename(path, to)

Path.rename = killed
published(Path(sys.argv[1]), "first", **FIRST)
"""


def test_a_build_that_was_killed_while_it_kept_its_proof(tmp_path: Path) -> None:
    """Its next run, another process, leaves the proof alone; it would hold counts for ever."""
    new_ledger(tmp_path / "led")
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    assert subprocess.run(command, cwd=ROOT, timeout=600).returncode == 9
    assert list((tmp_path / "led.proofs").iterdir())
    published(tmp_path, "first", **FIRST)
    (entry,), (file,) = read_ledger(tmp_path / "led").entries, (tmp_path / "led.proofs").iterdir()
    assert entry.proof == f"sha256:{file.stem}"


def test_assess_begins_with_the_proofs_beside_the_ledger_of_a_config(ledger: Path) -> None:
    file = config(ledger.parent, "later", ledger="led", release={"seconds": SECONDS})
    assert invoked("assess", file, "--release", "area").stdout.startswith("releasable")
    (proof,) = ledger.with_name("led.proofs").iterdir()
    proof.unlink()
    assert invoked("assess", file, "--release", "area").stdout.startswith("undecided")


def test_clean_leaves_proofs_alone(ledger: Path) -> None:
    """Of a run that it removes too, whose folder they are not in."""
    published(ledger.parent, "first", **FIRST, seconds=2)
    assert invoked("clean", ledger.parent / "runs", "--keep", 1, "--unfinished", "--yes").stdout.startswith("1 run, ")
    published(ledger.parent, "second", require=["area"], required_only=True, seconds=SECONDS)


def test_a_proof_that_is_gone_or_changed_is_named_with_a_cell(ledger: Path) -> None:
    (file,) = ledger.with_name("led.proofs").iterdir()
    content, said = file.read_bytes(), list[str]()

    def refusal(name: str) -> SdcError:
        with pytest.raises(NothingReleasableError) as refused, heard(EventText(said.append, WARNING)):
            published(ledger.parent, name, require=["area"], required_only=True, seconds=SECONDS)
        return refused.value

    file.write_bytes(content[:-1])
    assert f"entry 1 of the ledger: its proof {file} was changed; restore the file" in str(refusal("changed"))
    file.unlink()
    message = str(refusal("gone"))
    assert f"its proof {file} is missing; restore the file" in message
    assert "keep the minimum width" in message
    assert [one.partition(str(file))[2] for one in said] == [
        f" {what}; restore the file" for what in ("was changed", "is missing")
    ]
    named = Path(message.split("are in ")[-1].split(",")[0]).read_text()
    assert "the cell " in named
    file.write_bytes(content)
    published(ledger.parent, "back", require=["area"], required_only=True, seconds=SECONDS)
