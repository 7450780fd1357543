"""Run folders: nothing half-written has a final name, stages are taken over by key, one run at a time."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from sdc.events import emit
from sdc.model.errors import RunFolderError
from sdc.storage import run_folder
from sdc.storage.run_folder import Manifest, RunFolder, StageRecord, folder_digest


def make(folder: RunFolder, name: str, key: str, text: str) -> StageRecord:
    with folder.writing(name) as into:
        (into / "data.txt").write_text(text)
    record = StageRecord(name, key, folder_digest(folder.stage(name)), "done", 1.0, None, None)
    folder.record(record)
    return record


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "build" / "one")
    with folder.locked():
        folder.begin(Manifest("build", planned=("table",)))
    return folder


def test_a_stage_gets_its_name_when_it_is_whole(folder: RunFolder) -> None:
    with folder.writing("table") as into:
        (into / "data.txt").write_text("half")
        assert not folder.stage("table").exists()
    assert (folder.stage("table") / "data.txt").read_text() == "half"


def test_a_stage_that_fails_leaves_nothing(folder: RunFolder) -> None:
    writing = folder.writing("table")
    (writing.__enter__() / "data.txt").write_text("half")
    assert not writing.__exit__(KeyError, KeyError("fault"), None)
    assert not folder.stage("table").exists()
    assert not list(folder.path.glob(".*.unfinished"))


def test_a_stage_is_found_here_and_in_builds_of_the_same_name(folder: RunFolder) -> None:
    record = make(folder, "table", "k1", "text")
    assert folder.adopt("table", "k1") == record.output
    assert folder.adopt("table", "k2") is None
    other = RunFolder(folder.path.parent / "two")
    with other.locked():
        other.begin(Manifest(planned=("table",)))
        assert other.finds("table", "k1") == record.output
        assert not other.stage("table").exists()
        assert other.adopt("table", "k1") == record.output
    assert (other.stage("table") / "data.txt").read_text() == "text"
    stranger = RunFolder(folder.path.parent.parent / "another" / "one")
    assert stranger.finds("table", "k1") is None


@pytest.mark.parametrize("damage", ["changed", "removed", "added"])
def test_a_stage_whose_files_were_touched_is_not_found(folder: RunFolder, damage: str) -> None:
    make(folder, "table", "k1", "text")
    file = folder.stage("table") / "data.txt"
    if damage == "changed":
        file.write_text("tampered")
    elif damage == "removed":
        file.unlink()
    else:
        (file.parent / "more.txt").write_text("more")
    assert folder.adopt("table", "k1") is None


def test_a_new_run_removes_stages_that_are_not_whole(folder: RunFolder) -> None:
    make(folder, "table", "k1", "text")
    (folder.stage("table") / "data.txt").write_text("tampered")
    folder.stage("release").mkdir()
    (folder.path / ".search.12345678.unfinished").mkdir()
    with folder.locked():
        folder.begin(Manifest(planned=("table", "release")))
    # a release that nothing records may have been published: it stays, for whoever is told of it
    assert sorted(path.name for path in folder.path.iterdir()) == [".lock", "manifest.json", "release"]
    assert folder.records() == {}


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"file/build/one cannot be written: .*set output.folder"):
        RunFolder(tmp_path / "file" / "build" / "one").locked().__enter__()


def test_a_damaged_or_foreign_manifest_is_refused(folder: RunFolder) -> None:
    (folder.path / "manifest.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"manifest.json cannot be read"):
        folder.manifest()
    (folder.path / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(RunFolderError, match="has format 99, this version reads 1"):
        folder.manifest()


@pytest.mark.parametrize("change", ["removed", "rewritten"])
def test_a_stage_that_goes_while_it_is_taken_over_is_not(
    folder: RunFolder, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process cleans up, or the disk decays, between the look at the manifest and the copy."""
    make(folder, "table", "k1", "text")
    other = RunFolder(folder.path.parent / "two")
    copytree = shutil.copytree

    def change_and_copy(source: Path, *rest: Any, **options: Any) -> Any:
        shutil.rmtree(source) if change == "removed" else (source / "data.txt").write_text("other")
        return copytree(source, *rest, **options)

    monkeypatch.setattr(shutil, "copytree", change_and_copy)
    with other.locked():
        other.begin(Manifest(planned=("table",)))
        assert other.adopt("table", "k1") is None
    assert sorted(path.name for path in other.path.iterdir()) == [".lock", "manifest.json"]
    assert other.records() == {}


def test_a_folder_that_is_held_says_by_whom(folder: RunFolder) -> None:
    assert not folder.held()
    with folder.locked():
        emit("run started", pid=7, host="there")
        assert folder.held()
        with pytest.raises(RunFolderError, match=r"is using .*one \(process 7 on there since 20.*\); wait until"):
            RunFolder(folder.path).locked().__enter__()
    assert not folder.held()


def test_the_manifest_on_a_full_disk_is_one_message(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder, "write_json", fail)
    with pytest.raises(RunFolderError, match=r"the manifest cannot be written in .*No space left.* finished stages"):
        folder.write_manifest(Manifest())


def test_a_full_disk_is_one_message(folder: RunFolder) -> None:
    with pytest.raises(RunFolderError, match=r"stage table cannot be .*No space left"), folder.writing("table"):
        raise OSError(28, "No space left on device")
    assert not folder.stage("table").exists()
