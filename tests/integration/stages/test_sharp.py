"""A build with `assessment: sharp`, and `sdc bounds --sharp`: the same bytes whoever works, however often one dies."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner, Result

from sdc import sharp_bounds
from sdc.commands import cli
from sdc.events import STEP, EventText, heard
from sdc.executor import IN_PROCESS, Executor
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ConfigError, NotReleasableError, RunFolderError
from sdc.model.release import Release
from sdc.model.structural_zeros import StructuralZeros
from sdc.refusal import NOT_RELEASABLE, status_of
from sdc.risk.inquiry import Inquiry
from sdc.risk.sharp import METHODS, SharpPart, SharpProgress
from sdc.stages.bounded import describe_sharp
from sdc.stages.build import Build, open_build
from sdc.stages.stage import run_stage
from sdc.stages.stages import run_all, stages_of
from sdc.stages.subject import Subject
from sdc.storage.kept_parts import KeptParts
from sdc.storage.results import read_assessment, read_end_methods
from sdc.verify.run_folder import verify
from tests.helpers.folders import contents

WIDTH, SECONDS = 2, 0.5


def config(folder: Path, **sections: Any) -> Path:
    """Of a table that is large for the methods that bound all of it, and too little time for any other proof."""
    generator = np.random.default_rng(1)
    sizes = np.array([4, 4, 3, 3, 2])
    codes = np.minimum(generator.exponential(0.9, (2_000, 5)).astype(int), sizes - 1)
    rows = [",".join(f"{name}{code}" for name, code in zip("abcde", row, strict=True)) for row in codes.tolist()]
    folder.mkdir(exist_ok=True)
    (folder / "t.csv").write_text("\n".join(["A,B,C,D,E", *rows]))
    content: dict[str, Any] = {
        "name": "large",
        "table": {"path": str(folder / "t.csv")},
        "risk": {"min_width": WIDTH, "small_count": 1},
        "release": {"questions": 3, "require": [{"all": 2}], "seconds": 0.2},
        "assessment": "sharp",
        "sharp_seconds": SECONDS,
        "execution": {"cluster": "in-process"},
        "output": {"folder": str(folder / "runs")},
    }
    given = {name: value for name, value in (content | sections).items() if value is not None}
    (folder / "c.yaml").write_text(yaml.safe_dump(given))
    return folder / "c.yaml"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """One that is finished."""
    found = open_build(config(tmp_path_factory.mktemp("sharp")))
    run_all(found, IN_PROCESS)
    return found


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The same without sharp bounds."""
    found = open_build(config(tmp_path_factory.mktemp("proven"), assessment="proven", sharp_seconds=None))
    run_all(found, IN_PROCESS)
    return found


def sdc(*words: Any) -> Result:
    return CliRunner().invoke(cli.app, [*map(str, words)])


def bounds_of(build: Build) -> CellBounds:
    return read_assessment(build.folder.stage("assessment"), build.made.table, 1)[1]


# What a build makes


def test_bounds_of_a_sharp_assessment_are_narrower_and_verified(build: Build, proven: Build) -> None:
    sharp, before = bounds_of(build), bounds_of(proven)
    assert (sharp.outer[:, 0] >= before.outer[:, 0]).all()
    assert (sharp.outer[:, 1] <= before.outer[:, 1]).all()
    assert (sharp.inner[:, 0] <= before.inner[:, 0]).all()
    assert (sharp.inner[:, 1] >= before.inner[:, 1]).all()
    assert sharp.exact.sum() > before.exact.sum()
    found = verify(build.folder.path)
    assert found.failures == ()
    assert found.certified_cells == found.at_risk_cells == len(sharp) > 20


def test_the_assessment_counts_the_methods_of_its_ends(build: Build) -> None:
    told = json.loads((build.folder.stage("assessment") / "assessment.json").read_text())["sharpness"]
    bounds, by = bounds_of(build), read_end_methods(build.folder.stage("assessment"))
    assert by is not None
    assert {*by.outer.flat, *by.inner.flat} <= {*METHODS}
    assert (told["cells"], told["sharp"]) == (len(bounds), bounds.exact.sum())
    meets = bounds.outer == bounds.inner
    for key, ends in (("met", meets), ("open", ~meets)):
        for kind, names in (("outer", by.outer), ("inner", by.inner)):
            counted = dict(zip(*np.unique(names[ends].astype(str), return_counts=True), strict=True))
            assert told[key][kind] == counted


