"""Bad input of each command is one message, and nothing is written."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from sdc.model.errors import SdcError
from sdc.refusal import status_of
from sdc.stages.build import open_build
from sdc.storage.run_folder import Manifest, RunFolder, folder_digest
from tests.helpers.bad_input import FAULTS, Fault
from tests.helpers.builds import CZECH_YAML, built
from tests.helpers.commands import CZECH, RELEASE, Sdc, tree

CASES = [
    pytest.param(fault, command, id=f"{fault.name or 'no name'}-{command}")
    for fault in FAULTS
    for command in fault.commands
    if command != "run"
]


@pytest.mark.parametrize(("fault", "command"), CASES)
def test_bad_input_is_one_message(fault: Fault, command: str, sdc: Sdc, tmp_path: Path) -> None:
    fault.write(tmp_path / "in")
    before = tree(tmp_path)
    sdc(*fault.words(command, tmp_path / "in")).assert_refused(fault.message)
    assert tree(tmp_path) == before


def assert_nothing_half_written(folder: Path) -> None:
    """No release, nothing unfinished; a stage that is there is whole and in the manifest."""
    left = tree(folder)
    assert not [name for name in left if "release" in Path(name).parts or name.endswith((".unfinished", ".tmp"))]
    for manifest in folder.rglob("manifest.json"):
        run = RunFolder(manifest.parent)
        stages = {path.name: folder_digest(path) for path in run.path.iterdir() if path.is_dir()}
        assert {name: record.output for name, record in run.records().items()} == stages


OF_BUILDS = [fault for fault in FAULTS if "run" in fault.commands]


@pytest.mark.parametrize("fault", OF_BUILDS, ids=lambda fault: fault.name or "no name")
def test_bad_input_of_a_build_is_one_message(fault: Fault, tmp_path: Path) -> None:
    """As `sdc run` has it; nothing is published, and stages that are there are whole."""
    fault.write(tmp_path / "in")
    with ExitStack() as held:
        if fault.name == "a second run":
            held.enter_context(open_build(tmp_path / "in" / "build.yaml").folder.locked())
        with pytest.raises(SdcError, match=fault.message) as refused:
            built(tmp_path / "in" / "build.yaml")
    assert status_of(refused.value) == fault.status
    assert_nothing_half_written(tmp_path / "in")


@pytest.mark.parametrize("path", ["a" * 3000, "a\0b", "a/" * 3000], ids=["long", "NUL", "deep"])
def test_every_path_is_looked_at_once(path: str, sdc: Sdc) -> None:
    for command in ("run", "plan", "verify", "status", "list", "clean", "audit", "simulate"):
        sdc(command, path).assert_refused(" is no path here: .*; name another$")
    sdc("widths", path).assert_refused(" is no path here: ")
    sdc("widths", CZECH, "--out", f"{path}.csv").assert_refused(" is no path here: ")
    sdc("release", CZECH, "--method", "ordered", "--min-width", 3, "--out", path).assert_refused(" is no path here: ")


def test_rules_are_refused_before_anything_starts(sdc: Sdc, tmp_path: Path) -> None:
    sdc("simulate", CZECH_YAML, "--rules", "two_step").assert_refused("'two_step' is not a rule; give names of myopic")
    sdc("simulate", CZECH_YAML, "--queries", tmp_path / "no").assert_refused("is none of uniform, popular, greedy")
    sdc("replay", "sqlite:///no", "--rules", "myopic").assert_refused("give --table with the server's config")
    assert sdc("simulate", CZECH_YAML, "--streams", 0).status == 2
    assert sdc("replay", "sqlite:///no").status == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nix.yaml"], r"config nix\.yaml does not exist; give a YAML file"),
        (["bounds", CZECH, "--release", "A*B", "--method", "guess"], r"unknown method 'guess'; choose one of auto, "),
        (
            ["widths", CZECH, "--structural-zeros", "nix.yaml"],
            r"table\.structural_zeros = 'nix\.yaml': there is no file",
        ),
        (["bounds", CZECH, *RELEASE, "--method", "decomposable"], r"decomposable"),
        *(
            (
                ["bounds", CZECH, "--release", "A*B", "--sharp", "--seconds", seconds],
                r"sharp_seconds = .*: should be .* in seconds of a reference core, more than 0",
            )
            for seconds in ("0", "-1", "nan", "inf")
        ),
        (["bounds", CZECH, "--release", "A*B", "--method", "nested", "--seconds", "5"], r"--seconds is for sharp"),
        (["bounds", CZECH, "--release", "A*B", "--seconds", "0.001"], r"0\.001 seconds, which ends within the"),
        (["bounds", CZECH, "--release", "A*B", "--sharp", "--method", "shuttle"], r"--sharp with --method shuttle:"),
        (["bounds", CZECH, "--release", "A*B", "--cells", "all", "--cells", "at-risk"], r"--cells is given 2 times:"),
        (["bounds", CZECH, *RELEASE, "--cells", "A=no", "--sharp"], r"--sharp is for integer counts of single cells;"),
        (["bounds", CZECH, *RELEASE, "--fractional", "--method", "shuttle"], r"--fractional with --method shuttle: "),
        (["widths", CZECH, "--variables", ""], r"variables\.0 = '': String should have at least 1 character"),
    ],
    ids=lambda value: " ".join(map(str, value[:1] + value[2:])) if isinstance(value, list) else "",
)
def test_bad_options_are_one_message(words: list[object], message: str, sdc: Sdc) -> None:
    sdc(*words, "--json").assert_refused(message)


def test_cleaning_says_first_what_would_go(sdc: Sdc, tmp_path: Path) -> None:
    for digest in "ab":
        folder = RunFolder(tmp_path / "runs" / "build" / digest)
        with folder.locked():
            folder.begin(Manifest("build", planned=("table",)))
    before = tree(tmp_path)
    assert sdc("clean", tmp_path / "runs", "--json").document["runs"] == []
    found = sdc("clean", tmp_path / "runs", "--unfinished", "--json").document
    assert (found["removed"], [run["digest"] for run in found["runs"]]) == (False, ["a", "b"])
    answer = sdc("clean", tmp_path / "runs", "--unfinished")
    assert answer.out.startswith("2 runs, 0.0 MB; --yes removes them")
    assert answer.err.splitlines()[0] == f"would remove {tmp_path}/runs/build/a: killed"
    assert tree(tmp_path) == before
    assert sdc("clean", tmp_path / "runs", "--unfinished", "--yes", "--json").document["removed"] is True
    assert tree(tmp_path) == {"runs", "runs/build"}


@pytest.mark.parametrize("words", [["status", "none"], ["list", "none"], ["clean", "none"]])
def test_run_folders_that_are_not_there(words: list[str], sdc: Sdc) -> None:
    sdc(*words).assert_refused(r"^sdc: none is not a (run )?folder")


def test_no_synthetic_tables_of_suppressed_ones(sdc: Sdc, tmp_path: Path) -> None:
    """Published by `sdc suppress`, and as it is otherwise read: a blank count."""
    lines = ["region,status,count", "north,married,12", "north,single,9", "north,widowed,1", "south,married,15"]
    lines += ["south,single,2", "south,widowed,8", "west,married,11", "west,single,14", "west,widowed,7", ""]
    (tmp_path / "small.csv").write_text("\n".join(lines))
    (tmp_path / "release").mkdir()
    out = tmp_path / "release" / "suppressed.csv"
    assert sdc("suppress", tmp_path / "small.csv", "region*status", "--min-width", "3", "--out", out).status == 0
    for more in ([], ["--json"]):
        answer = sdc("synthesize", tmp_path / "release", "--out", tmp_path / "synthetic", *more)
        answer.assert_refused(r"region\*status of .*suppressed\.csv is suppressed; .*; leave it out")
    assert not (tmp_path / "synthetic").exists()
