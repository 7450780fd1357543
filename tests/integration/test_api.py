"""The verbs for notebooks: names in, values out, and nothing but `sdc` to import."""

from __future__ import annotations

import base64
import html
import inspect
import pydoc
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
import yaml
from playwright.sync_api import sync_playwright

import sdc
from sdc.api import find_release, risk_utility_curve
from sdc.config.release import AnnealingConfig, ReleaseConfig
from sdc.executor import IN_PROCESS
from sdc.model.errors import (
    ConfigError,
    InputError,
    NotReleasableError,
    ReleaseError,
    RunFolderError,
    SdcError,
    UntoldError,
)
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.search.found import Found
from sdc.stages.build import open_build
from sdc.stages.built import Built
from sdc.stages.stages import run_all
from sdc.storage.documents import release_facts

CZECH_CSV = Path(__file__).parents[2] / "configs" / "czech_auto_workers.csv"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
VERBS = [
    "Attributes",
    "Losses",
    "PosteriorLimit",
    "Watch",
    "assess",
    "attack",
    "best_release",
    "bisection_release",
    "cell_bounds",
    "check",
    "compare",
    "controlled_rounding",
    "criteria",
    "critical_widths",
    "decomposable_models",
    "decomposable_release",
    "enumerate",
    "enumerate_tables",
    "explore",
    "find_release",
    "fit",
    "knowledge",
    "ledger",
    "magnitude_table",
    "ordered_release",
    "posterior",
    "publish_release",
    "read_incomplete",
    "read_table",
    "read_weights",
    "redesign",
    "release",
    "risk_utility_curve",
    "run",
    "sharp_bounds",
    "simulatable_release",
    "super_cell_bounds",
    "suppress",
    "uniques",
    "verify_run",
    "why",
    "widths",
]
FRONTIER = ["A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F"]
EMPTY_CELL = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_is_there_and_says_what_it_does(name: str) -> None:
    verb = getattr(sdc, name)
    assert callable(verb)
    assert inspect.getdoc(verb)


def test_the_verbs_are_all_there_is() -> None:
    assert sorted(sdc.__all__) == VERBS
    with pytest.raises(AttributeError, match="module 'sdc' has no attribute 'anneal'"):
        sdc.anneal  # noqa: B018


def test_importing_the_package_imports_no_library() -> None:
    code = "import sdc, sys; print(sorted({'numpy', 'numba', 'pyarrow', 'pydantic', 'dask'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_a_notebook_in_seven_lines() -> None:
    """The published figures of [KDSF] 5.2, through nothing but the verbs."""
    table = sdc.read_table(CZECH_CSV)
    assert sdc.critical_widths(table).of(0b001111 | 0b100000) == 3
    found = sdc.ordered_release(table, sdc.knowledge(table), min_width=6)
    assert found.sub_tables_with_total == 60
    assert sdc.assess(table, found, min_width=9).releasable is True
    assert sdc.cell_bounds(table, found).outer.tolist() == [[0, 10], [0, 9], [0, 9]]
    assert sdc.enumerate_tables(table, found).feasible_tables == 810


BY_CRITERIA: dict[str, tuple[Any, ...]] = {
    "assess": (FRONTIER,),
    "bisection_release": (NOTHING,),
    "decomposable_release": (NOTHING,),
    "find_release": (NOTHING, "ordered"),
    "ordered_release": (NOTHING,),
    "redesign": (FRONTIER, "A*B*C*D*F"),
    "suppress": (NOTHING, "A*B*C*D*F"),
    "why": (FRONTIER, "A*B*C*D*F"),
}
MORE: dict[str, dict[str, Any]] = {"decomposable_release": {"steps": 300, "chains": 1}, "redesign": {"merging": False}}


def test_criteria_are_taken_by_every_verb_that_judges() -> None:
    judging = {name for name in VERBS if "criteria" in inspect.signature(getattr(sdc, name)).parameters}
    assert judging == {*BY_CRITERIA, "best_release", "simulatable_release", "release"}


@pytest.mark.parametrize("verb", BY_CRITERIA)
def test_criteria_are_one_value_or_keywords(verb: str, czech: Table) -> None:
    ask, given = getattr(sdc, verb), {"min_width": 6, "small_count": 3}
    whole = ask(czech, *BY_CRITERIA[verb], sdc.criteria(**given), **MORE.get(verb, {}))
    one_by_one = ask(czech, *BY_CRITERIA[verb], **given, **MORE.get(verb, {}))
    assert whole.headline == one_by_one.headline
    assert whole.to_arrow() == one_by_one.to_arrow()
    more = MORE.get(verb, {})
    for words, message in (
        ({}, "nothing says how wide bounds must stay; give min_width, or what sdc.criteria gives"),
        ({"criteria": sdc.criteria(min_width=6), "n_rule": 3}, "criteria are given, and n_rule too; leave one out"),
        ({"criteria": 6}, "criteria of .* is of the type int; give criteria, which sdc.criteria gives"),
        ({"min_width": None}, "min_width of .* is of the type NoneType; give a whole number"),
    ):
        with pytest.raises(InputError, match=message):
            ask(czech, *BY_CRITERIA[verb], **words, **more)


@pytest.mark.parametrize("verb", ["assess", "ordered_release", "redesign", "suppress", "why"])
def test_a_criterion_that_there_is_not(verb: str, czech: Table) -> None:
    with pytest.raises(InputError, match=r"min_widht is no setting of criteria; did you mean min_width\? there are "):
        getattr(sdc, verb)(czech, *BY_CRITERIA[verb], min_widht=6)


@pytest.mark.parametrize(
    ("verb", "given", "message"),
    [
        ("redesign", {"posterior_limit": sdc.PosteriorLimit(max_above=0.5)}, "no recode is shown to help"),
        ("ordered_release", {"posterior_limit": sdc.PosteriorLimit(max_above=0.5)}, "no search may cut by a refusal"),
        ("suppress", {"n_rule": 3}, "it withholds what the small count says"),
        ("suppress", {"attributes": sdc.Attributes(("A",), 3)}, "it withholds what the small count says"),
    ],
)
def test_criteria_that_a_verb_does_not_take(verb: str, given: dict[str, Any], message: str, czech: Table) -> None:
    with pytest.raises(ConfigError, match=message):
        getattr(sdc, verb)(czech, *BY_CRITERIA[verb], min_width=6, **given)