def test_an_assessment_that_is_not_sharp_says_nothing_of_methods(proven: Build) -> None:
    folder = proven.folder.stage("assessment")
    assert "sharpness" not in json.loads((folder / "assessment.json").read_text())
    assert read_end_methods(folder) is None
    assert Subject.open(str(proven.folder.path)).assessed(1) is None


def test_sharp_bounds_within_a_small_budget_are_the_default(tmp_path: Path) -> None:
    found = open_build(config(tmp_path, **{"assessment": None, "sharp_seconds": None}))
    assert (found.config.assessment, found.config.seconds_to_sharpen) == ("sharp", 30.0)
    assert found.config == open_build(config(tmp_path, assessment="sharp", sharp_seconds=None)).config


def test_a_run_from_before_there_were_sharp_bounds_reads_on(proven: Build, tmp_path: Path) -> None:
    """Its manifest says nothing of an assessment, and has the number of partitions that was the default."""
    shutil.copytree(proven.folder.path, tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    del manifest["config"]["assessment"], manifest["config"]["sharp_seconds"]
    manifest["config"]["table"]["partitions"] = 1
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    assert verify(tmp_path / "run").failures == ()
    subject = Subject.open(str(tmp_path / "run"))
    assert subject.assessed(1) is None
    assert subject.released == proven.made.found.release


@pytest.mark.parametrize(
    "release",
    [
        {"method": "decomposable", "annealing": {"chains": 1, "steps": 200, "rounds": 2}},
        {"method": "simulatable", "simulatable": {"draws": 20, "share": 0.1}},
    ],
)
def test_bounds_of_decomposable_releases_are_sharp_without_a_search(release: dict[str, Any], tmp_path: Path) -> None:
    """So they change no decision, and those of a simulatable search still tell nothing of the table."""
    said: list[str] = []
    with heard(EventText(said.append)):
        found = open_build(config(tmp_path, release=release))
        run_all(found, IN_PROCESS)
    assert bounds_of(found).exact.all()
    assert not [line for line in said if line.startswith("sharp bounds: round ")]
    number = len(bounds_of(found))
    start = f"assessment: {number} of {number} at-risk cells sharp, within a budget of {SECONDS:g} s; ends that meet: "
    assert [line for line in said if line.startswith(start)]


def test_without_an_at_risk_cell_nothing_is_to_be_sharp(tmp_path: Path) -> None:
    found = open_build(config(tmp_path, table={"path": str(tmp_path / "t.csv"), "variables": ["A", "B"]}))
    run_all(found, IN_PROCESS)
    told = json.loads((found.folder.stage("assessment") / "assessment.json").read_text())
    assert (told["at_risk_cells"], told["sharpness"]["cells"]) == (0, 0)
    assert verify(found.folder.path).failures == ()


def test_progress_says_how_many_cells_are_sharp(build: Build) -> None:
    said: list[str] = []
    with heard(EventText(said.append, STEP)):
        assessed_anew(build)
    progress = [line for line in said if line.startswith("sharp bounds: round ")]
    assert progress
    assert progress[0].endswith(" cells sharp")
    assert describe_sharp(SharpProgress(5000, 1234, "walk", 3, 20, 2, 18)) == (
        "sharp bounds: round 2 of at most 18, walk: 3 of 20 units, 1,234 of 5,000 cells sharp"
    )


# The same bytes


def assessed_anew(build: Build, executor: Executor = IN_PROCESS) -> dict[str, bytes]:
    """The stage's files, made once more from those before it."""
    fresh = open_build(build.folder.path.parents[2] / "c.yaml")
    fresh.folder.discard("assessment")
    stages = stages_of(fresh.config)
    with fresh.started([stage.name for stage in stages]):
        for stage in stages[: [stage.name for stage in stages].index("assessment") + 1]:
            run_stage(stage, fresh, executor, lambda text: None)
    return contents(fresh.folder.stage("assessment"))


class Backwards:
    """As many workers as one likes, of whom the last is always done first."""

    scratch = None

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, function: Callable[[Any, Any], Any], table: Any, units: Sequence[Any]) -> Iterator[Any]:
        return iter([function(table, unit) for unit in reversed(units)][::-1])


def test_workers_change_no_byte(build: Build, two_workers: Executor) -> None:
    expected = contents(build.folder.stage("assessment"))
    for executor in (IN_PROCESS, two_workers, Backwards(4)):
        assert assessed_anew(build, executor) == expected


