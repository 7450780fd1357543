"""A config is read whole or refused with one message: the key, its value, what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sdc.config import BuildConfig, read_config, section_digest
from sdc.model.errors import ConfigError
from sdc.risk.criterion import Budget
from sdc.storage.reading import read_table

CONFIGS = Path(__file__).parents[1] / "configs"

SMALLEST = """
name: small
table: {path: t.csv}
risk: {min_width: 3}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "build.yaml"


def config_of(file: Path, text: str) -> BuildConfig:
    file.write_text(text, encoding="utf-8")
    return read_config(file)


def test_defaults(file: Path) -> None:
    config = config_of(file, SMALLEST)
    assert config.model_dump() == {
        "name": "small",
        "table": {
            "path": str(file.parent / "t.csv"),
            "variables": None,
            "categories": {},
            "missing": {},
            "structural_zeros": None,
            "max_categories": 256,
            "partitions": 1,
        },
        "risk": {"min_width": 3, "small_count": 2, "undecided": "refuse"},
        "release": {
            "method": "ordered",
            "extend": True,
            "refute_cells": 16,
            "seconds_per_cell": Budget().seconds_per_cell,
            "seconds": Budget().seconds,
        },
        "widths": {"floor": None},
        "execution": {"cluster": "local", "workers": 2},
        "output": {"folder": "runs"},
    }


def test_every_setting(file: Path) -> None:
    for name in ("slurm.yaml", "zeros.yaml"):
        (file.parent / name).touch()
    config = config_of(
        file,
        """
        name: all.of-it_1
        table: {path: ../t, variables: [a, b], categories: {a: ["no", "yes"]}, missing: {b: unknown},
                structural_zeros: zeros.yaml, max_categories: 65536, partitions: 4}
        risk: {small_count: 3, min_width: 1, undecided: outer}
        release: {method: decomposable, extend: false, refute_cells: 0, seconds_per_cell: 2,
                  seconds: 0.5}
        widths: {floor: 5}
        execution: {cluster: slurm.yaml, workers: 64}
        output: {folder: /scratch/runs}
        """,
    )
    assert config.table.path == str(file.parent.parent / "t")
    assert config.table.structural_zeros == str(file.parent / "zeros.yaml")
    assert config.table.variables == ("a", "b")
    assert config.table.categories == {"a": ("no", "yes")}
    assert config.execution.cluster == str(file.parent / "slurm.yaml")
    assert (config.risk.undecided, config.release.extend, config.widths.floor) == ("outer", False, 5)
    assert (config.release.seconds_per_cell, config.release.seconds) == (2.0, 0.5)


def test_data_overrides_the_path(file: Path) -> None:
    file.write_text(SMALLEST)
    assert read_config(file, data=Path("/data/other.parquet")).table.path == "/data/other.parquet"
    file.write_text("name: a\ntable: {}\nrisk: {min_width: 1}")
    assert read_config(file, data=Path("here.csv")).table.path == str(Path.cwd() / "here.csv")


def test_a_config_is_frozen(file: Path) -> None:
    config = config_of(file, SMALLEST)
    with pytest.raises(ValidationError, match="frozen"):
        config.risk.min_width = 0


