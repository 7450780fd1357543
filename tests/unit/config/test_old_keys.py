"""Old keys are accepted with a warning, mean what the new ones mean, and leave digests and stage keys as they were."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

import sdc
from sdc.canonical import digest_of
from sdc.config.build import BuildConfig, section_digest
from sdc.config.file import read_config, with_settings
from sdc.config.given import settings_of
from sdc.config.old_keys import OLD_KEYS, OldKeyWarning, current_key
from sdc.config.reference import explained
from sdc.data.reading import read_table
from sdc.model.errors import ConfigError, InputError
from sdc.stages.build import Build
from sdc.stages.stages import OPTIONAL, STAGES

SMALLEST: dict[str, Any] = {"name": "small", "table": {"path": "t.csv"}, "risk": {"min_width": 3}}
REQUIRED: dict[str, Any] = {"release.require": ["a*b"]}
PART = {"release.protect": [{"of": "a*b"}]}
BEFORE = yaml.safe_load((Path(__file__).parent / "old_keys.yaml").read_text())
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "table.bad_records": ({"table.bad_records": "set_aside"}, {"table.invalid_records": "exclude"}, {}),
    "risk.undecided": ({"risk.undecided": "outer"}, {"risk.accept_undecided": True}, {}),
    "risk.n_rule": ({"risk.n_rule": 5}, {"risk.min_frequency": 5}, {}),
    "risk.attributes": (
        {"risk.attributes": {"sensitive": ["a"], "most": 3}},
        {"risk.attribute_disclosure": {"sensitive": ["a"], "most": 3}},
        {},
    ),
    "release.only": ({"release.only": "required"}, {"release.required_only": True}, REQUIRED),
    "release.conflicts": ({"release.conflicts": "best_subset"}, {"release.on_conflict": "drop"}, REQUIRED),
    "release.like": ({"release.like": "b.csv"}, {"release.previous_pattern": "b.csv"}, PART),
    "release.in_part": ({"release.in_part": "withhold"}, {"release.protect": "suppression"}, REQUIRED),
    "release.protect.how": (
        {"release.protect": [{"of": "a*b", "how": ["withhold", "coarsen", "round"], "base": 5}]},
        {"release.protect": [{"of": "a*b", "by": ["suppression", "recoding", "rounding"], "base": 5}]},
        {},
    ),
    "release.protect.most": (
        {"release.protect": [{"of": "a*b", "most": 0.5}]},
        {"release.protect": [{"of": "a*b", "max_share": 0.5}]},
        {},
    ),
    "release.breadth": ({"release.breadth": 1}, {"release.first_dimension": 1}, {}),
    "release.questions": ({"release.questions": 9}, {"release.max_evaluations": 9}, {}),
    "server.rules.rule": (
        {"server.rules": [{"rule": "biased", "most": 3}]},
        {"server.rules": [{"rule": "limit_unreleasable", "most": 3}]},
        {},
    ),
    "widths.floor": ({"widths.floor": 3}, {"widths.threshold": 3}, {}),
}
"""By old key a setting with it, the same of today, and what must be given beside it."""


def read(path: Path, content: dict[str, Any], settings: dict[str, Any]) -> BuildConfig:
    path.write_text(yaml.safe_dump(content))
    return read_config(path, settings_of(f"{key}={json.dumps(value)}" for key, value in settings.items()))


def placed(setting: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """The content of a file with a setting at its key."""
    ((key, value),) = setting.items()
    section, _, name = key.partition(".")
    return {**content, section: {**content.get(section, {}), name: value}}


def test_every_old_key_has_a_case() -> None:
    assert [*CASES] == [*OLD_KEYS]


@pytest.mark.parametrize("old", CASES)
def test_an_old_key_means_what_the_new_one_means(old: str, file: Path) -> None:
    before, now, beside = CASES[old]
    said, content = f"{old}.*goes with the next version; write {current_key(old)}", with_settings(SMALLEST, beside)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = read(file, placed(now, content), {})
        assert BuildConfig.model_validate(asked.recorded()) == asked  # nobody can change a manifest
    with pytest.warns(FutureWarning, match=f"build.yaml: {said}"):
        assert read(file, placed(before, content), {}) == asked
    with pytest.warns(FutureWarning, match=f"^{said}"):
        assert read(file, content, before) == asked
    with pytest.warns(FutureWarning, match=said):  # what is set replaces what the file has, whatever both are called
        assert read(file, placed(before, content), now) == asked
    assert explained(old) == explained(current_key(old))


@pytest.mark.parametrize("old", [old for old, (before, now, _) in CASES.items() if [*before] != [*now]])
def test_an_old_and_a_new_key_together_are_refused(old: str, file: Path) -> None:
    before, now, beside = CASES[old]
    refused, content = (
        f"{old} is the old name of {current_key(old)}, and both are given",
        with_settings(SMALLEST, beside),
    )
    with pytest.raises(ConfigError, match=refused):
        read(file, placed(before, placed(now, content)), {})
    for settings in (before | now, now | before):
        with pytest.raises(ConfigError, match=refused):
            read(file, content, settings)


def test_both_in_one_section_of_a_list_are_refused(file: Path) -> None:
    section = {"of": "a*b", "how": "withhold", "by": "suppression"}
    with pytest.raises(ConfigError, match=r"release\.protect\.how is the old name of release\.protect\.by, and both"):
        read(file, SMALLEST, {"release.protect": [section]})


def test_a_value_that_an_old_key_did_not_have_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"table\.bad_records = exclude: the key is now invalid_records; write"):
        read(file, SMALLEST, {"table.bad_records": "exclude"})


def test_an_unknown_key_has_the_nearest(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"widths\.thresold is an unknown key; did you mean threshold"):
        read(file, SMALLEST, {"widths.thresold": 3})


def test_python_takes_old_keywords_of_criteria_and_searches(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,count\nx,p,5\nx,q,9\ny,p,7\ny,q,8\n")
    table = sdc.read_table(tmp_path / "t.csv")
    with pytest.warns(FutureWarning, match="^risk.n_rule: 3 goes with the next version; write risk.min_frequency: 3"):
        assert sdc.criteria(min_width=2, n_rule=3) == sdc.criteria(min_width=2, min_frequency=3)
    with pytest.warns(FutureWarning) as heard:
        old = sdc.find_release(table, "ordered", min_width=2, n_rule=3, require=["a"], only="required", questions=4)
    assert len(heard) == 3
    new = {"min_frequency": 3, "require": ["a"], "required_only": True, "max_evaluations": 4}
    assert old.frontier == sdc.find_release(table, "ordered", min_width=2, **new).frontier
    kept = {"min_width": 2, "require": ["a"]}
    with pytest.warns(FutureWarning, match="^best_subset goes with the next version; write on_conflict='drop'"):
        assert sdc.find_release(table, best_subset=True, **kept).sub_tables == 3
    with pytest.raises(InputError, match="best_subset is the old name of on_conflict, and both are given"):
        sdc.find_release(table, best_subset=True, on_conflict="drop", **kept)
    with pytest.raises(ConfigError, match=r"n_rule is the old name of risk\.min_frequency, and both are given"):
        sdc.criteria(min_width=2, n_rule=3, min_frequency=3)
    with pytest.raises(ConfigError, match=r"release\.questions is the old name of release\.max_evaluations, and both"):
        sdc.find_release(table, "ordered", min_width=2, questions=3, max_evaluations=3)
    with pytest.raises(InputError, match="max_evaluation is not a setting of a search; did you mean max_evaluations"):
        sdc.find_release(table, "ordered", min_width=2, max_evaluation=3)


def test_python_takes_old_keywords_of_tables(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\nx,1\n,2\n")
    with pytest.warns(OldKeyWarning, match="bad_records: set_aside goes with the next version"):
        assert read_table(tmp_path / "t.csv", bad_records="set_aside").total == 1


@pytest.mark.filterwarnings("ignore::sdc.config.old_keys.OldKeyWarning")
@pytest.mark.parametrize("name", BEFORE)
def test_digests_and_keys_of_stages_stay(name: str, file: Path) -> None:
    for path, content in ("t.csv", "a,b,c,w\nx,1,1,1\n"), ("before.csv", "a,count\nx,1\n"):
        (file.parent / path).write_text(content)
    case = BEFORE[name]
    build = Build(read(file, case["config"], {}))
    vars(build)["like"] = ()
    digests = {
        section: [section_digest(build.config, section, defaults=of)[:12] for of in (True, False)]
        for section in BuildConfig.model_fields
    }
    assert digests == case["digests"]
    assert {stage.name: digest_of(stage.sections(build))[:12] for stage in (*STAGES, *OPTIONAL)} == case["keys"]