def test_a_search_is_heard(czech: Table) -> None:
    heard = list[Any]()
    sdc.ordered_release(czech, NOTHING, min_width=6, watch=sdc.Watch(on_step=heard.append))
    assert {type(step).__name__ for step in heard} == {"SearchStep"}


def test_a_limit_on_what_is_likely(czech: Table) -> None:
    limit = sdc.PosteriorLimit(max_probability=0.02)
    found = sdc.decomposable_release(czech, NOTHING, min_width=6, steps=500, chains=1, posterior_limit=limit)
    assert found.assessment.likely is not None
    assert found.assessment.likely.highest <= 0.02
    assert sdc.assess(czech, found.release, min_width=6, posterior_limit=limit).releasable is True
    assert sdc.assess(czech, FRONTIER, min_width=6, posterior_limit=limit).releasable is False


def test_decisions_that_tell_nothing(czech: Table) -> None:
    found = sdc.simulatable_release(czech, NOTHING, min_width=6, draws=10)
    assert found.sub_tables == 39
    assert str(found.reason).startswith("Decisions that tell nothing of the table cost 20 sub-tables")


def test_a_release_is_given_by_names_or_as_a_release(czech: Table) -> None:
    by_names = sdc.cell_bounds(czech, FRONTIER)
    release = Release.of(sum(1 << czech.schema.index(v) for v in name.split("*")) for name in FRONTIER)
    assert sdc.cell_bounds(czech, release).outer.tolist() == by_names.outer.tolist()
    assert by_names.exact.all()


def test_what_is_impossible_is_given_with_what_is_public(czech: Table, tmp_path: Path) -> None:
    """195 of the 810 feasible tables have it, and they leave the first at-risk cell [0, 6] instead of [0, 10]."""
    (tmp_path / "zeros.yaml").write_text('- {A: yes, B: no, C: no, D: ">=140", E: ">=3", F: pos}')
    known = sdc.knowledge(czech, FRONTIER, structural_zeros=tmp_path / "zeros.yaml")
    assert known == sdc.knowledge(czech, FRONTIER, structural_zeros=EMPTY_CELL) != sdc.knowledge(czech, FRONTIER)
    assert sdc.cell_bounds(czech, known).outer.tolist() == [[0, 6], [0, 9], [0, 9]]
    assert sdc.enumerate_tables(czech, known).feasible_tables == 195
    assert sdc.assess(czech, known, min_width=7).releasable is False
    released = sdc.find_release(czech, sdc.knowledge(czech, structural_zeros=EMPTY_CELL), "ordered", min_width=7)
    assert not released.release.contains(known.release)
    with pytest.raises(InputError, match="structural zeros contradict the data: A = no and B = no"):
        sdc.knowledge(czech, structural_zeros=StructuralZeros((((0, (0,)), (1, (0,))),)))


def test_levels_of_one_variable_are_known_from_a_hierarchy() -> None:
    frame = pa.table({"major": ["m", "m", "n"], "detail": ["c", "d", "e"]})
    table = sdc.read_table(frame, hierarchies={"industry": ["major", "detail"]})
    known = sdc.knowledge(table, ["major"])
    assert (known.zeros, table.schema.names) == (StructuralZeros(()), ("major", "detail"))
    # of the one detail in the major group n the count is known, and of the two others their sum
    assert sdc.cell_bounds(table, known).outer.tolist() == [[0, 2], [0, 2], [1, 1]]
    with pytest.raises(InputError, match="major"):
        sdc.read_table(frame, hierarchies={"industry": ["detail", "major"]})


def test_a_search_goes_on_from_what_is_public(czech: Table) -> None:
    found = sdc.ordered_release(czech, ["A*B*C*F"], min_width=6)
    assert found.release.contains(Release.of([0b100111]))
    for verb in (sdc.decomposable_release, sdc.simulatable_release):
        with pytest.raises(ConfigError, match="not sought beside what was published before; choose ordered"):
            verb(czech, ["A*B*C*F"], min_width=6)
    best = sdc.best_release(czech, ["A*B*C*F"], min_width=6)
    assert best.release == found.release
    # a graph is found without what is public, and what of it is safe beside that is a candidate
    methods = [one.method for one in best.candidates]
    assert methods == ["bisection", "greedy search", "annealing", "annealing extended"]
    with pytest.raises(ConfigError, match="not sought beside what was published before"):
        sdc.risk_utility_curve(czech, ["A*B*C*F"], min_widths=[6])
    (point,) = sdc.risk_utility_curve(czech, ["A*B*C*F"], min_widths=[6], methods=["ordered"])
    assert point.sub_tables == found.release.sub_tables(czech.schema)


def test_knowledge_of_another_table_is_refused(czech: Table) -> None:
    other = Table.of(czech.schema, czech.codes, czech.counts + 2)
    with pytest.raises(
        ReleaseError, match=r"what is known is of \d+ records of A, .*; give what is known of this table"
    ):
        sdc.cell_bounds(czech, sdc.knowledge(other, FRONTIER))
    full = Table.of(czech.schema, np.array([[1, 0, 0, 1, 1, 1]]), np.array([czech.total]))
    with pytest.raises(InputError, match="structural zeros contradict the data"):
        sdc.cell_bounds(full, sdc.knowledge(czech, FRONTIER, structural_zeros=EMPTY_CELL), cells="all")


def test_all_cells_or_those_at_risk(czech: Table) -> None:
    assert len(sdc.cell_bounds(czech, ["A*B"], cells="all")) == 64
    assert len(sdc.cell_bounds(czech, ["A*B"], small_count=3)) == 6


@pytest.mark.parametrize("release", [[], "A*B", {"A": 1}, [3], 3, b"A*B", None, pa.table({"A": ["x"]})])
def test_a_release_that_is_no_list_of_sub_tables(release: Any, czech: Table) -> None:
    said = "A\\*B'" if release == "A*B" else f"of the type {type(release).__name__}"
    with pytest.raises(
        ReleaseError, match=rf"{said} is not a list of sub-tables; give one such as \['age\*sex', 'race'\]"
    ):
        sdc.cell_bounds(czech, release)


