"""A config is read whole or refused with one message: the key, its value, what is allowed."""

import json
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from sdc.config.build import BuildConfig, section_digest
from sdc.config.file import read_config
from sdc.stages.build import open_build

SMALLEST = """
name: small
table: {path: t.csv}
risk: {min_width: 3}
"""


def config_of(file: Path, text: str) -> BuildConfig:
    file.write_text(text, encoding="utf-8")
    return read_config(file)


def test_defaults(file: Path) -> None:
    """Those that decide what is released and where; all of them are in the reference of the handbook."""
    config = config_of(file, SMALLEST)
    assert config.table.path == str(file.parent / "t.csv")
    assert (config.table.invalid_records, config.table.max_categories) == ("refuse", 256)
    assert config.risk.model_dump(exclude={"min_width"}) == {
        "small_count": 2,
        "accept_undecided": False,
        **dict.fromkeys(("min_frequency", "attribute_disclosure", "posterior")),
    }
    assert (config.assessment, config.release.method, config.release.on_conflict) == ("sharp", "ordered", "refuse")
    assert (config.publication.formulas, config.publication.formats) == ("quote", ("csv", "parquet"))
    assert config.execution.model_dump() == {"cluster": "local", "workers": 2, "memory_per_worker": "auto"}
    assert (config.output.folder, config.output.upload) == ("runs", None)


def test_a_config_is_frozen(file: Path) -> None:
    config = config_of(file, SMALLEST)
    with pytest.raises(ValidationError, match="frozen"):
        config.risk.min_width = 0


@pytest.mark.parametrize("written", ["2024-05-01", "'2024-05-01'"])
def test_a_day_is_one_however_yaml_reads_it(written: str, file: Path) -> None:
    config = config_of(file, f"{SMALLEST}\npublication: {{published: {written}}}\n")
    assert config.publication.published == "2024-05-01"
    assert BuildConfig.model_validate(config.model_dump(mode="json")) == config


def test_paths_are_relative_to_the_file(file: Path) -> None:
    for name in ("slurm.yaml", "zeros.yaml"):
        (file.parent / name).touch()
    text = SMALLEST.replace("t.csv", "../t, structural_zeros: zeros.yaml")
    config = config_of(file, f"{text}execution: {{cluster: slurm.yaml}}\noutput: {{folder: /scratch/runs}}\n")
    assert config.table.path == str(file.parent.parent / "t")
    assert config.table.structural_zeros == str(file.parent / "zeros.yaml")
    assert (config.execution.cluster, config.output.folder) == (str(file.parent / "slurm.yaml"), "/scratch/runs")


def test_data_overrides_the_path(file: Path) -> None:
    file.write_text(SMALLEST)
    assert open_build(file, Path("/data/other.parquet")).config.table.path == "/data/other.parquet"
    file.write_text("name: a\ntable: {}\nrisk: {min_width: 1}")
    assert open_build(file, Path("here.csv")).config.table.path == str(Path.cwd() / "here.csv")


@pytest.mark.parametrize("url", ["s3://bucket/parts/", "memory://t.csv", "http://127.0.0.1:1/t.parquet"])
def test_a_url_stays_as_it_is(file: Path, url: str) -> None:
    assert config_of(file, SMALLEST.replace("t.csv", url)).table.path == url
    assert open_build(file, url + "x").config.table.path == url + "x"