@pytest.mark.parametrize("partitions", [2, 5])
def test_in_however_many_parts_the_table_is_stored_the_bounds_are_the_same(
    partitions: int, build: Build, two_workers: Executor, tmp_path: Path
) -> None:
    parted = open_build(config(tmp_path, table={"path": str(tmp_path / "t.csv"), "partitions": partitions}))
    run_all(parted, two_workers)
    assert len([*parted.folder.stage("table").glob("part-*.parquet")]) == partitions
    assert contents(parted.folder.stage("assessment")) == contents(build.folder.stage("assessment"))


def test_a_large_table_is_partitioned_without_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdc.model.table.CELLS_PER_PARTITION", 60)
    found = open_build(config(tmp_path, sharp_seconds=0.05))
    run_all(found, IN_PROCESS)
    cells = len(found.made.table)
    assert cells > 120
    assert len([*found.folder.stage("table").glob("part-*.parquet")]) == -(-cells // 60)
    assert verify(found.folder.path).failures == ()


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from sdc.storage.kept_parts import KeptParts

_, left, moment, *words = sys.argv
write, savez, left = KeptParts.write, np.savez, int(left)

def die_if(now):
    if left == 0 and moment == now:
        os.kill(os.getpid(), signal.SIGKILL)

def write_or_die(self, part):
    global left
    die_if("before")
    write(self, part)
    die_if("after")
    left -= 1

def write_half(file, **arrays):
    savez(file, **arrays)
    if left == 0 and moment == "amid":
        file.flush()
        os.truncate(file.name, os.path.getsize(file.name) // 2)
        die_if("amid")

KeptParts.write, np.savez, sys.argv = write_or_die, write_half, ["sdc", *words]
if words[0] == "build":
    from sdc.stages.build import open_build
    from sdc.stages.stages import run_all
    from sdc.executor import IN_PROCESS
    run_all(open_build(Path(words[1])), IN_PROCESS)
else:
    from sdc.commands.cli import main
    main()
"""


def killed(part: int, when: str, *words: Any) -> int:
    """A process that dies before, amid or after it keeps a part, counted from 0; its status."""
    command = [sys.executable, "-c", KILLED, part, when, *words]
    return subprocess.run([*map(str, command)], capture_output=True, timeout=300).returncode


def parts_of(build: Build, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many there are in the assessment."""
    written: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(KeptParts, "write", lambda self, part: written.append(part.key))
        assessed_anew(build)
    assert len(written) == len({*written}) > 3
    return len(written)


@pytest.mark.parametrize("kills", [pytest.param(2, marks=pytest.mark.slow), pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_and_run_again_it_makes_the_same_bytes(
    kills: int, build: Build, monkeypatch: pytest.MonkeyPatch, night: list[int]
) -> None:
    expected, file = contents(build.folder.stage("assessment")), build.folder.path.parents[2] / "c.yaml"
    rng, number = random.Random(f"{kills} {night}"), parts_of(build, monkeypatch)
    build.folder.discard("assessment")
    for kill in range(kills):
        # each time some parts are left to do
        most = max(1, (number - len([*build.folder.parts("assessment").rglob("*.npz")])) // (kills - kill + 1))
        when = rng.choice(["before", "amid", "after"])
        assert killed(rng.randrange(most), when, "build", file) == -signal.SIGKILL
        assert not build.folder.stage("assessment").exists()
    kept = len([*build.folder.parts("assessment").rglob("[!.]*.npz")])
    fresh = parts_left(build, monkeypatch)
    assert fresh == number - kept
    assert contents(build.folder.stage("assessment")) == expected
    assert not build.folder.parts("assessment").exists()


def parts_left(build: Build, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many parts a build that goes on has to do."""
    write, written = KeptParts.write, list[str]()

    def noted(self: KeptParts, part: SharpPart) -> None:
        written.append(part.key)
        write(self, part)

    with monkeypatch.context() as patch:
        patch.setattr(KeptParts, "write", noted)
        run_all(open_build(build.folder.path.parents[2] / "c.yaml"), IN_PROCESS)
    return len(written)


# The command


def test_bounds_of_a_sharp_run_are_those_that_it_has(build: Build) -> None:
    answer = json.loads(sdc("bounds", build.folder.path, "--json").stdout)
    bounds = bounds_of(build)
    assert [row["outer"] for row in answer["cells"]] == bounds.outer.tolist()
    assert [row["inner"] for row in answer["cells"]] == bounds.inner.tolist()
    assert answer["sharpness"]["sharp"] == bounds.exact.sum()
    lines = sdc("bounds", build.folder.path).stdout.splitlines()
    assert lines[-1] == answer["sharpness"]["text"]
    assert lines[-1].startswith(f"{bounds.exact.sum()} of {len(bounds)} cells sharp; ")
    kinds = ["sharp" if exact else "bracketed" for exact in bounds.exact.tolist()]
    assert [line.split("]")[2].split()[0] for line in lines[2:-1]] == kinds


def test_an_answer_about_a_sharp_run_says_how_sharp_its_bounds_are(build: Build, proven: Build) -> None:
    told = json.loads(sdc("assess", build.folder.path, "--json").stdout)["sharpness"]
    bounds = bounds_of(build)
    assert (told["cells"], told["sharp"]) == (len(bounds), bounds.exact.sum())
    assert (
        f"sharp bounds  of the run: {told['sharp']} of {told['cells']} cells" in sdc("assess", build.folder.path).stdout
    )
    for words in ((proven.folder.path,), (build.folder.path, "--release", "A*B")):
        assert "sharpness" not in json.loads(sdc("assess", *words, "--json").stdout)


def test_sharp_bounds_of_a_run_go_on_from_what_it_has(proven: Build) -> None:
    before, answer = bounds_of(proven), sdc("bounds", proven.folder.path, "--sharp", "--seconds", 5, "--json")
    found = json.loads(answer.stdout)
    outer, inner = (np.array([row[kind] for row in found["cells"]]) for kind in ("outer", "inner"))
    assert ((outer[:, 0] >= before.outer[:, 0]) & (outer[:, 1] <= before.outer[:, 1])).all()
    assert ((inner[:, 0] <= before.inner[:, 0]) & (inner[:, 1] >= before.inner[:, 1])).all()
    assert "given" in {name for row in found["cells"] for name in row["inner_by"]}
    assert found["sharpness"]["sharp"] > before.exact.sum()
    assert not proven.folder.parts("bounds").exists()


@pytest.mark.slow
def test_the_command_goes_on_where_it_was_killed(proven: Build) -> None:
    words = "bounds", proven.folder.path, "--sharp", "--seconds", 5, "--json"
    expected = sdc(*words).stdout
    assert killed(2, "after", *words) == -signal.SIGKILL
    assert len([*proven.folder.parts("bounds").rglob("*.npz")]) == 3
    answer = sdc(*words)
    assert "bounds: goes on after 3 parts that were kept" in answer.stderr
    assert answer.stdout == expected
    assert not proven.folder.parts("bounds").exists()


def test_of_a_table_alone_nothing_is_kept_and_it_says_so(build: Build, tmp_path: Path) -> None:
    shutil.copy(build.folder.path.parents[2] / "t.csv", tmp_path)
    answer = sdc("bounds", tmp_path / "t.csv", "--release", "A*B", "--small-count", 1, "--sharp")
    assert "nothing is kept of " in answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_of_a_config_parts_are_kept_and_nothing_is_left(tmp_path: Path) -> None:
    file = config(tmp_path / "new", sharp_seconds=2.0)
    words = "bounds", file, "--release", "A*B", "--release", "A*C", "--release", "B*C*D*E", "--sharp", "--json"
    expected = sdc(*words).stdout
    assert not (tmp_path / "new" / "runs" / "large").exists()
    assert killed(0, "after", *words) == -signal.SIGKILL
    assert len([*(tmp_path / "new" / "runs").rglob("*.npz")]) == 1
    assert sdc(*words).stdout == expected
    assert not (tmp_path / "new" / "runs" / "large").exists()


def test_in_python_they_are_those_of_the_command(proven: Build) -> None:
    names = ["A*B", "A*C", "B*C*D*E"]
    found = sharp_bounds(proven.made.table, names, small_count=1, seconds=2.0)
    words = [word for name in names for word in ("--release", name)]
    told = json.loads(sdc("bounds", proven.folder.path, *words, "--sharp", "--seconds", 2.0, "--json").stdout)
    assert [row["outer"] for row in told["cells"]] == found.bounds.outer.tolist()


# What is kept


def part(key: str) -> SharpPart:
    return SharpPart(key, {"outer": np.arange(6).reshape(3, 2), "cells": np.arange(3, dtype=np.uint16)})


def test_what_is_kept_comes_back_and_is_for_this_user_alone(tmp_path: Path) -> None:
    parts = KeptParts(tmp_path / "run" / "bounds.parts", "a" * 64)
    for key in ("one", "two/three"):
        parts.write(part(key))
    found = parts.read()
    assert {*found} == {"one", "two/three"}
    for name, array in part("one").arrays.items():
        assert found["one"].arrays[name].dtype == array.dtype
        assert np.array_equal(found["one"].arrays[name], array)
    assert {path.stat().st_mode & 0o077 for path in parts.above.rglob("*")} == {0}
    assert KeptParts(parts.above, "b" * 64).read() == {}


def test_what_is_damaged_is_done_again(tmp_path: Path) -> None:
    parts = KeptParts(tmp_path, "a" * 64)
    parts.write(part("one"))
    (file,) = parts.folder.iterdir()
    whole = file.read_bytes()
    for damage in (
        b"",
        b"x",
        whole[: len(whole) // 2],
        whole[:60] + b"\0" * 40 + whole[100:],
        whole.replace(b"key", b"kex"),
    ):
        file.write_bytes(damage)
        assert parts.read() == {}


def test_what_cannot_be_kept_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"cannot be written: .*; free the disk or mend the permissions"):
        KeptParts(tmp_path / "file", "a" * 64).write(part("one"))


@pytest.mark.parametrize("change", ["table", "release", "zeros", "seconds", "cells", "code", "run"])
def test_parts_of_anything_else_are_never_gone_on_from(
    change: str, proven: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sdc.stages import bounded

    subject = Subject.open(str(proven.folder.path))
    known, cells = subject.public(None), subject.table.codes[subject.table.at_risk(1)]
    asked: dict[str, Any] = {"known": known, "cells": cells, "seconds": 5.0, "subject": subject}
    before = bounded.kept_parts(**asked)
    if change == "table":
        counts = subject.table.counts.copy()
        counts[0] += 1
        asked["subject"] = replace(subject, table=replace(subject.table, counts=counts))
    elif change == "release":
        asked["known"] = replace(known, release=Release.of([1]))
    elif change == "zeros":
        asked["known"] = replace(known, zeros=StructuralZeros((((0, (3,)), (1, (3,))),)))
    elif change == "seconds":
        asked["seconds"] = 6.0
    elif change == "cells":
        asked["cells"] = cells[::-1]
    elif change == "code":
        monkeypatch.setattr(bounded, "code_digest", lambda: "other")
    else:
        copy = tmp_path / "run"
        shutil.copytree(proven.folder.path, copy)
        manifest = json.loads((copy / "manifest.json").read_text())
        manifest["stages"][3]["output"] = "other"
        (copy / "manifest.json").write_text(json.dumps(manifest))
        asked["subject"] = replace(subject, name=str(copy))
    after = bounded.kept_parts(**asked)
    assert before is not None
    assert after is not None
    assert before.of != after.of


# What is refused


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"assessment": "shrap"}, r"assessment = 'shrap'.*'proven' or 'sharp'"),
        ({"sharp_seconds": 0}, "sharp_seconds"),
        ({"sharp_seconds": -1.0}, "sharp_seconds"),
        ({"sharp_seconds": float("nan")}, "sharp_seconds"),
        ({"assessment": "proven"}, "sharp_seconds is given, and assessment is not sharp; set it to sharp, or leave it"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(sections: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        open_build(config(tmp_path, **sections))
    assert not (tmp_path / "runs").exists()


def narrow(found: Any) -> Any:
    """Outer ends of one cell at its count."""
    judgement, bounds, by = found
    outer, inner = bounds.outer.copy(), bounds.inner.copy()
    outer[0] = inner[0] = bounds.counts[0]
    bounds = CellBounds(bounds.cells, bounds.counts, outer, inner, bounds.method)
    return judgement.criteria.rejudged(judgement, bounds, judgement.bank), bounds, by


@pytest.mark.parametrize("policy", ["refuse", "outer"])
def test_a_cell_that_sharp_bounds_prove_narrow_stops_the_release(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Inquiry.sharpen
    monkeypatch.setattr(Inquiry, "sharpen", lambda self, *args, **more: narrow(original(self, *args, **more)))
    risk = {"min_width": WIDTH, "small_count": 1, "undecided": policy}
    build = open_build(config(tmp_path, risk=risk, sharp_seconds=1.0))
    with pytest.raises(NotReleasableError, match=r"is refuted: by sharp bounds 1 of \d+ at-risk cells are too") as told:
        run_all(build, IN_PROCESS)
    assert status_of(told.value) == NOT_RELEASABLE
    assert not build.folder.stage("release").exists()
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert "Not releasable: an at-risk cell is too narrow" in page
    (detail,) = build.folder.path.glob("refused-*.txt")
    assert all(f"{name}={name.lower()}" in detail.read_text() for name in "ABCDE")
