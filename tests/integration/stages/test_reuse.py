"""What a build takes over from an earlier one, and what a change of config, data or files makes again."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sdc.executor import IN_PROCESS
from sdc.intruder import summary as laws_of_stage
from sdc.model.errors import InputError, RunFolderError, SdcError
from sdc.stages.build import Build, open_build
from sdc.stages.stages import SEARCH, STAGES, SWEEP, run_all, run_stage
from sdc.verify.run_folder import verify
from tests.helpers.builds import (
    BEST,
    CZECH_CSV,
    EMPTY_CELL,
    NAMES,
    Config,
    assert_nothing_published,
    built,
    document_of,
    informed,
    made,
    redone,
    rekeyed,
    report_of,
)
from tests.helpers.folders import contents


def test_a_rerun_reuses_everything_and_rewrites_nothing(config: Config, begun: Build) -> None:
    before = times(begun.folder.path)
    again, statuses = made(config())
    assert again.folder.path == begun.folder.path
    assert statuses == dict.fromkeys(NAMES, "reused")
    after = times(begun.folder.path)
    assert {name for name in after if after[name] != before.get(name)} <= {"manifest.json", "log.jsonl", ".lock"}
    assert after.keys() == before.keys()


def times(folder: Path) -> dict[str, int]:
    """When every file below was written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


SEARCHED = ["search", "assessment", "confidential", "release"]


