"""A stored part that is cut short, changed or lost between two stages of a build."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sdc.executor import IN_PROCESS
from sdc.model.errors import SdcError
from sdc.stages.build import open_build
from sdc.stages.stages import STAGES, run_all
from sdc.storage.run_folder import RunFolder, StageRecord, folder_digest
from tests.helpers.builds import write_czech

NAMES = [stage.name for stage in STAGES]


def cut_short(part: Path) -> None:
    part.write_bytes(part.read_bytes()[:-20])


def change(part: Path) -> None:
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_czech(tmp_path, table={"partitions": 2}, execution={"cluster": "local"})


@pytest.mark.parametrize(
    ("damaged", "reader", "damage"),
    [
        pytest.param(*pair, damage, marks=() if pair[0] == "table" or damage is cut_short else pytest.mark.slow)
        for pair in (("table", "widths"), ("widths", "search"), ("assessment", "release"))
        for damage in (cut_short, change, Path.unlink)
    ],
)
def test_a_damaged_part_is_noticed_or_does_no_harm(
    damaged: str, reader: str, damage: Callable[[Path], None], config: Path, tmp_path: Path
) -> None:
    """The build stops with one message and without a release, or the release is the same; the next run mends it."""
    folder = open_build(config).folder

    def harm(line: str) -> None:
        if line.startswith(f"{reader}: "):
            damage(sorted(folder.stage(damaged).glob("*.parquet"))[0])

    try:
        run_all(open_build(config), IN_PROCESS, harm)
    except SdcError:
        assert not list(folder.path.glob("release*"))
        release = None
    else:
        release = folder_digest(folder.stage("release"))
    run_all(open_build(config), IN_PROCESS)
    assert release in (None, folder_digest(folder.stage("release")))
    found = {name: folder_digest(folder.stage(name)) for name in NAMES}
    assert found == {name: folder.records()[name].output for name in NAMES}


def test_a_release_is_known_before_it_is_there(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that dies when its release has been recorded, and has no name yet, is a build without a release."""
    record = RunFolder.record

    def record_and_die(self: RunFolder, made: StageRecord) -> None:
        record(self, made)
        assert not self.stage(made.name).exists()
        if made.name == "release":
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "record", record_and_die)
    with pytest.raises(KeyboardInterrupt):
        run_all(open_build(config), IN_PROCESS)
    folder = open_build(config).folder
    assert list(folder.records()) == NAMES
    assert not list(folder.path.glob("release*"))
    monkeypatch.undo()
    records = run_all(open_build(config), IN_PROCESS)
    assert [made.name for made in records if made.status == "done"] == ["release"]