def test_section_digest_follows_the_settings_named(file: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    config = config_of(file, SMALLEST)
    digest = section_digest(config, "table", "risk")
    assert len(digest) == 64
    assert section_digest(config, "risk", "table") == digest != section_digest(config, "risk")
    elsewhere = config_of(tmp_path_factory.mktemp("other") / "b.yaml", SMALLEST + "widths: {threshold: 2}")
    assert section_digest(elsewhere, "table", "risk") == digest
    assert section_digest(elsewhere, "widths") != section_digest(config, "widths")
    (file.parent / "zeros.yaml").touch()
    assert section_digest(config_of(file, SMALLEST.replace("t.csv", "t, structural_zeros: zeros.yaml")), "table") == (
        section_digest(config, "table")
    )
    changed = config_of(file, SMALLEST.replace("min_width: 3", "min_width: 4"))
    assert section_digest(changed, "table", "risk") != digest
    written_out = config_of(file, SMALLEST + "release: {method: ordered}\nassessment: sharp\n")
    assert written_out == config
    told = {
        section_digest(config, *of, defaults=False) for of in (("release",), ("assessment",), ("release", "widths"))
    }
    assert len(told) == 1  # a setting that a later version has besides, left to its default, changes nothing
    with pytest.raises(ValueError, match=r"no section \['riks'\]; a config has name, table"):
        section_digest(config, "riks")


SERVED = """
server:
  rules: [{rule: one_step}, {rule: limit_unreleasable, share: 0.1}, {rule: value, least: 2.0}, {rule: batch},
          {rule: share, most: 0.5}, {rule: one_step_frontier}]
  users: [{name: ada}, {name: root, role: operator, days: 30}]
"""


def test_a_server(file: Path) -> None:
    config = config_of(file, SMALLEST + SERVED)
    assert config.server is not None
    assert [rule.rule for rule in config.server.rules] == [
        "one_step",
        "limit_unreleasable",
        "value",
        "batch",
        "share",
        "one_step_frontier",
    ]
    assert not config.server.is_public
    assert config_of(file, SMALLEST + "server: {}").server.is_public  # type: ignore[union-attr]
    digests = {section_digest(config_of(file, text), "table", "risk") for text in (SMALLEST, SMALLEST + SERVED)}
    assert len(digests) == 1


def test_integers_are_categories(file: Path) -> None:
    table = (
        "{path: t.csv, categories: {a: [1, 2, -3]}, missing: {a: 9}, "
        "recodes: {b: {groups: {1: [10, 2], 2: '*'}}, c: {bins: {0: [null, 15], 15: [15, null]}}}}"
    )
    labels = "{variables: {a: {categories: {1: one, '2': two}}}}"
    config = config_of(file, SMALLEST.replace("{path: t.csv}", table) + f"labels: {labels}\n")
    assert (config.table.categories, config.table.missing) == ({"a": ("1", "2", "-3")}, {"a": "9"})
    assert config.table.recodes["b"].groups == {"1": ("10", "2"), "2": ("*",)}
    assert list(config.table.recodes["c"].bins or ()) == ["0", "15"]
    assert config.labels.labels.category("a", "1") == "one"
    assert config_of(file, SMALLEST + "widths: {threshold: 010}\n").widths.threshold == 8  # of other settings as ever


def test_one_encoding_has_one_name(file: Path) -> None:
    written = [config_of(file, SMALLEST.replace("t.csv", f"t.csv, csv: {{encoding: {e}}}")) for e in ("latin1", "L1")]
    assert written[0] == written[1]


EXAMPLES = [path for path in sorted((Path(__file__).parents[3] / "configs").glob("*.yaml")) if path.stem != "schedule"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_config_comes_back_from_a_manifest(path: Path) -> None:
    config = read_config(path)
    assert BuildConfig.model_validate(json.loads(json.dumps(config.model_dump(mode="json")))) == config


def test_recodes_and_constraints_come_back_from_a_manifest(tmp_path: Path) -> None:
    content = {
        "name": "whole",
        "table": {
            "path": "t.csv",
            "recodes": {"a": {"groups": {"x": ["1"], "y": "*"}}, "b": {"bins": {"l": [None, 1.0], "h": [1.0, None]}}},
        },
        "risk": {"min_width": 3},
        "release": {"require": [{"all": 2}, "a*b", {"of": ["a", "b"], "up_to": 1}], "forbid": [{"of": ["a", "c"]}]},
    }
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(content))
    config = read_config(tmp_path / "c.yaml")
    kept = json.loads(json.dumps(config.model_dump(mode="json"), sort_keys=True))
    again = BuildConfig.model_validate(kept)
    assert again == config
    assert list((again.table.recodes["b"].bins or {}).items()) == [("l", (None, 1.0)), ("h", (1.0, None))]


def test_the_order_of_groups_is_part_of_the_build(tmp_path: Path) -> None:
    """It is that of the categories."""
    digests = set()
    for groups in ('{x: ["1"], y: "*"}', '{y: "*", x: ["1"]}'):
        (tmp_path / "c.yaml").write_text(
            f"name: n\ntable: {{path: t.csv, recodes: {{a: {{groups: {groups}}}}}}}\nrisk: {{min_width: 3}}\n"
        )
        digests.add(section_digest(read_config(tmp_path / "c.yaml"), "table"))
    assert len(digests) == 2