@pytest.mark.parametrize(
    ("sections", "again"),
    [
        ({"risk": {"min_width": 7}}, SEARCHED),
        ({"risk": {"small_count": 3}}, ["widths", *SEARCHED]),
        ({"release": {"seconds_per_cell": 0.1}}, SEARCHED),
        ({"widths": {"threshold": 2}}, ["widths", "confidential"]),
        ({"table": {"partitions": 3}}, ["table", "confidential"]),
        ({"report": {"purpose": "for all"}}, ["confidential"]),
        ({"labels": {"variables": {"A": {"label": "Smokes"}}}}, ["confidential", "release"]),
        ({"publication": {"period": "1981"}}, ["confidential", "release"]),
        ({"execution": {"workers": 7}}, []),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_what_a_change_of_the_config_redoes(
    sections: dict[str, Any], again: list[str], config: Config, begun: Build
) -> None:
    second = open_build(config(**sections))
    assert rekeyed(second, begun) == again
    assert (second.folder.path == begun.folder.path) == ("execution" in sections)


def test_a_code_list_counts_by_its_content_and_is_published(config: Config, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("variable,category,label\nA,,Smokes\nA,no,never\n")
    first = built(config(labels={"code_list": "codes.csv"}))
    assert "A,1,no,never,Smokes,," in (first.folder.stage("release") / "data_dictionary.csv").read_text()
    assert verify(first.folder.path).failures == ()
    (tmp_path / "codes.csv").rename(tmp_path / "others.csv")
    assert redone(made(config(labels={"code_list": "others.csv"}))[1]) == []
    (tmp_path / "others.csv").write_text("variable,category,label\nA,,Smoking\n")
    assert redone(made(config(labels={"code_list": "others.csv"}))[1]) == ["confidential", "release"]


@pytest.mark.parametrize("same", [True, False])
def test_a_change_of_the_data_redoes_everything_and_one_of_their_name_the_counting_at_most(
    same: bool, config: Config, begun: Build, tmp_path: Path
) -> None:
    head, first, *rest = CZECH_CSV.read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([head, first if same else first[:-2] + "45", *rest, ""]))
    second, statuses = made(config(table={"path": str(tmp_path / "other.csv")}))
    if same:
        assert {*redone(statuses)} <= {"table"}
        assert contents(second.folder.stage("release")) == contents(begun.folder.stage("release"))
    else:
        assert redone(statuses) == NAMES
        assert second.folder.path.parent == begun.folder.path.parent
        assert second.folder.path != begun.folder.path


def test_structural_zeros_are_honoured_and_not_published(config: Config) -> None:
    """[KDSF] releases 60 at 7; who knows the empty cell has a width of 6 there."""
    plain, build = built(config(risk={"min_width": 7})), built(informed(config))
    assert plain.made.found.release.sub_tables_with_total(plain.made.table.schema) == 60
    assert build.made.found.release.sub_tables_with_total(build.made.table.schema) < 60
    (zero,) = build.made.known.zeros.labels(build.made.table.schema)
    assert zero == "A = yes and B = no and C = no and D = >=140 and E = >=3 and F = pos"
    assert document_of(build, "assessment", "assessment.json")["releasable"] is True
    assert "impossible, 1 in all" in report_of(build)
    published = b"".join(contents(build.folder.stage("release")).values()).lower()
    assert not [word for word in (b"zeros", b"impossible") if word in published]


def test_structural_zeros_that_stay_are_reused_and_others_redo(config: Config) -> None:
    first = built(informed(config))
    assert redone(made(informed(config))[1]) == []
    moved, statuses = made(informed(config, name="moved.yaml"))
    assert (redone(statuses), moved.folder.path) == ([], first.folder.path)
    commented, statuses = made(informed(config, f"# as before\n{EMPTY_CELL}"))
    assert redone(statuses) == ["table"]  # which comes out as it was
    assert contents(commented.folder.stage("table")) == contents(first.folder.stage("table"))
    none, statuses = made(informed(config, "[]"))
    assert redone(statuses) == NAMES
    assert none.made.found.release.sub_tables_with_total(none.made.table.schema) == 60
    contradicting = informed(config, "- {A: yes, B: [yes, no]}")
    with pytest.raises(InputError, match="structural zeros contradict the data: A = yes and B = no or yes"):
        built(contradicting)
    assert_nothing_published(open_build(contradicting))


def test_a_comment_changes_nothing(config: Config, begun: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdc.stages.build.code_digest", lambda: "0" * 64)
    second, statuses = made(config())
    assert redone(statuses) == []
    assert (second.folder.path, second.base) == (begun.folder.path, begun.base)
    assert second.folder.manifest().digests["code"] == "0" * 64


def test_another_solver_or_stage_version_is_not_reused(begun: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    later = tuple(replace(one, version=one.version + (one is SEARCH)) for one in STAGES)
    with monkeypatch.context() as patched:
        patched.setattr("sdc.stages.stages.STAGES", later)
        assert rekeyed(begun, begun) == ["search"]
    monkeypatch.setattr("sdc.stages.stages.deciding", lambda: {"ortools": "1"})
    assert rekeyed(begun, begun) == NAMES


def test_a_sweep_alone_is_taken_over_by_a_build(config: Config) -> None:
    build = open_build(config())
    with build.started(NAMES):
        swept = [run_stage(stage, build, IN_PROCESS, lambda text: None) for stage in SWEEP]
    assert [record.status for record in swept] == ["done", "done"]
    assert_nothing_published(build)
    assert redone(made(config())[1]) == NAMES[2:]


def test_laws_are_kept_one_by_one(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that ends while it samples goes on after the last whole law, to the same bytes."""
    asked = {"laws": ["released", "saturated"]}
    whole = built(config(posterior=asked))
    expected = contents(whole.folder.stage("posterior"))
    shutil.rmtree(whole.folder.path)
    found, own = list[str](), laws_of_stage.posterior

    def counted(*of: Any) -> Any:
        if len(found) == 1:
            found.append("killed")
            raise KeyboardInterrupt
        found.append(of[2].name)
        return own(*of)

    monkeypatch.setattr(laws_of_stage, "posterior", counted)
    with pytest.raises(KeyboardInterrupt):
        made(config(posterior=asked))
    build = built(config(posterior=asked))
    assert found == ["released", "killed", "saturated"]
    assert contents(build.folder.stage("posterior")) == expected
    assert not build.folder.parts("posterior").exists()


def test_a_search_that_is_interrupted_goes_on_from_its_last_round(config: Config) -> None:
    """After round 3 of 5 the build fails; what it then makes is, byte for byte, what it would have made at once."""
    whole = built(config(release=BEST))
    expected = contents(whole.folder.stage("search"))
    shutil.rmtree(whole.folder.path)
    said: list[str] = []

    def fail_after_three(line: str) -> None:
        said.append(line)
        if "annealing round 3" in line:
            raise RuntimeError("struck")

    with pytest.raises(RuntimeError, match="struck"):
        run_all(open_build(config(release=BEST)), IN_PROCESS, fail_after_three)
    assert whole.folder.parts("search").is_dir()
    said.clear()
    build = open_build(config(release=BEST))
    run_all(build, IN_PROCESS, said.append)
    assert re.findall(r"annealing round (\d)", "\n".join(said)) == ["4", "5"]
    assert contents(build.folder.stage("search")) == expected
    assert not build.folder.parts("search").exists()


@pytest.mark.parametrize("name", ["table", "widths", "assessment", "confidential"])
def test_files_that_were_touched_are_made_again(name: str, config: Config, begun: Build) -> None:
    before = contents(begun.folder.stage(name))
    file = sorted(path for path in begun.folder.stage(name).iterdir())[0]
    file.write_bytes(file.read_bytes() + b"1")
    again, statuses = made(config())
    assert redone(statuses) == [name]
    assert contents(again.folder.stage(name)) == before


@pytest.mark.parametrize(
    ("touch", "message"),
    [
        ("changed", r"release is not valid: .*001_A-B-C-D-E.csv"),
        ("removed", r"release is not valid: .*001_A-B-C-D-E.csv"),
        ("added", r"release is not valid: .*It is never replaced: restore .* run --again"),
        ("search", r"release is there. The result of its search is missing or changed .* run --again"),
    ],
)
def test_a_release_is_never_made_again_in_place(touch: str, message: str, config: Config, begun: Build) -> None:
    release = begun.folder.stage("release")
    file = release / {"added": "widths.csv", "search": "../search/search.json"}.get(touch, "001_A-B-C-D-E.csv")
    file.unlink() if touch == "removed" else file.write_text("sub_table,critical_width\n")
    before = contents(release)
    for _ in range(2):
        with pytest.raises(SdcError, match=message):
            made(config())
        assert contents(release) == before
    if touch == "search":
        anew = open_build(config(), again=True)
        assert anew.folder.path != begun.folder.path
        run_all(anew, IN_PROCESS)
        assert open_build(config(), again=True).folder.path not in (anew.folder.path, begun.folder.path)
        assert redone({record.name: record.status for record in run_all(anew, IN_PROCESS)}) == []


def test_a_rerun_of_what_another_version_published_ends_with_it(
    config: Config, begun: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no other build takes its stages for what this version makes."""
    before = begun.folder.records()
    monkeypatch.setattr("sdc.stages.stages.deciding", lambda: {"ortools": "1"})
    again, statuses = made(config())
    assert (again.folder.path, redone(statuses)) == (begun.folder.path, [])
    assert {n: r.key for n, r in again.folder.records().items()} == {n: r.key for n, r in before.items()}


def test_a_manifest_of_another_format_is_refused(config: Config, begun: Build) -> None:
    (begun.folder.path / "manifest.json").write_text('{"format": 2}')
    with pytest.raises(RunFolderError, match="has format 2, this version reads 1; remove the run folder"):
        made(config())
