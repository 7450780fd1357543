"""Runs below a folder: what became of each, which may go, and that removing takes nothing else."""

import json
import os
from pathlib import Path

import pytest

from sdc.events import emit
from sdc.model.errors import RunFolderError
from sdc.storage.run_folder import Manifest, RunFolder, StageRecord, folder_digest
from sdc.storage.runs import finish_removals, last_finished, read_run, read_runs, remove, superfluous

STAGES = ("table", "search", "release")


def make(root: Path, name: str, digest: str, *stages: str, outcome: str = "finished") -> RunFolder:
    """A run that made these stages and ended so."""
    folder = RunFolder(root / name / digest)
    with folder.locked():
        emit("run started", pid=os.getpid(), host="here", workers=2)
        folder.begin(Manifest(name, planned=STAGES))
        for stage in stages:
            with folder.writing(stage) as into:
                (into / "data.txt").write_text(stage)
                folder.record(StageRecord(stage, "key", folder_digest(into), "done", 1.0, 100, 200))
        emit("run ended", "no release is safe" if outcome == "refused" else "", outcome=outcome)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Runs of two names in the order in which they are started here, which is the alphabet of their digests."""
    root = tmp_path / "runs"
    make(root, "births", "a", "table", outcome="failed")
    make(root, "births", "b", *STAGES)
    make(root, "births", "c", "table", "search", outcome="refused")
    make(root, "births", "d", *STAGES)
    make(root, "births", "e", "table", outcome="failed")
    make(root, "deaths", "a", "table", outcome="failed")
    return root


def states(root: Path) -> dict[str, str]:
    return {f"{run.name}/{run.folder.path.name}": run.state for run in read_runs(root)}


def chosen(root: Path, keep: int | None = None, unfinished: bool = False) -> list[str]:
    return [f"{run.name}/{run.folder.path.name}" for run in superfluous(read_runs(root), keep, unfinished)]


def test_what_became_of_each(root: Path) -> None:
    assert states(root) == {
        "births/a": "failed", "births/b": "finished", "births/c": "refused", "births/d": "finished",
        "births/e": "failed", "deaths/a": "failed",
    }  # fmt: skip
    facts = read_run(root / "births" / "c").facts
    assert (facts["name"], facts["digest"], facts["stages_done"], facts["stages"]) == ("births", "c", 2, 3)
    assert facts["started"] <= facts["finished"]
    assert facts["size_bytes"] == sum(p.stat().st_size for p in (root / "births" / "c").rglob("*") if p.is_file())


@pytest.mark.parametrize(("outcome", "state"), [("killed", "killed"), ("finished", "unfinished"), ("else", "killed")])
def test_what_became_of_one_without_a_release(outcome: str, state: str, tmp_path: Path) -> None:
    """A sweep of widths alone ends well without a release; nothing but the known ends is believed."""
    make(tmp_path, "births", "a", "table", outcome=outcome)
    assert states(tmp_path) == {"births/a": state}


def test_a_release_beside_a_stage_that_is_not_whole_is_damaged(root: Path) -> None:
    """As a run leaves it that was started again after the damage, and killed: its manifest no longer has the stage."""
    folder = RunFolder(root / "births" / "d")
    (folder.stage("search") / "data.txt").write_text("other")
    with folder.locked():
        folder.begin(Manifest("births", planned=STAGES))
    assert read_run(folder.path).state == "damaged"
    assert chosen(root, 1) == ["births/a"]
    assert "births/d" in chosen(root, 1, True)


def test_the_status_of_a_run(root: Path) -> None:
    folder = RunFolder(root / "births" / "c")
    folder.parts("release").mkdir()
    status = read_run(folder.path).status
    assert [(stage["name"], stage["status"], stage["worker_mib"]) for stage in status["stages"]] == [
        ("table", "done", 200), ("search", "done", 200), ("release", "to do", None),
    ]  # fmt: skip
    assert status["checkpoints"] == ["release"]
    assert status["running"] is None
    assert status["error"] == "no release is safe"


def test_a_run_at_work_says_what_it_does(root: Path) -> None:
    folder = RunFolder(root / "births" / "e")
    with folder.locked():
        emit("run started", pid=7, host="there", workers=2)
        emit("stage started", "finds a release", stage="search")
        emit("progress", "chains: 3 of 8 units in 5 s", units=3, of=8, seconds=5.0)
        run = read_run(folder.path)
        assert run.state == "running"
        now = run.status["running"]
        assert (now["pid"], now["host"], now["stage"]) == (7, "there", "search")
        assert now["progress"] == {"units": 3, "of": 8, "seconds": 5.0}
        assert run.facts["finished"] is None
        assert chosen(root, 1, True) == ["births/a", "births/b", "births/c", "deaths/a"]
    assert read_run(folder.path).state == "killed"


def test_damage_is_seen(root: Path) -> None:
    RunFolder(root / "births" / "d").discard("search")
    (root / "births" / "e" / "manifest.json").write_text("{")
    found = states(root)
    assert (found["births/d"], found["births/e"]) == ("damaged", "unreadable")
    assert chosen(root, 1, True) == ["births/a", "births/c", "births/d", "deaths/a"]


@pytest.mark.parametrize(
    ("keep", "unfinished", "expected"),
    [
        (None, False, "births/a births/c"),
        (1, False, "births/a births/b births/c"),
        (2, False, "births/a births/c"),
        (None, True, "births/a births/c births/e deaths/a"),
        (1, True, "births/a births/b births/c births/e deaths/a"),
    ],
)
def test_which_runs_may_go(keep: int | None, unfinished: bool, expected: str, root: Path) -> None:
    assert chosen(root, keep, unfinished) == expected.split()


def test_a_run_is_removed_whole(root: Path) -> None:
    remove(read_run(root / "births" / "b"))
    assert sorted(path.name for path in (root / "births").iterdir()) == ["a", "c", "d", "e"]


def test_a_run_that_was_run_again_meanwhile_stays(root: Path) -> None:
    run = read_run(root / "births" / "e")
    make(root, "births", "e", *STAGES)
    with pytest.raises(RunFolderError, match=r"births/e was run again meanwhile"):
        remove(run)
    assert read_run(root / "births" / "e").state == "finished"


def test_what_an_interrupted_removal_left_is_no_run_and_goes(root: Path) -> None:
    (root / "births" / "b").rename(root / "births" / ".b.12345678.removed")
    assert "births/b" not in states(root)
    assert len(states(root)) == 5
    assert (
        RunFolder(root / "births" / "new").finds("table", "key") is not None
    )  # from another than the one half removed
    finish_removals(root)
    assert sorted(path.name for path in (root / "births").iterdir()) == ["a", "c", "d", "e"]


def test_other_folders_are_no_runs(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "births" / "notes").mkdir()
    (root / "births" / "notes" / "manifest.txt").touch()
    assert len(read_runs(root)) == 6
    with pytest.raises(RunFolderError, match=r"notes is not a run folder: it has no manifest.json"):
        read_run(root / "births" / "notes")
    with pytest.raises(RunFolderError, match=r"no manifest.json; name a folder of sdc run, such as .*births/a$"):
        read_run(root)
    monkeypatch.chdir(root.parent)
    with pytest.raises(RunFolderError, match=r"deaths is not a run folder: .* such as runs/deaths/a$"):
        read_run(Path("deaths"))
    with pytest.raises(RunFolderError, match=r"none is not a folder; name one with runs"):
        read_runs(tmp_path / "none")


STAGE = {"name": "table", "key": "k", "output": "o", "status": "done", "seconds": 1.0}
STAGE |= {"driver_mib": None, "worker_mib": 1}


@pytest.mark.parametrize(
    ("manifest", "fault"),
    [
        ({"planned": "abc"}, "planned: .* valid array"),
        ({"planned": [1]}, "planned: 0: .* valid string"),
        ({"stages": [None]}, "stages: 0: .* an object"),
        ({"stages": [{"name": "table"}]}, "stages: 0: key: .* required"),
        ({"stages": [{**STAGE, "more": 1}]}, "stages: 0: more: Unexpected"),
        *(({"stages": [{**STAGE, "name": name}]}, "the name is none of a stage") for name in ("../..", "a\0", "/", "")),
        ({"stages": [{**STAGE, "seconds": "x"}]}, "stages: 0: seconds: .* valid number"),
        ({"more": 1}, "more: Unexpected"),
        ({"config": []}, "config: "),
        ({"digests": {"code": 1}}, "digests: code: .* valid string"),
    ],
)
def test_a_malformed_manifest_is_unreadable_and_says_why(
    manifest: dict[str, object], fault: str, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "births" / "a")
    folder.path.mkdir(parents=True)
    (folder.path / "manifest.json").write_text(json.dumps({"format": 1, **manifest}))
    with pytest.raises(RunFolderError, match=rf"manifest.json is corrupt: .*{fault}.*; remove the run folder and run"):
        folder.manifest()
    (run,) = read_runs(tmp_path)
    assert (run.state, run.status["stages"], superfluous([run], 0, True)) == ("unreadable", [], [])


@pytest.mark.parametrize("content", ["[" * 100_000, "9" * 5000, '{"format": 1, "stages": ' + "[" * 100_000, "\udcff"])
def test_a_manifest_that_would_exhaust_its_reader(content: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "births" / "a")
    folder.path.mkdir(parents=True)
    (folder.path / "manifest.json").write_text(content, errors="surrogateescape")
    assert [run.state for run in read_runs(tmp_path)] == ["unreadable"]


def test_a_log_with_other_lines_than_events(root: Path) -> None:
    folder = RunFolder(root / "births" / "b")
    before = read_run(folder.path).facts
    lines = ['{"event": "progress"}', '{"event": 3, "time": "x"}', "[" * 100_000, '{"time": "x"}', "3", "\udcff"]
    with (folder.path / "log.jsonl").open("a", errors="surrogateescape") as log:
        log.write("\n".join(lines))
    assert {**read_run(folder.path).facts, "size_bytes": 0} == {**before, "size_bytes": 0}
    (folder.path / "log.jsonl").write_text('{"event": "run started"}\n{"event": "run ended"}\n')
    assert (read_run(folder.path).started, read_run(folder.path).status["finished"]) == ("", None)


def test_the_last_that_finished(root: Path) -> None:
    assert last_finished(root / "births", "f") == RunFolder(root / "births" / "d")
    assert last_finished(root / "births", "d") == RunFolder(root / "births" / "b")
    assert last_finished(root / "deaths", "b") is None
    assert last_finished(root / "none") is None
