"""What columns and config alone tell is refused before a record is read, in the words of later."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import sdc
from sdc.executor import IN_PROCESS
from sdc.model.errors import ConfigError, InputError, ReleaseError
from sdc.stages.build import open_build
from sdc.stages.resolved import ResolvedInput
from sdc.stages.stages import SEARCH, WIDTHS
from sdc.stages.table import check_before, check_names

TABLE = "region,area,age,sex,weight\nn,x,nobody,none,1\n"


def written(folder: Path, **sections: Any) -> Path:
    """A config of a table whose columns alone are right: whoever reads the record refuses it."""
    (folder / "t.csv").write_text(TABLE)
    table = {
        "path": "t.csv",
        "variables": ["region", "area", "age", "sex"],
        "categories": {"sex": ["f", "m"]},
        "missing": {"sex": "unknown"},
        "recodes": {"age": {"bins": {"young": [None, 40], "old": [40, None]}}},
        "hierarchies": {"place": ["region", "area"]},
        **sections.pop("table", {}),
    }
    file = folder / "build.yaml"
    file.write_text(yaml.safe_dump({"name": "early", "table": table, "risk": {"min_width": 3}, **sections}))
    return file


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"release": {"require": ["area*sexx"]}}, r"release.require, forbid and protect: require 'area\*sexx'"),
        ({"release": {"require": ["age,sex"]}}, r"require 'age,sex': .* joined by \*, so write age\*sex"),
        ({"release": {"forbid": [{"of": ["Area"]}]}}, r"forbid 'Area': .* did you mean area\?"),
        ({"release": {"protect": [{"of": "area*height"}]}}, r"protect 'area\*height': .*unknown variable 'height'"),
        ({"release": {"protect": [{"of": "age*sex", "by": "recoding", "merge": "area"}]}}, r"would recode age\*sex"),
        ({"release": {"require": ["age*sex"], "forbid": ["sex"]}}, r"require has age\*sex, and forbid sex"),
        ({"release": {"protect": [{"of": "area*age"}], "forbid": ["age"]}}, r"protect has area\*age, and forbid age"),
        (
            {"release": {"protect": [{"of": "area*age"}, {"of": "age*area"}]}},
            r"protect names area\*age in two sections",
        ),
        (
            {"uniques": {"fraction": 0.5, "model": "[age,sx]"}, "table": {"hierarchies": {}}},
            r"uniques.model = .*unknown variable 'sx'",
        ),
        ({"release": {"weights": {"variables": {"aeg": 2.0}}}}, "release.weights: weight of 'aeg': .*mean age"),
        ({"release": {"demand": {"aeg*sex": 2.0}}}, "release.demand: demand for 'aeg.*mean age"),
        (
            {"release": {"method": "best", "annealing": {"start": "[aeg,sex]"}}},
            "release.annealing.start = .*unknown variable 'aeg'",
        ),
        ({"labels": {"variables": {"sx": {"label": "Sex"}}}}, "labels: unknown variable 'sx'; did you mean sex"),
        ({"labels": {"variables": {"age": {"categories": {"aged": "Aged"}}}}}, "labels: the label 'Aged' is of the"),
        ({"posterior": {"laws": ["[age,sx]"]}, "table": {"hierarchies": {}}}, "posterior.laws = .*unknown variable"),
        (
            {"risk": {"min_width": 3, "attribute_disclosure": {"sensitive": ["sx"], "most": 5}}},
            "risk.attribute_.*sensitive:",
        ),
    ],
)
def test_what_the_table_will_not_have(sections: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        check_before(open_build(written(tmp_path, **sections)))


def test_earlier_totals_of_weights_are_refused_before_any_work(tmp_path: Path) -> None:
    """They tell of the counts too."""
    (tmp_path / "before.csv").write_text("sex,count,weighted_total\nf,2,500\nm,1,1000\n")
    message = "publishes totals of weights, which cannot be judged together with counts; publish what is still to go"
    with pytest.raises(InputError, match=message):
        check_before(open_build(written(tmp_path, earlier=[{"folder": "before.csv"}])))


def test_a_stage_says_how_long_it_took_before(tmp_path: Path) -> None:
    build = open_build(written(tmp_path))
    assert SEARCH.announced(build) == "search: finds a release"
    vars(build)["seconds_before"] = {"search": 31.7, "widths": 9.9}
    assert SEARCH.announced(build) == "search: finds a release, 32 s in the last finished run"
    assert WIDTHS.announced(build) == "widths: critical widths of the sub-tables"


def test_levels_that_are_no_variables(tmp_path: Path) -> None:
    table = {"hierarchies": {"place": ["region", "aera"]}}
    with pytest.raises(InputError, match=r"hierarchy 'place' names 'aera', which is not a .*; did you mean area"):
        check_before(open_build(written(tmp_path, table=table)))


def test_what_only_the_records_tell_is_left_to_them(tmp_path: Path) -> None:
    """Labels of categories that the settings do not list, those of missing values, weights of cells, all variables."""
    (tmp_path / "costs.csv").write_text("area,sex,weight\nx,f,3\n")
    sections: dict[str, Any] = {
        "labels": {"variables": {"area": {"categories": {"x": "X"}}, "sex": {"categories": {"unknown": "Not known"}}}},
        "release": {
            "require": ["all:2", "region*sex"],
            "protect": [{"of": "area*sex", "cost": {"weights": "costs.csv"}}],
            "forbid": ["region*age"],
        },
    }
    build = open_build(written(tmp_path, **sections))
    with pytest.raises(ConfigError, match=r"require has region\*age, and forbid region\*age"):
        check_before(build)
    sections["release"]["require"] = ["region*sex"]
    build = open_build(written(tmp_path, **sections))
    check_before(build)
    with pytest.raises(InputError, match="invalid records"):
        build.counted(IN_PROCESS)


@pytest.mark.parametrize("kind", ["a table", "a config"])
def test_what_a_command_names_is_looked_for_first(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, table={"hierarchies": {}})
    path = str(file if kind == "a config" else tmp_path / "t.csv")
    monkeypatch.setattr("sdc.stages.build.count_records", lambda *_, **__: pytest.fail("records were read"))
    for option, text, told in (
        ("--release", "area*sx", r"--release 'area\*sx': .* did you mean sex\?"),
        ("SUB_TABLE", "area,sex", r"SUB_TABLE 'area,sex': .* so write area\*sex"),
    ):
        with pytest.raises(InputError, match=told):
            ResolvedInput.open(path, named={option: [text], "--forbid": None})
    with pytest.raises(InputError, match=r"release\.require 'all:9' matches nothing"):
        ResolvedInput.open(path, {"release.require": ["all:9"]})
    with pytest.raises(ConfigError, match=r"^table\.variables\.1 = ''"):
        ResolvedInput.open(str(tmp_path / "t.csv"), {"table.variables": ["area", ""]}, named={"--release": ["area"]})


QUOTED, FORMULA = 'status,region\n"5"" pipe",x\nb,y\n', "status,region\n=b,x\nc,y\n"
NAMES = "".join(f"{k},{k},{k}\n" for k in range(110))


@pytest.mark.parametrize(
    ("text", "sections", "message"),
    [
        (QUOTED, {"publication": {"formats": ["csv", "px"]}}, "variable 'status' has a text with a quotation mark"),
        (FORMULA, {"publication": {"formulas": "refuse"}}, "would run 1 category of 'status' as formulas"),
        ("a\n_x000D_\nx\n", {"publication": {"formats": ["csv", "xlsx"]}}, "a text that Excel reads as an escape"),
        (
            "a,b,c\n" + NAMES,
            {"publication": {"formats": ["csv", "xlsx"], "zeros": True}, "release": {"require": ["a*b*c"]}},
            r"a\*b\*c has 1331000 cells, and a sheet of Excel",
        ),
    ],
)
def test_what_a_format_cannot_carry_is_known_before_any_search(
    tmp_path: Path, text: str, sections: dict[str, Any], message: str
) -> None:
    (tmp_path / "t.csv").write_text(text)
    file = tmp_path / "build.yaml"
    file.write_text(yaml.safe_dump({"name": "f", "table": {"path": "t.csv"}, "risk": {"min_width": 1}, **sections}))
    build = open_build(file)
    table, known, origin = build.with_earlier(build.counted(IN_PROCESS))
    with pytest.raises(ReleaseError, match=message):
        check_names(replace(build, given=origin), known, table)


def test_a_format_need_not_carry_what_is_forbidden(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(QUOTED)
    file = tmp_path / "build.yaml"
    release = {"forbid": ["status"]}
    content = {"name": "f", "table": {"path": "t.csv"}, "risk": {"min_width": 1}, "release": release}
    file.write_text(yaml.safe_dump({**content, "publication": {"formats": ["csv", "px"]}}))
    build = open_build(file)
    table, known, origin = build.with_earlier(build.counted(IN_PROCESS))
    check_names(replace(build, given=origin), known, table)


def test_a_table_below_a_level_is_not_rounded(tmp_path: Path) -> None:
    """For region has 8 of sex f where its districts, each 2 or 3, could all become 0 or 5."""
    rows = [f"d{k},r{k // 4},{sex},{2 + k // 4}" for k in range(8) for sex in "fm"]
    (tmp_path / "t.csv").write_text("district,region,sex,count\n" + "\n".join(rows) + "\n")
    levels = {"path": "t.csv", "hierarchies": {"geo": ["region", "district"]}}
    message = r"district\*sex is not rounded, for its sums by region could be far from the true ones"
    table = sdc.read_table(tmp_path / "t.csv", hierarchies=levels["hierarchies"])
    with pytest.raises(InputError, match=message):
        sdc.round(table, base=5)
    assert sdc.round(table.marginal(0b110), base=5).counts.max() == 10
    file = tmp_path / "build.yaml"
    for of, way in (
        ("district*sex", {"by": "rounding"}),
        ("district*sex", {"by": ["suppression", "rounding"]}),
        ("sex", {}),
    ):
        parts = {"protect": [{"of": of, "base": 5, **({"by": "rounding"} | way)}]}
        content = {"name": "r", "table": levels, "risk": {"min_width": 1}, "release": parts}
        file.write_text(yaml.safe_dump({**content, "execution": {"cluster": "in-process"}}))
        build = open_build(file)
        counted, known, origin = build.with_earlier(build.counted(IN_PROCESS))
        if of == "sex":
            check_names(replace(build, given=origin), known, counted)
            continue
        with pytest.raises(ConfigError, match=message):
            check_names(replace(build, given=origin), known, counted)