def told(verb: str, table: Table, public: Any, **settings: Any) -> tuple[str, Any]:
    """What a verb says and gives by names, or why it refuses."""
    try:
        found = getattr(sdc, verb)(table, public, **settings)
    except SdcError as error:
        return type(error).__name__, str(error)
    return (repr(found), None) if isinstance(found, Knowledge) else (found.headline, found.to_arrow().to_pydict())


OF_A_RELEASE: dict[str, dict[str, Any]] = {
    "assess": {"min_width": 9},
    "best_release": {"min_width": 6},
    "bisection_release": {"min_width": 6},
    "cell_bounds": {"cells": "all"},
    "decomposable_models": {},
    "decomposable_release": {"min_width": 6},
    "enumerate": {},
    "enumerate_tables": {},
    "find_release": {"method": "ordered", "min_width": 6},
    "fit": {},
    "knowledge": {},
    "ordered_release": {"min_width": 6},
    "posterior": {},
    "redesign": {"sub_table": "A*B*C*D*F", "min_width": 6, "merging": False},
    "release": {"method": "ordered", "min_width": 6},
    "risk_utility_curve": {"min_widths": [6], "methods": ["ordered"]},
    "sharp_bounds": {},
    "simulatable_release": {"min_width": 6},
    "super_cell_bounds": {"cells": "A=no, B=no"},
    "suppress": {"sub_table": "A*B*C*D*F", "min_width": 6, "small_count": 2},
    "uniques": {"fraction": 0.1, "model": "released"},
    "why": {"sub_table": "A*B*C*D*F", "min_width": 6},
}


@pytest.fixture(scope="module", params=["ordered_release", "decomposable_release", "find_release"])
def found(request: pytest.FixtureRequest, czech: Table) -> Found:
    """By each class of results; the last beside a cell that cannot be, and a marginal that goes out in part."""
    known = sdc.knowledge(czech, structural_zeros=EMPTY_CELL if request.param == "find_release" else None)
    more = {
        "ordered_release": {},
        "decomposable_release": {"steps": 300, "chains": 1},
        "find_release": {"method": "ordered", "require": ["A*B*C*D*F"], "in_part": [{"of": "A*B*C*D*F"}]},
    }
    result: Found = getattr(sdc, request.param)(czech, known, min_width=6, **more[request.param])
    return result


def test_every_verb_that_takes_a_release_is_asked() -> None:
    assert {name for name in VERBS if "public" in inspect.signature(getattr(sdc, name)).parameters} == {
        name for name in OF_A_RELEASE if name != "knowledge"
    }


@pytest.mark.parametrize("verb", OF_A_RELEASE)
def test_a_found_release_goes_into_every_verb(verb: str, found: Found, czech: Table) -> None:
    """As all that is known once it is out: what is impossible and what goes out in part too."""
    known = found.judgement.knowledge
    assert known == sdc.knowledge(czech, found.release, structural_zeros=known.zeros, facts=known.facts)
    assert told(verb, czech, found, **OF_A_RELEASE[verb]) == told(verb, czech, known, **OF_A_RELEASE[verb])


def test_what_goes_out_in_part_is_known_of_a_found_release(czech: Table) -> None:
    wish = {"require": ["A*B*C*D*F"], "in_part": [{"of": "A*B*C*D*F"}]}
    found = sdc.find_release(czech, NOTHING, "ordered", min_width=6, **wish)
    whole, known = sdc.knowledge(czech, found.release), sdc.knowledge(czech, found)
    assert found.parts.facts
    assert known.facts == found.judgement.knowledge.facts
    assert whole.facts == ()
    assert known != whole
    assert sdc.why(czech, found, "A*B*C*D*F", min_width=6).withheld == 2


def test_a_found_release_of_another_table(czech: Table) -> None:
    found = sdc.ordered_release(czech, NOTHING, min_width=6)
    other = Table.of(czech.schema, czech.codes, czech.counts + 2)
    with pytest.raises(
        ReleaseError, match=r"what is known is of 1841 records of A, .*; give what is known of this table"
    ):
        sdc.assess(other, found, min_width=6)


def test_a_release_of_unknown_variables(czech: Table) -> None:
    with pytest.raises(ReleaseError, match=r"'A\*age' names the unknown variable 'age'; the table has A, B, C"):
        sdc.assess(czech, ["A*age"], min_width=6)


def test_cells_that_are_not_a_choice(czech: Table) -> None:
    with pytest.raises(InputError, match="cells = 'zeros'; choose at-risk or all"):
        sdc.cell_bounds(czech, ["A*B"], cells="zeros")


def test_more_cells_than_can_be_bounded_at_once(tmp_path: Path) -> None:
    names = [f"v{v}" for v in range(21)]
    rows = [",".join(names), ",".join("0" * 21), ",".join("1" * 21)]
    (tmp_path / "wide.csv").write_text("\n".join(rows) + "\n")
    table = sdc.read_table(tmp_path / "wide.csv")
    with pytest.raises(InputError, match=r"has 2097152 cells, at most 1000000 are bounded at once; choose fewer var"):
        sdc.cell_bounds(table, ["v0*v1"], cells="all")


def test_super_cells_by_names(czech: Table) -> None:
    known = sdc.knowledge(czech, ["A*B", "B*C"])
    found = sdc.super_cell_bounds(czech, known, ["A=no, C=yes", {"A": "no", "C": ["yes"]}, {"B": ["no"]}])
    assert found.outer.tolist() == found.inner.tolist()
    assert found.outer[0].tolist() == found.outer[1].tolist()
    assert found.to_arrow().column("super_cell").to_pylist() == ["A=no C=yes", "A=no C=yes", "B=no"]
    fractions = sdc.super_cell_bounds(czech, known, "A=no, C=yes", fractional=True)
    assert fractions.exact.all()
    assert "Bounds of 1 super-cells by fractional, 1 of them exact" in repr(fractions)


