"""The verbs for notebooks: names in, values out, and nothing but `sdc` to import."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sdc
from sdc.api import find_release, risk_utility_curve
from sdc.config.release import AnnealingConfig, ReleaseConfig
from sdc.model.errors import (
    ConfigError,
    InputError,
    NotReleasableError,
    ReleaseError,
    SdcError,
)
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.search.found import Found
from tests.helpers.builds import BY_NAME, CZECH_CSV

VERBS = [
    "AttributeDisclosure", "Losses", "PosteriorLimit", "Watch", "assess", "attack", "best_release", "bisection_release",
    "cell_bounds", "check", "compare", "controlled_rounding", "criteria", "critical_widths", "decomposable_models",
    "decomposable_release", "enumerate", "enumerate_tables", "explore", "find_release", "fit", "knowledge",
    "ledger", "magnitude_table", "ordered_release", "posterior", "publish_release", "read_incomplete",
    "read_table", "read_weights", "redesign", "release", "risk_utility_curve", "run", "sharp_bounds",
    "simulatable_release", "super_cell_bounds", "suppress", "uniques", "verify_run", "why", "widths",
]  # fmt: skip
EMPTY_CELL = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))


def test_the_verbs_are_all_there_is_and_each_says_what_it_does() -> None:
    assert sorted(sdc.__all__) == VERBS
    assert all(callable(verb) and inspect.getdoc(verb) for verb in (getattr(sdc, name) for name in VERBS))
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
    "assess": (BY_NAME,),
    "bisection_release": (NOTHING,),
    "decomposable_release": (NOTHING,),
    "find_release": (NOTHING, "ordered"),
    "ordered_release": (NOTHING,),
    "redesign": (BY_NAME, "A*B*C*D*F"),
    "suppress": (NOTHING, "A*B*C*D*F"),
    "why": (BY_NAME, "A*B*C*D*F"),
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
        (
            {"criteria": sdc.criteria(min_width=6), "min_frequency": 3},
            "criteria are given, and min_f",
        ),
        ({"criteria": 6}, "criteria of .* is of the type int; give criteria, which sdc.criteria gives"),
        ({"min_width": None}, "min_width of .* is of the type NoneType; give a whole number"),
        ({"min_widht": 6}, "min_widht is no setting of|nothing says how wide bounds must stay"),
    ):
        with pytest.raises(InputError, match=message):
            ask(czech, *BY_CRITERIA[verb], **words, **more)


@pytest.mark.parametrize(
    ("verb", "given", "message"),
    [
        ("redesign", {"posterior_limit": sdc.PosteriorLimit(max_above=0.5)}, "no recode is shown to help"),
        ("ordered_release", {"posterior_limit": sdc.PosteriorLimit(max_above=0.5)}, "no search may cut by a refusal"),
        ("suppress", {"min_frequency": 3}, "it withholds what the small count says"),
        (
            "suppress",
            {"attribute_disclosure": sdc.AttributeDisclosure(("A",), 3)},
            "it withholds what the small count says",
        ),
    ],
)
def test_criteria_that_a_verb_does_not_take(verb: str, given: dict[str, Any], message: str, czech: Table) -> None:
    with pytest.raises(ConfigError, match=message):
        getattr(sdc, verb)(czech, *BY_CRITERIA[verb], min_width=6, **given)


def test_a_search_is_heard(czech: Table) -> None:
    heard = list[Any]()
    sdc.ordered_release(czech, NOTHING, min_width=6, watch=sdc.Watch(on_step=heard.append))
    assert {type(step).__name__ for step in heard} == {"SearchStep"}


def test_a_release_is_given_by_names_or_as_a_release(czech: Table) -> None:
    with pytest.raises(InputError, match="cells = 'zeros'; choose at-risk or all"):
        sdc.cell_bounds(czech, ["A*B"], cells="zeros")
    assert [len(sdc.cell_bounds(czech, ["A*B"], **some)) for some in ({"cells": "all"}, {"small_count": 3})] == [64, 6]
    by_names = sdc.cell_bounds(czech, BY_NAME)
    release = Release.of(sum(1 << czech.schema.index(v) for v in name.split("*")) for name in BY_NAME)
    assert sdc.cell_bounds(czech, release).outer.tolist() == by_names.outer.tolist()
    assert by_names.exact.all()


def test_what_is_impossible_is_given_with_what_is_public(czech: Table, tmp_path: Path) -> None:
    """195 of the 810 feasible tables have it, and they leave the first at-risk cell [0, 6] instead of [0, 10]."""
    (tmp_path / "zeros.yaml").write_text('- {A: yes, B: no, C: no, D: ">=140", E: ">=3", F: pos}')
    known = sdc.knowledge(czech, BY_NAME, structural_zeros=tmp_path / "zeros.yaml")
    assert known == sdc.knowledge(czech, BY_NAME, structural_zeros=EMPTY_CELL) != sdc.knowledge(czech, BY_NAME)
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
    for known in (sdc.knowledge(czech, BY_NAME), sdc.ordered_release(czech, NOTHING, min_width=6)):
        with pytest.raises(ReleaseError, match=r"what is known is of 1841 records of A, .*; give what is known of"):
            sdc.cell_bounds(other, known, small_count=9)
    full = Table.of(czech.schema, np.array([[1, 0, 0, 1, 1, 1]]), np.array([czech.total]))
    with pytest.raises(InputError, match="structural zeros contradict the data"):
        sdc.cell_bounds(full, sdc.knowledge(czech, BY_NAME, structural_zeros=EMPTY_CELL), cells="all")


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


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, czech: Table) -> Found:
    """By each class of results; the last beside a cell that cannot be, and a marginal that goes out in part."""
    known = sdc.knowledge(czech, structural_zeros=EMPTY_CELL if request.param == "find_release" else None)
    more = {
        "ordered_release": {},
        "decomposable_release": {"steps": 300, "chains": 1},
        "find_release": {"method": "ordered", "require": ["A*B*C*D*F"], "protect": [{"of": "A*B*C*D*F"}]},
    }
    result: Found = getattr(sdc, request.param)(czech, known, min_width=6, **more[request.param])
    return result


def test_every_verb_that_takes_a_release_is_asked() -> None:
    assert {name for name in VERBS if "public" in inspect.signature(getattr(sdc, name)).parameters} == {
        name for name in OF_A_RELEASE if name != "knowledge"
    }


@pytest.mark.parametrize(
    ("found", "verb"),
    [
        *(("find_release", verb) for verb in OF_A_RELEASE),
        *(("ordered_release", verb) for verb in ("assess", "cell_bounds", "why")),
        *(("decomposable_release", verb) for verb in ("assess", "cell_bounds", "why")),
    ],
    indirect=["found"],
)
def test_a_found_release_goes_into_every_verb(found: Found, verb: str, czech: Table) -> None:
    """As all that is known once it is out: what is impossible and what goes out in part too."""
    known = found.evaluation.knowledge
    assert known == sdc.knowledge(czech, found.release, structural_zeros=known.zeros, facts=known.facts)
    assert told(verb, czech, found, **OF_A_RELEASE[verb]) == told(verb, czech, known, **OF_A_RELEASE[verb])


def test_what_goes_out_in_part_is_known_of_a_found_release(czech: Table) -> None:
    wish = {"require": ["A*B*C*D*F"], "protect": [{"of": "A*B*C*D*F"}]}
    found = sdc.find_release(czech, NOTHING, "ordered", min_width=6, **wish)
    whole, known = sdc.knowledge(czech, found.release), sdc.knowledge(czech, found)
    assert found.suppressed_tables.facts
    assert known.facts == found.evaluation.knowledge.facts
    assert whole.facts == ()
    assert known != whole
    assert sdc.why(czech, found, "A*B*C*D*F", min_width=6).suppressed == 2


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


@pytest.mark.parametrize(
    ("least", "reached"), [({"sub_tables": 60}, "sub_tables = 59"), ({"halvings": 12.0}, "halvings = 10.59")]
)
def test_what_a_release_must_be_worth(least: dict[str, float], reached: str, czech: Table) -> None:
    with pytest.raises(NotReleasableError, match=f"release.at_least: .*{reached}"):
        sdc.find_release(czech, NOTHING, "ordered", min_width=6, at_least=least)
    worth = {name: value - 2 for name, value in least.items()}
    found = sdc.find_release(czech, NOTHING, "ordered", min_width=6, at_least=worth)
    assert found.release.sub_tables(czech.schema) == 59


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


@pytest.mark.parametrize(
    ("verb", "given", "message"),
    [
        ("widths", {"table": CZECH_CSV}, "table of sdc.critical_widths is of the type pathlib.*; give a table"),
        ("assess", {"table": pa.table({"A": ["x"]})}, "table of sdc.assess is of the type pyarrow.Table; give a table"),
        ("assess", {"min_width": "6"}, "min_width of sdc.assess is of the type str; give a whole number"),
        ("find_release", {"min_width": True}, "min_width of sdc.find_release is of the type bool; give a whole"),
        ("find_release", {"method": 3}, "method of sdc.find_release is of the type int; give a text"),
        ("find_release", {"executor": "local"}, "executor of sdc.find_release is of the type str; give an executor"),
        ("find_release", {"posterior_limit": 0.5}, "posterior_limit of .* is of the type float; give an"),
        ("risk_utility_curve", {"min_widths": 6}, "min_widths of .* is of the type int; give a list of whole numbers"),
        ("risk_utility_curve", {"methods": "ordered"}, "methods of .* is of the type str; give a list of texts"),
        ("publish_release", {"found": BY_NAME}, "found of .* is of the type list; give a release that was found"),
        ("controlled_rounding", {"base": 2.0}, "base of .* is of the type float; give a whole number"),
        ("run", {"config": {"name": "a"}}, "config of sdc.run is of the type dict; give a path"),
        ("verify_run", {"run_folder": None}, "run_folder of sdc.verify_run is of the type NoneType; give a path"),
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


def test_a_verb_without_a_needed_argument_says_how_it_is_called(czech: Table) -> None:
    says = r"sdc\.suppress\(table, public, sub_table\): .* 'sub_table'; public is .* already, None if nothing is"
    with pytest.raises(InputError, match=says):
        sdc.suppress(czech, "A*B")  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"sdc\.magnitude_table\(source, value, variables\): .* 'perc'"):
        sdc.magnitude_table(CZECH_CSV, "count", ["A"], perc=10)  # type: ignore[call-arg]


def test_rules_hold_at_each_point_of_a_curve(czech: Table) -> None:
    """With no count from 1 to 19 the ordered release of width 6 has 53 sub-tables, without that rule 59."""
    asked: dict[str, Any] = {"min_widths": [6], "methods": ["ordered"]}
    (few,), (all_,) = (sdc.risk_utility_curve(czech, NOTHING, **asked, **more) for more in ({"min_frequency": 20}, {}))
    alone = sdc.ordered_release(czech, NOTHING, min_width=6, min_frequency=20)
    assert (few.sub_tables, all_.sub_tables) == (alone.sub_tables, 59) == (53, 59)
    rule = sdc.AttributeDisclosure(("A",), 10)
    (none,) = sdc.risk_utility_curve(czech, NOTHING, **asked, attribute_disclosure=rule)
    assert none.sub_tables == sdc.ordered_release(czech, NOTHING, min_width=6, attribute_disclosure=rule).sub_tables
    with pytest.raises(ConfigError, match="what was published before may break the rule already"):
        sdc.risk_utility_curve(czech, ["A*B"], **asked, min_frequency=20)


# Runs, and what was published


# What results say of themselves


@pytest.mark.parametrize(
    "verb",
    ["ordered_release", "bisection_release", "decomposable_release", "best_release", "simulatable_release", "assess"],
)
def test_a_width_below_one_is_refused_everywhere(verb: str, czech: Table) -> None:
    with pytest.raises(InputError, match="min_width is 0; give at least 1, or nothing is protected"):
        getattr(sdc, verb)(czech, NOTHING, min_width=0)
    with pytest.raises(InputError, match="small_count is 0; give at least 1"):
        getattr(sdc, verb)(czech, NOTHING, min_width=3, small_count=0)


@pytest.mark.parametrize(
    ("method", "section", "fault"),
    [
        ("ordered", {"of": "A*B", "by": "recoding"}, "needs levels, which a build gives its table; use sdc run"),
        ("decomposable", {"of": "A*B"}, "suppression depends on the records"),
        ("simulatable", {"of": "A*B", "by": "rounding", "base": 5}, "suppression depends on the records"),
    ],
)
def test_what_does_not_go_out_in_part_from_python_is_refused(
    czech: Table, method: str, section: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        find_release(czech, NOTHING, method, min_width=6, protect=[section])
    with pytest.raises(ConfigError, match=r"is asked of whole sub-tables|needs levels"):
        risk_utility_curve(czech, NOTHING, min_widths=[6], protect=[section])


def test_numbers_of_numpy_are_numbers(czech: Table) -> None:
    assert sdc.assess(czech, BY_NAME, min_width=np.array([9])[0]).releasable is True