# Refusals


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("risk:", "riks:", "riks is an unknown key; did you mean risk\\? allowed: name, table, risk, release"),
        (
            "min_width",
            "min_widht",
            "risk.min_width is missing; add it .*risk.min_widht is an unknown key; did you mean",
        ),
        ("path: t.csv", "path: t.csv, zzz: 1", "table.zzz is an unknown key; allowed: path, variables"),
        ("min_width: 3", "min_width: 0", "risk.min_width = 0: should be greater than or equal to 1 .*at least 1"),
        ("min_width: 3", "min_width: '3'", "risk.min_width = '3': should be a valid integer"),
        ("min_width: 3", "min_width: 2.5", "risk.min_width = 2.5: should be a valid integer"),
        ("min_width: 3", "min_width: true", "risk.min_width = True: should be a valid integer"),
        ("min_width: 3", "min_width: 3, small_count: 0", "risk.small_count = 0"),
        ("min_width: 3", "min_width: 3, undecided: maybe", "risk.undecided = 'maybe': should be 'refuse' or 'outer'"),
        (
            "min_width: 3",
            "min_width: 3, undecided: release",
            "undecided = 'release': should be 'refuse' or 'outer'",
        ),
        ("path: t.csv", "path: ''", "table.path = '': String should have at least 1 character"),
        (
            "path: t.csv",
            "path: t, variables: a",
            "table.variables = 'a': should be a valid tuple .a list of the column",
        ),
        ("path: t.csv", "path: t, categories: {A: [no]}", "table.categories.A.0 = False: .* write no, yes and numbers"),
        ("path: t.csv", "path: t, missing: {A: 9}", "table.missing.A = 9: .*valid string .*in quotes"),
        (
            "path: t.csv",
            "path: t, structural_zeros: no.yaml",
            "build.yaml: table.structural_zeros = 'no.yaml': there is no file .*no.yaml",
        ),
        ("path: t.csv", "path: t, structural_zeros: [a]", "table.structural_zeros = .*string .a YAML file of imposs"),
        ("path: t.csv", "path: t, max_categories: 1", "table.max_categories = 1: .* from 2 to 65536"),
        ("path: t.csv", "path: t, max_categories: 65537", "table.max_categories = 65537: .* from 2 to 65536"),
        ("path: t.csv", "path: t, partitions: 0", "table.partitions = 0: .* at least 1"),
        ("{path: t.csv}", "t.csv", "table = 't.csv': .*a section with a path at least"),
        ("name: small", "name: ../up", r"name = '../up': .*letters, digits, dots, hyphens and underscores"),
        ("name: small", "name: 7", "name = 7: should be a valid string"),
        ("name: small", "1: small", "name is missing; add it .*1 = 1: Keys should be strings"),
        ("name: small", "name: small\nrelease: {method: best}", "release.method = 'best': should be 'ordered' or"),
        ("name: small", "name: small\nrelease: {extend: 1}", "release.extend = 1: .*true or false"),
        ("name: small", "name: small\nrelease: {refute_cells: -1}", "release.refute_cells = -1: .* equal to 0"),
        (
            "name: small",
            "name: small\nrelease: {seconds: 0}",
            "seconds = 0: should be greater than 0 .*more than 0",
        ),
        ("name: small", "name: small\nrelease: {seconds: -1}", "release.seconds = -1: should be greater than 0"),
        ("name: small", "name: small\nrelease: {seconds: .inf}", "release.seconds = inf: should be a finite number"),
        ("name: small", "name: small\nrelease: {seconds: true}", "release.seconds = True: should be a valid number"),
        ("name: small", "name: small\nrelease: {seconds_per_cell: 0}", "release.seconds_per_cell = 0: .*more than 0"),
        ("name: small", "name: small\nrelease: {seconds_per_cell: -2}", "release.seconds_per_cell = -2: .*more than 0"),
        (
            "name: small",
            "name: small\nrelease: {seconds_per_cell: '1'}",
            "seconds_per_cell = '1': should be a valid n",
        ),
        ("name: small", "name: small\nwidths: {floor: -1}", "widths.floor = -1"),
        ("name: small", "name: small\nexecution: {workers: 0}", "execution.workers = 0"),
        ("name: small", "name: small\nexecution: {cluster: in_process}", "cluster = 'in_process': it is neither of"),
        ("name: small", "name: small\nexecution: {cluster: no.yaml}", "cluster = 'no.yaml': there is no file /"),
        ("name: small", "name: small\noutput: {folder: }", "output.folder = None: should be a valid string"),
        ("name: small", "name: small\nname: small", "not valid YAML: line 3 gives 'name' a second time; correct it"),
        ("min_width: 3", "min_width: 3, min_width: 9", "line 4 gives 'min_width' a second time"),
        ("name: small", "name: [", "is not valid YAML: line 4, column 1: expected .*correct it there"),
        ("name: small", "name: !!python/name:os.system", "is not valid YAML: line 2, column 7: could not determine"),
        ("name: small", "a: !!map [b]", "is not valid YAML: line 2, column 4: expected a mapping"),
        ("name: small", "? [a]\n: b", "is not valid YAML: line 2, column 3: found unhashable key"),
    ],
)
def test_faults(file: Path, old: str, new: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        config_of(file, SMALLEST.replace(old, new))
    assert "build.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "build.yaml is empty, not a mapping; it has the keys name, table"),
        ("- name: a", "build.yaml is a list, not a mapping"),
        ("just words", "build.yaml is a str, not a mapping"),
    ],
)
def test_what_is_no_mapping(file: Path, text: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        config_of(file, text)


def test_files_that_cannot_be_read(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"build.yaml does not exist; give a YAML file"):
        read_config(file)
    with pytest.raises(ConfigError, match=r"cannot be read: .*Is a directory"):
        read_config(file.parent)
    file.write_bytes("name: é".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"cannot be read: .*give a YAML file in UTF-8"):
        read_config(file)


# Digests


def test_section_digest_follows_the_settings_named(file: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    config = config_of(file, SMALLEST)
    digest = section_digest(config, "table", "risk")
    assert len(digest) == 64
    assert section_digest(config, "risk", "table") == digest != section_digest(config, "risk")
    elsewhere = config_of(tmp_path_factory.mktemp("other") / "b.yaml", SMALLEST + "widths: {floor: 2}")
    assert section_digest(elsewhere, "table", "risk") == digest
    assert section_digest(elsewhere, "widths") != section_digest(config, "widths")
    (file.parent / "zeros.yaml").touch()
    assert section_digest(config_of(file, SMALLEST.replace("t.csv", "t, structural_zeros: zeros.yaml")), "table") == (
        section_digest(config, "table")
    )
    changed = config_of(file, SMALLEST.replace("min_width: 3", "min_width: 4"))
    assert section_digest(changed, "table", "risk") != digest
    with pytest.raises(ValueError, match=r"no section \['riks'\]; a config has name, table"):
        section_digest(config, "riks")


# The configs of the project


def test_czech_auto_workers() -> None:
    config = read_config(CONFIGS / "czech_auto_workers.yaml")
    table = read_table(config.table.path, categories=config.table.categories)
    assert (table.total, len(table.schema), len(table)) == (1841, 6, 63)
    assert (config.risk.small_count, config.risk.min_width) == (2, 6)
    assert table.schema.variables[3].categories == ("<140", ">=140")


def test_cps_13() -> None:
    config = read_config(CONFIGS / "cps_13.yaml")
    assert (config.name, config.risk.small_count, config.risk.min_width) == ("cps_13", 2, 10)
    assert Path(config.table.path).name == "cps13.parquet"