def test_no_super_cell(czech: Table) -> None:
    with pytest.raises(InputError, match="no super-cell is named; give one such as"):
        sdc.super_cell_bounds(czech, ["A*B"], [])
    with pytest.raises(InputError, match="method = 'shuttle' with fractional"):
        sdc.super_cell_bounds(czech, ["A*B"], "A=no", method="shuttle", fractional=True)


def test_no_at_risk_cell(czech: Table) -> None:
    ample = Table.of(czech.schema, czech.codes, czech.counts + 2)
    with pytest.raises(InputError, match=r"no at-risk cell: .* every sub-table may be released"):
        sdc.cell_bounds(ample, ["A"])
    assert sdc.assess(ample, ["A"], min_width=1).releasable
    assert sdc.ordered_release(ample, NOTHING, min_width=5).release == Release.of([63])
    for method in ("ordered", "decomposable", "best"):
        found = sdc.find_release(ample, NOTHING, method, min_width=5, forbid=["A*B"])
        assert found.frontier == ["A*C*D*E*F", "B*C*D*E*F"]
        assert str(found.reason).startswith("No cell is at risk: no count is from 1 to 2")
    # where it took all for that reason, what it refuses elsewhere would tell that a cell is at risk
    simulated = sdc.find_release(ample, NOTHING, "simulatable", min_width=5, forbid=["A*B"], draws=20)
    assert simulated.frontier == ["A*C*D*E*F", "B*C*D*E"]


def test_the_decomposable_and_the_best_release(czech: Table) -> None:
    """REFERENCE section 2: 48 with the total up to the width 10, 32 from 11 on; and 60 for the better of both."""
    for min_width, with_total in ((10, 48), (11, 32)):
        found = sdc.decomposable_release(czech, NOTHING, min_width=min_width, seed=1, chains=2, steps=2000)
        assert found.sub_tables_with_total == with_total
        assert found.assessment.releasable is True
    assert sdc.decomposable_release(czech, NOTHING, min_width=40, steps=1, start="[A,E]").release.contains(
        Release.of([0b010001])
    )
    assert sdc.best_release(czech, NOTHING, min_width=6, chains=1, steps=500).sub_tables_with_total == 60


@pytest.mark.parametrize(
    ("least", "reached"), [({"sub_tables": 60}, "sub_tables = 59"), ({"halvings": 12.0}, "halvings = 10.59")]
)
def test_what_a_release_must_be_worth(least: dict[str, float], reached: str, czech: Table) -> None:
    with pytest.raises(NotReleasableError, match=f"less than release.at_least asks: .*{reached}"):
        sdc.find_release(czech, NOTHING, "ordered", min_width=6, at_least=least)
    worth = {name: value - 2 for name, value in least.items()}
    found = sdc.find_release(czech, NOTHING, "ordered", min_width=6, at_least=worth)
    assert found.release.sub_tables(czech.schema) == 59


def test_what_counts_more_is_released(czech: Table) -> None:
    found = sdc.decomposable_release(
        czech, NOTHING, min_width=40, steps=2000, weights={"B*C*F": 0.1, "B*C*E": 90, "A": 2}
    )
    assert 0b010110 in found.release
    assert found.value > found.sub_tables


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chains": 0}, r"release\.annealing\.chains = 0: should be greater than or equal to 1 \(the num"),
        ({"steps": 0}, r"release\.annealing\.steps = 0: should be greater than or equal to 1"),
        ({"seed": -1}, r"release\.annealing\.seed = -1: should be greater than or equal to 0"),
        ({"weights": {"X": 2}}, "weight of 'X': there is no such variable; the table has A, B, C, D, E, F"),
        ({"weights": {"A*X": 2}}, r"weight of 'A\*X': .*names the unknown variable 'X'"),
        ({"weights": {"A": 0}}, r"release\.weights\.variables\.A = 0: should be greater than 0 \(a number"),
        ({"start": "[A,B] [B,C] [C,D] [D,A]"}, "not decomposable: the cycle A - B - C - D has no chord; add one, or"),
        ({"start": "A-B"}, r"graph 'A-B' cannot be read; write its cliques as \[a,b\] \[b,c\]"),
        ({"start": "[A,X]"}, "unknown variable 'X'; the table has A, B"),
    ],
)
def test_faulty_settings_of_annealing(settings: dict[str, Any], message: str, czech: Table) -> None:
    with pytest.raises(InputError, match=message):
        sdc.decomposable_release(czech, NOTHING, min_width=6, **settings)


def test_a_setting_that_there_is_not(czech: Table) -> None:
    """Refused by its name, with the nearest that there is; and one that another method has is not looked at."""
    with pytest.raises(InputError, match=r"^chians is no setting of a search; did you mean chains\? there are "):
        sdc.best_release(czech, NOTHING, min_width=6, chians=2)
    with pytest.raises(InputError, match=r"^require_all is no setting of a search; did you mean require\? "):
        sdc.risk_utility_curve(czech, NOTHING, min_widths=[6], require_all=["A"])
    with pytest.raises(InputError, match=r"^release\.annealing\.step is an unknown key; did you mean steps\? "):
        sdc.decomposable_release(czech, NOTHING, min_width=6, step=2)
    with pytest.raises(InputError, match=r"^weight is no setting of a table; there are variables, columns, csv, "):
        sdc.read_table(CZECH_CSV, weight="A")


def test_what_is_given_is_on_top_of_a_section(czech: Table) -> None:
    section = ReleaseConfig(require=("A*B",), annealing=AnnealingConfig(chains=1, steps=200, seed=3))
    found = sdc.find_release(czech, NOTHING, "decomposable", min_width=40, release=section, seed=5, require=None)
    assert 0b11 in found.release
    given = {"annealing": {"chains": 1, "steps": 200}, "seed": 5, "require": ["A*B"]}
    same = sdc.find_release(czech, NOTHING, "decomposable", min_width=40, **given)
    assert (same.release, same.trace) == (found.release, found.trace)
    assert {row.chain for row in found.trace} == {0}


def test_a_width_that_nothing_reaches(czech: Table) -> None:
    with pytest.raises(ReleaseError, match=r"minimum width 1842 .* grand total 1841 .*at most 1841"):
        sdc.ordered_release(czech, NOTHING, min_width=1842)
    with pytest.raises(ReleaseError, match=r"minimum width 261 is not reached even when only the one-way.*at most 260"):
        sdc.decomposable_release(czech, NOTHING, min_width=261)


