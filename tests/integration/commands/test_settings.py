"""Settings beside a file: --set and options that people use, checked as in a config; names of an earlier version."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from sdc.commands.options import modern
from sdc.config.build import BuildConfig
from sdc.config.file import read_config
from sdc.config.given import settings_of
from sdc.model.errors import ConfigError
from sdc.stages.build import open_build
from sdc.stages.resolved import ResolvedInput
from sdc.storage.runs import run_at
from tests.helpers.builds import CZECH_YAML, built, write_czech
from tests.helpers.commands import CZECH, RELEASE, Sdc


def test_a_setting_is_the_same_in_every_place(sdc: Sdc, tmp_path: Path) -> None:
    config = write_czech(tmp_path, release={"method": "bisection"}, risk={"min_width": 9})
    by_file = sdc("release", config, "--workers", 1, "--json").document
    alone = sdc("release", CZECH, "--method", "bisection", "--min-width", 9, "--json").document
    sets = ["--set", "release.method=bisection", "--set", "risk={min_width: 9}"]
    assert sdc("release", CZECH, *sets, "--json").document == alone == by_file
    assert sdc("release", CZECH_YAML, *sets, "--workers", 1, "--json").document == by_file


def test_a_config_shows_what_is_set(sdc: Sdc) -> None:
    shown = sdc("config", CZECH_YAML, "--set", "release.annealing.steps=7", "--set", "release.method=best", "--json")
    assert BuildConfig.model_validate(shown.document).release.annealing.steps == 7
    assert shown.document["release"]["method"] == "best"
    assert json.loads(sdc("config", "--schema").out)["properties"].keys() == BuildConfig.model_fields.keys()


NO_SETTINGS = [
    ("release.mehtod=best", r"^sdc: release\.mehtod is an unknown key; did you mean method\?"),
    ("min_width=3", r"^sdc: min_width is not a key of the config; did you mean .*risk\.min_width"),
    ("release.method=bets", r"^sdc: release\.method = 'bets': should be 'ordered', .* \(how the release is searched"),
    ("risk.min_width=0", r"^sdc: risk\.min_width = 0: should be greater than or equal to 1 \(the smallest width"),
    ("release.method", r"^sdc: --set release\.method: give a key and a value, such as release\.method=bisection"),
    ("risk.min_width.x=1", r"risk\.min_width\.x cannot be set: risk\.min_width = \d+ is not a section; set"),
    ("table.variables=[A", r"^sdc: --set table\.variables=\[A: line 1, .*; write a value as in a config"),
]


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        *(("release", *row) for row in NO_SETTINGS),
        *(
            (name, *NO_SETTINGS[0])
            for name in ["run", "plan", "sweep", "config", "serve", "assess", "bounds", "widths"]
        ),
    ],
)
def test_a_setting_that_is_none_is_one_message(command: str, words: str, message: str, sdc: Sdc) -> None:
    sdc(command, CZECH_YAML, "--set", words).assert_refused(message)


@pytest.mark.parametrize("words", [["risk.min_width=5"], ["risk={min_width: 3}", "risk.small_count=1"]])
def test_a_setting_that_is_given_in_two_ways_is_refused(words: list[str], sdc: Sdc) -> None:
    """Neither is skipped; of one way the later counts."""
    both = [word for given in words for word in ("--set", given)]
    sdc("assess", CZECH_YAML, "--min-width", 4, *both).assert_refused(
        r"^sdc: risk\.min_width is given both by --set and"
    )
    with pytest.raises(ConfigError, match=r"table\.path is given both by --set and by its own option or argument"):
        open_build(CZECH_YAML, data=str(CZECH), settings={"table.path": str(CZECH)})


def test_what_is_at_fault_in_a_file_names_the_file(sdc: Sdc, tmp_path: Path) -> None:
    config = write_czech(tmp_path, release={"method": "bets"})
    sdc("widths", config, "--set", "risk.min_width=3").assert_refused(rf"^sdc: {config}: release\.method = 'bets'")
    assert read_config(config, {"release.method": "best"}).release.method == "best"


def test_a_setting_of_another_method_is_refused_where_it_is_given(sdc: Sdc, tmp_path: Path) -> None:
    annealed = write_czech(tmp_path, release={"method": "decomposable", "annealing": {"steps": 50}})
    assert ResolvedInput.open(str(annealed), {"release.method": "ordered"}).method == "ordered"
    words = ["--set", "release.method=ordered", "--set", "release.annealing.steps=9"]
    sdc("release", annealed, *words).assert_refused(
        "release.method = ordered with annealing: the method does not use it"
    )
    sdc("release", CZECH, "--min-width", 6, *words).assert_refused("ordered with annealing: the method does not use it")


def test_another_setting_is_another_build(tmp_path: Path) -> None:
    config = write_czech(tmp_path)
    first, other = open_build(config), open_build(config, settings={"risk.min_width": 7})
    assert first.folder.path != other.folder.path
    assert open_build(config, settings={"risk.min_width": first.config.risk.min_width}).folder.path == first.folder.path


def test_runs_of_a_name_mean_the_last_that_finished(sdc: Sdc, tmp_path: Path) -> None:
    config = write_czech(tmp_path, output={"folder": str(tmp_path / "runs")})
    first = built(config).folder.path
    assert run_at(first.parent) == run_at(first) == first
    (first.parent / "unfinished").mkdir()
    (first.parent / "unfinished" / "manifest.json").write_text("{}")
    assert sdc("status", first.parent, "--json").document["digest"] == first.name
    assert sdc("verify", first.parent, "--json").document["run_folder"] == str(first)
    assert sdc("why", first.parent, "A*B", "--json").document["released"] is True
    assert sdc("compare", first.parent, first).out.endswith("nothing differs\n")
    sdc("assess", first.parent, "--set", "table.variables=[A, B]").assert_refused(
        "whose table is made; leave out table"
    )
    sdc("status", tmp_path / "runs").assert_refused(r"is not a run folder: .* such as ")


def test_a_build_is_verified_with_what_was_set(sdc: Sdc, tmp_path: Path) -> None:
    config = write_czech(tmp_path, output={"folder": str(tmp_path / "runs")})
    run = built(config).folder.path
    assert sdc("verify", run, "--config", config).status == 0
    other = sdc("verify", run, "--config", config, "--set", "risk.min_width=7")
    assert other.status == 1
    assert "has another risk (min_width) than" in other.err
    sdc("verify", run, "--set", "risk.min_width=7").assert_refused("--set changes the config of a build")


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("release t.csv --chains 2 --steps=30", {"release.annealing.chains": 2, "release.annealing.steps": 30}),
        ("release t.csv --seed 3", {"release.annealing.seed": 3, "release.simulatable.seed": 3}),
        ("release t.csv --require A*B --require C", {"release.require": ["A*B", "C"]}),
        ("release t.csv --start [A,B][B,C]", {"release.annealing.start": "[A,B][B,C]"}),
        (
            "release t.csv --weight A=2 --weight A*B=3",
            {"release.weights.variables.A": 2, "release.weights.sub_tables.A*B": 3},
        ),
        ("release t.csv --best-subset --only-required", {"release.on_conflict": "drop", "release.required_only": True}),
        (
            "assess t.csv --loss none=0.1 --loss harm=1",
            {"risk.posterior.losses.intruder.none": 0.1, "risk.posterior.losses.agency.wrong": 1},
        ),
        ("posterior t.csv --most-draws 9 --threshold 0.5", {"posterior.most_draws": 9, "posterior.threshold": 0.5}),
        ("widths t.csv --structural-zeros z.yaml", {"table.structural_zeros": "z.yaml"}),
        ("audit h --n-rule 5", {"risk.min_frequency": 5}),
        ("check f --n-rule 5", {}),
    ],
)
def test_options_of_an_earlier_version(
    words: str, settings: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    found = modern(words.split())
    assert settings_of(value for option, value in pairwise(found) if option == "--set") == settings
    assert all("--set" in line for line in capsys.readouterr().err.splitlines())
    rest = [word for number, word in enumerate(found) if "--set" not in found[max(0, number - 1) : number + 1]]
    assert rest == (words.split() if not settings else words.split()[:2])


def test_an_earlier_name_is_warned_of(sdc: Sdc) -> None:
    answer = sdc("assess", CZECH, *RELEASE, "--min-width", 6, "--n-rule", 2)
    assert "--n-rule is deprecated; write --set risk.min_frequency=2" in answer.err
    assert answer.out == sdc("assess", CZECH, *RELEASE, "--min-width", 6, "--set", "risk.min_frequency=2").out