@pytest.mark.parametrize(
    ("verb", "given", "message"),
    [
        ("widths", {"table": CZECH_CSV}, "table of sdc.critical_widths is of the type pathlib.*; give a table"),
        ("assess", {"table": pa.table({"A": ["x"]})}, "table of sdc.assess is of the type pyarrow.Table; give a table"),
        ("assess", {"min_width": "6"}, "min_width of sdc.assess is of the type str; give a whole number"),
        ("find_release", {"min_width": 6.5}, "min_width of sdc.find_release is of the type float; give a whole number"),
        ("find_release", {"min_width": True}, "min_width of sdc.find_release is of the type bool; give a whole"),
        ("find_release", {"min_width": None}, "min_width of sdc.find_release is of the type NoneType"),
        ("find_release", {"method": 3}, "method of sdc.find_release is of the type int; give a text"),
        ("find_release", {"n_rule": "3"}, "n_rule of sdc.find_release is of the type str; give a whole number"),
        ("find_release", {"executor": "local"}, "executor of sdc.find_release is of the type str; give an executor"),
        (
            "find_release",
            {"posterior_limit": 0.5},
            "posterior_limit of .* is of the type float; give an sdc.PosteriorL",
        ),
        ("risk_utility_curve", {"min_widths": 6}, "min_widths of .* is of the type int; give a list of whole numbers"),
        ("risk_utility_curve", {"methods": "ordered"}, "methods of .* is of the type str; give a list of texts"),
        ("best_release", {"small_count": "2"}, "small_count of sdc.best_release is of the type str; give a whole num"),
        ("attack", {"seeds": "3"}, "seeds of sdc.attack is of the type str; give a whole number"),
        ("posterior", {"alpha": "1"}, "alpha of sdc.posterior is of the type str; give a number"),
        ("publish_release", {"found": FRONTIER}, "found of .* is of the type list; give a release that was found"),
        ("controlled_rounding", {"base": 2.0}, "base of .* is of the type float; give a whole number"),
        ("check", {"folders": 3}, "folders of sdc.check is of the type int; give a path"),
        ("run", {"config": {"name": "a"}}, "config of sdc.run is of the type dict; give a path"),
        ("compare", {"before": 1}, "before of sdc.compare is of the type int; give a path"),
        ("verify_run", {"run_folder": None}, "run_folder of sdc.verify_run is of the type NoneType; give a path"),
        ("explore", {"run_folder": 1}, "run_folder of sdc.explore is of the type int; give a path"),
        ("ledger", {"file": b"x"}, "file of sdc.ledger is of the type bytes; give a path"),
    ],
)
def test_an_argument_of_another_type(verb: str, given: dict[str, Any], message: str, czech: Table) -> None:
    """Said by the argument's name before any work; of what it is no more than the type, for it may be the data."""
    right = {
        "table": czech,
        "public": NOTHING,
        "method": "ordered",
        "min_width": 6,
        "base": 5,
        "folder": "out",
        "title": "t",
        "min_widths": [6],
        "after": "run",
        "release": NOTHING,
    }
    called = getattr(sdc, verb)
    needed = {
        name
        for name, one in inspect.signature(called).parameters.items()
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD and name != "folders"
    }
    more = {name: right[name] for name in needed - {*given}}
    folders = (given["folders"],) if "folders" in given else ()
    named = {name: value for name, value in (more | given).items() if name != "folders"}
    with pytest.raises(InputError, match=message):
        called(*folders, **named)


def test_numbers_of_numpy_are_numbers(czech: Table) -> None:
    width = np.array([9])[0]
    assert sdc.assess(czech, FRONTIER, min_width=width).releasable is True
    assert len(sdc.posterior(czech, FRONTIER, error=None).cells) == 3


# Figures


def picture(figure: Any) -> ElementTree.Element:
    """What the SVG of a figure is, as an image has it."""
    root = ElementTree.fromstring(figure._repr_svg_())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    width, height = (float(root.attrib[side]) for side in ("width", "height"))
    assert root.attrib["viewBox"] == f"0 0 {width:g} {height:g}"
    parts = [part for part in root if part.tag.endswith("}svg")]
    assert sum(float(part.attrib["height"]) for part in parts) == pytest.approx(height)
    assert base64.b64decode(figure._repr_html_().partition("base64,")[2].partition('"')[0]).decode() == figure.svg
    return root


def titles(root: ElementTree.Element) -> list[str]:
    return [str(one.text) for one in root.iter("{http://www.w3.org/2000/svg}title")]


def test_widths_are_drawn(czech: Table) -> None:
    widths, found = sdc.widths(czech), sdc.ordered_release(czech, NOTHING, min_width=6)
    alone, beside = (picture(widths.plot(min_width=6, release=release)) for release in (None, found))
    assert "A*B*C*D*F: critical width 3" in titles(alone)
    assert "A*B*C*D*F: critical width 3, not released" in titles(beside)
    assert f"A*B*C*D*E: critical width {widths.of('A*B*C*D*E')}, released" in titles(beside)
    crosses = [len(root.findall(".//*[@class='cross']")) for root in (alone, beside)]
    assert crosses == [0, 64 - found.sub_tables_with_total]
    said = [ElementTree.tostring(root, "unicode") for root in (alone, beside)]
    assert ["a cross marks a sub-table that is not released" in text for text in said] == [False, True]
    assert widths.plot(min_width=6, release=FRONTIER) == widths.plot(min_width=6, release=found)
    assert repr(widths.plot(min_width=6)) == "Figure: Critical widths of the sub-tables"
    with pytest.raises(InputError, match="min_width = 0 of 64 critical widths; give at least 1 of each"):
        widths.plot(min_width=0)
    with pytest.raises(InputError, match="release is of the type int; give a release that was found, or sub-tables"):
        widths.plot(min_width=6, release=3)


def test_many_widths_are_bars() -> None:
    rows = [[str(v == k) for v in range(9)] for k in range(9)]
    table = sdc.read_table(pa.table({f"v{v}": [row[v] for row in rows] for v in range(9)}))
    root = picture(sdc.widths(table).plot(min_width=1))
    words = [str(one.text) for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "dimension 9" in words
    assert "released" not in words


def test_a_curve_is_drawn(czech: Table) -> None:
    curve = sdc.risk_utility_curve(czech, NOTHING, min_widths=[6, 10, 60], methods=["ordered"])
    root = picture(curve.plot())
    assert [title for title in titles(root) if "required width" in title] == [
        f"ordered, counts 1 to 2, required width {one.min_width_required}: {one.sub_tables} sub-tables" for one in curve
    ]
    assert "this release: 10" in ElementTree.tostring(picture(curve.plot(min_width=10)), "unicode")
    assert "The upright line" not in ElementTree.tostring(root, "unicode")


def test_rules_hold_at_each_point_of_a_curve(czech: Table) -> None:
    """With no count from 1 to 19 the ordered release of width 6 has 53 sub-tables, without that rule 59."""
    asked: dict[str, Any] = {"min_widths": [6], "methods": ["ordered"]}
    (few,), (all_,) = (sdc.risk_utility_curve(czech, NOTHING, **asked, **more) for more in ({"n_rule": 20}, {}))
    alone = sdc.ordered_release(czech, NOTHING, min_width=6, n_rule=20)
    assert (few.sub_tables, all_.sub_tables) == (alone.sub_tables, 59) == (53, 59)
    rule = sdc.Attributes(("A",), 10)
    (none,) = sdc.risk_utility_curve(czech, NOTHING, **asked, attributes=rule)
    assert none.sub_tables == sdc.ordered_release(czech, NOTHING, min_width=6, attributes=rule).sub_tables
    with pytest.raises(ConfigError, match="what was published before may break the rule already"):
        sdc.risk_utility_curve(czech, ["A*B"], **asked, n_rule=20)


def test_a_frontier_is_drawn(czech: Table) -> None:
    root = picture(sdc.ordered_release(czech, NOTHING, min_width=6).plot())
    dark = [box for box in root.iter("{http://www.w3.org/2000/svg}rect") if box.attrib["fill"] == "#2b6ca3"]
    assert [str(box[0].text) for box in dark] == [name for name in FRONTIER for _ in name.split("*")]
    assert "5 variables, 32 cells" in ElementTree.tostring(root, "unicode")


def test_names_of_a_figure_are_text_and_no_markup() -> None:
    table = sdc.read_table(pa.table({"<b> & 'c'": ["x", "x", "y"], "d": ["1", "2", "2"]}))
    root = picture(sdc.widths(table).plot(min_width=1))
    assert any(title.startswith("<b> & 'c'*d: critical width") for title in titles(root))


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on this machine")
def test_a_browser_shows_a_figure(czech: Table) -> None:
    figures = [sdc.widths(czech).plot(min_width=6), sdc.ordered_release(czech, NOTHING, min_width=6).plot()]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content("".join(figure._repr_html_() for figure in figures))
        sizes = page.evaluate("[...document.images].map(image => [image.naturalWidth, image.naturalHeight])")
        assert [width for width, _ in sizes] == [1100, 1100]
        assert all(height > 100 for _, height in sizes)
        browser.close()


# Runs, and what was published


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A build, made without its flow: with that `sdc.run` makes one in the handbook and in the notebook."""
    folder = tmp_path_factory.mktemp("run")
    config = {"name": "czech", "table": {"path": str(CZECH_CSV)}, "risk": {"min_width": 6}}
    config |= {"execution": {"cluster": "in-process"}, "output": {"folder": str(folder / "runs")}}
    (folder / "czech.yaml").write_text(yaml.safe_dump(config))
    build = open_build(folder / "czech.yaml")
    run_all(build, IN_PROCESS)
    facts = {
        "run_folder": str(build.folder.path),
        "release": release_facts(build.made.found.release, build.made.table.schema),
    }
    return Built(facts)


def test_a_build_goes_into_every_verb(built: Built, czech: Table) -> None:
    assert (built.sub_tables, built.frontier, built.table) == (59, FRONTIER, sdc.read_table(CZECH_CSV))
    assert sdc.assess(built.table, built, min_width=9).releasable is True
    assert sdc.enumerate_tables(built.table, built).feasible_tables == 810
    assert built.to_arrow().to_pydict() == {"sub_table": FRONTIER, "variables": [5, 5, 5, 4, 4, 4]}
    assert repr(built).startswith("Build of 59 sub-tables and the grand total; to publish: ")
    assert built.report.is_file()
    assert (built.to_publish / "index.html").is_file()
    with pytest.raises(ReleaseError, match="what is known is of 1841 records of A, B, C"):
        sdc.assess(czech.marginal("A*B"), built, min_width=6)


def test_a_run_is_verified_and_compared_from_python(built: Built) -> None:
    found = sdc.verify_run(str(built.folder))
    assert (found.verified, found.certified_cells, found.failures) == (True, 3, ())
    same = sdc.compare(built.folder, built.folder)
    assert repr(same) == "59 sub-tables, then 59; 0 keys of the config differ"
    assert same.to_arrow().to_pydict() == {"change": [], "sub_table": [], "why": []}
    with pytest.raises(RunFolderError, match="name one that sdc run has made"):
        sdc.verify_run(built.folder.parent)


def test_what_was_published_is_checked_from_python(built: Built, tmp_path: Path) -> None:
    found = sdc.check(built.to_publish, min_width=10, n_rule=20)
    few = {name: int((built.table.marginal(name).counts < 20).sum()) for name in FRONTIER}
    assert {one.sub_table: one.counts for one in found.few_counts} == {name: n for name, n in few.items() if n}
    rows = found.to_arrow().to_pylist()
    assert found.narrow_cells == sum(row["outer_upper"] - row["outer_lower"] < 10 for row in rows) > 0
    assert (found.consistent, found.is_kept) == (True, False)
    assert sdc.check(built.to_publish, min_width=1).is_kept
    assert [*rows[0]] == [*"ABCDEF", "outer_lower", "outer_upper", "inner_lower", "inner_upper"]
    assert {(row["outer_lower"], row["outer_upper"]) for row in rows} >= {(0, 9), (0, 10)}
    one, two = tmp_path / "1.csv", tmp_path / "2.csv"
    one.write_text("a,b,count\nx,u,1\nx,v,4\n")
    two.write_text("b,count\nu,2\nv,3\n")
    assert repr(sdc.check(one, two)) == "They contradict each other, see `reason`"
    others = [{"folder": str(two), "disjoint": True}]
    assert sdc.check(one, two, relations=others, min_width=1).narrow_cells == 1
    for given, message in (
        ({"cells": "some"}, "cells = 'some'; choose at-risk or all"),
        ({"relations": [{"folder": "x", "other": 1}]}, "relations: .*other is an unknown key"),
    ):
        with pytest.raises(SdcError, match=message):
            sdc.check(one, two, **given)
    with pytest.raises(InputError, match="no folder is named"):
        sdc.check()


def test_a_ledger_from_python_has_no_key_in_its_text(tmp_path: Path) -> None:
    made = sdc.ledger(tmp_path / "ledger", new=True)
    assert (
        repr(made)
        == repr(sdc.ledger(str(tmp_path / "ledger")))
        == f"{tmp_path}/ledger: 0 publications, the chain holds"
    )
    assert made.to_arrow().column_names == ["number", "published", "name", "table", "folder", "sub_tables"]
    with pytest.raises(InputError, match="is there already"):
        sdc.ledger(tmp_path / "ledger", new=True)


# What results say of themselves


def test_help_and_dir_list_the_verbs_with_their_signatures() -> None:
    assert dir(sdc) == sorted([*VERBS, "__version__"])
    text = pydoc.render_doc(sdc, renderer=pydoc.plaintext)
    assert "critical_widths(table: 'Table', *, small_count: 'int' = 2" in text
    assert "publish_release(" in text
    assert sdc.widths is sdc.critical_widths
    assert sdc.release is sdc.find_release


def test_results_have_names_and_no_count_in_their_text(czech: Table) -> None:
    found = sdc.ordered_release(czech, NOTHING, min_width=6)
    assert found.frontier == FRONTIER
    widths, bounds = sdc.widths(czech), sdc.cell_bounds(czech, found.release)
    answer = sdc.assess(czech, FRONTIER, min_width=10)
    likely = sdc.posterior(czech, FRONTIER)
    assert repr(found).startswith("OrderedRelease: 59 sub-tables and the grand total, within A*B*C*D*E, A*B*D*E*F, ")
    assert repr(answer).startswith("Assessment: unsafe, min width ")
    assert repr(widths) == str(widths) == "Critical widths of 64 sub-tables, in records"
    assert repr(bounds) == f"Bounds of 3 cells by {bounds.method}, 3 of them exact"
    assert repr(likely) == "Posterior of 3 cells under released, by enumeration"
    assert repr(found.judgement).startswith("Judgement(Assessment: safe")
    assert widths.to_arrow().to_pylist()[-1] == {
        "sub_table": "A*B*C*D*E*F",
        "critical_width": widths.of(63),
    }
    assert widths.of("F*A*B*C*D") == widths.of(["A", "B", "C", "D", "F"]) == 3
    assert "… and 14 more rows" in widths._repr_html_()
    row = bounds.to_arrow().to_pylist()[0]
    assert list(row)[:7] == [*"ABCDEF", "count"]
    assert (row["outer_lower"], row["outer_upper"], row["exact"]) == (0, 10, True)


RESULTS: dict[str, Callable[[Table], Any]] = {
    "assess": lambda table: sdc.assess(table, FRONTIER, min_width=10),
    "attack": lambda table: sdc.attack(FRONTIER, truth=table, seeds=0),
    "what is right of an attack": lambda table: sdc.attack(FRONTIER, truth=table, seeds=0).right,
    "cell_bounds": lambda table: sdc.cell_bounds(table, FRONTIER),
    "controlled_rounding": lambda table: sdc.controlled_rounding(table.marginal("A*B*F"), base=5),
    "critical_widths": sdc.critical_widths,
    "decomposable_models": sdc.decomposable_models,
    "enumerate_tables": lambda table: sdc.enumerate_tables(table, FRONTIER),
    "fit": lambda table: sdc.fit(table, ["A*B", "C"]),
    "magnitude_table": lambda table: sdc.magnitude_table(CZECH_CSV, "count", ["A", "F"], contributors=3)[0],
    "ordered_release": lambda table: sdc.ordered_release(table, NOTHING, min_width=6),
    "posterior": lambda table: sdc.posterior(table, FRONTIER),
    "read_table": lambda table: table,
    "redesign": lambda table: sdc.redesign(table, FRONTIER, "A*B*C*D*F", min_width=6, merging=False),
    "risk_utility_curve": lambda table: sdc.risk_utility_curve(
        table, NOTHING, min_widths=[6, 2000], methods=["ordered"]
    ),
    "sharp_bounds": lambda table: sdc.sharp_bounds(table, FRONTIER),
    "super_cell_bounds": lambda table: sdc.super_cell_bounds(table, FRONTIER, "A=no, B=no"),
    "suppress": lambda table: sdc.suppress(table, NOTHING, "A*B*C*D*F", small_count=4, min_width=6),
    "uniques": lambda table: sdc.uniques(table, FRONTIER, fraction=0.1, model="released"),
    "why": lambda table: sdc.why(table, FRONTIER, ["A", "B", "C", "D", "F"], min_width=6),
}


@pytest.mark.parametrize("verb", RESULTS)
def test_every_result_is_a_frame_and_a_page(verb: str, czech: Table) -> None:
    result = RESULTS[verb](czech)
    rows = result.to_arrow().to_pylist()
    assert rows == result.to_polars().to_dicts()
    frame = result.to_pandas().astype(object)
    # what is withheld is missing there, and a number that is none here
    assert rows == [{key: listed(value) for key, value in row.items()} for row in frame.to_dict("records")]
    page = result._repr_html_()
    assert page.count("<tr>") == 1 + min(50, len(rows))
    assert html.escape(result.headline) in page
    assert repr(result) == str(result) == result.headline
    assert "array(" not in repr(result)


def listed(value: Any) -> Any:
    """A value of pandas as Arrow has it."""
    if isinstance(value, tuple):
        return list(value)
    return None if value != value else value


def test_marginals_by_names(czech: Table) -> None:
    named = czech.marginal("C*A")
    assert named == czech.marginal(["A", "C"]) == czech.marginal(0b101)
    assert named.to_pandas().to_dict("list") == {
        "A": ["no", "no", "yes", "yes"],
        "C": ["no", "yes", "no", "yes"],
        "count": named.counts.tolist(),
    }
    assert sdc.read_table(named.to_polars(), categories={"A": ["no", "yes"], "C": ["no", "yes"]}) == named
    assert sdc.read_table(czech.to_pandas(), categories={v.name: v.categories for v in czech.schema.variables}) == czech


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("A*age", r"'A\*age' names the unknown variable 'age'; the table has A, B, C"),
        (["A", "A"], "names 'A' twice"),
        ([], r"a sub-table is written as 'age\*sex' or as the list of its variables; this is a list"),
        (["A", 1], "as the list of its variables; this is a list"),
        (2.5, "as the list of its variables; this is a float"),
        (None, "as the list of its variables; this is a NoneType"),
    ],
)
def test_what_is_no_sub_table(asked: Any, message: str, czech: Table) -> None:
    with pytest.raises(ReleaseError, match=message):
        czech.marginal(asked)
    with pytest.raises(ReleaseError, match=message):
        sdc.why(czech, FRONTIER, asked, min_width=6)


def test_levels_are_columns_of_a_frame() -> None:
    columns = {"major": ["m", "m", "n"], "detail": ["c", "d", "e"], "sex": ["f", "m", "f"]}
    table = sdc.read_table(pa.table(columns), hierarchies={"industry": ["major", "detail"]})
    assert table.to_arrow().to_pydict() == {**columns, "count": [1, 1, 1]}
    assert table.marginal("major").to_arrow().to_pydict() == {"major": ["m", "n"], "count": [2, 1]}
    assert table.marginal(["sex", "detail"]).to_arrow().column_names == ["major", "detail", "sex", "count"]


def test_what_a_rounded_table_is_called_is_no_count(czech: Table) -> None:
    """Neither its text nor its frame tells by how much cells were moved; and a frame of it is taken for no table."""
    rounded = sdc.controlled_rounding(czech.marginal("A*B"), base=7)
    assert repr(rounded) == "4 cells in multiples of 7, without those of 0"
    assert rounded.to_arrow().column_names == ["A", "B", "count_rounded_to_7"]
    with pytest.raises(UntoldError, match="the data frame has rounded counts, 'count_rounded_to_7'"):
        sdc.read_table(rounded.to_pandas())


def test_what_is_withheld_is_missing() -> None:
    counts = [1, 20, 9, 30, 40, 8, 7, 6, 50]
    table = sdc.read_table(pa.table({"a": [*"xxxyyyzzz"], "b": [*"rstrstrst"], "count": counts}))
    found = sdc.suppress(table, NOTHING, "a*b", small_count=1, min_width=5)
    told = found.to_arrow().column("count").to_pylist()
    assert told[0] is None
    assert 4 <= told.count(None) < 9
    assert [n for n in told if n] == [
        n for n, hidden in zip(counts, found.withheld.reshape(-1), strict=True) if not hidden
    ]
    assert found.to_pandas()["count"].isna().tolist() == found.withheld.reshape(-1).tolist()
    with pytest.raises(UntoldError, match="missing values"):
        sdc.read_table(found.to_polars())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_not_there(library: str, czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"{library} cannot be imported; install it by python -m pip install") as said:
        getattr(czech, f"to_{library}")()
    assert isinstance(said.value, SdcError)
    assert len(czech.to_arrow()) == 63


def test_a_result_without_names_says_so(czech: Table) -> None:
    answer = sdc.ordered_release(czech, NOTHING, min_width=6).assessment
    with pytest.raises(InputError, match=r"this Assessment has no names of its own; call named_by\(table\.schema\)"):
        answer.to_arrow()
    assert answer._repr_html_().startswith("<p>Assessment: safe")
    assert len(answer.named_by(czech.schema).to_arrow()) == 0


def test_names_are_escaped_on_the_page() -> None:
    table = sdc.read_table(pa.table({"<b>": ["<i>", "x", "x"], "c": ["1", "2", "2"]}))
    page = sdc.cell_bounds(table, ["<b>"])._repr_html_()
    assert "<th>&lt;b&gt;</th>" in page
    assert "<i>" not in page


@pytest.mark.parametrize(
    "verb", ["ordered_release", "bisection_release", "decomposable_release", "best_release", "simulatable_release"]
)
def test_a_width_below_one_is_refused_everywhere(verb: str, czech: Table) -> None:
    with pytest.raises(InputError, match="min_width is 0; give at least 1, or nothing is protected"):
        getattr(sdc, verb)(czech, NOTHING, min_width=0)
    with pytest.raises(InputError, match="small_count is 0; give at least 1"):
        getattr(sdc, verb)(czech, NOTHING, min_width=3, small_count=0)


def test_a_width_below_one_is_refused_in_an_assessment(czech: Table) -> None:
    with pytest.raises(InputError, match="min_width is -1; give at least 1"):
        sdc.assess(czech, ["A"], min_width=-1)
    with pytest.raises(InputError, match="small_count is 0; give at least 1"):
        sdc.widths(czech, small_count=0)


@pytest.mark.parametrize(
    ("method", "section", "fault"),
    [
        ("ordered", {"of": "A*B", "how": "coarsen"}, "needs levels, which a build gives its table; use sdc run"),
        ("decomposable", {"of": "A*B"}, "what is withheld depends on the records"),
        ("simulatable", {"of": "A*B", "how": "round", "base": 5}, "what is withheld depends on the records"),
    ],
)
def test_what_does_not_go_out_in_part_from_python_is_refused(
    czech: Table, method: str, section: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        find_release(czech, NOTHING, method, min_width=6, in_part=[section])
    with pytest.raises(ConfigError, match=r"is asked of whole sub-tables|needs levels"):
        risk_utility_curve(czech, NOTHING, min_widths=[6], in_part=[section])
