"""The verbs for notebooks: names in, values out, and nothing but `sdc` to import."""

import doctest
import inspect
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import sdc
from sdc.api import find_release, risk_utility_curve
from sdc.config.methods import METHODS
from sdc.config.release import AnnealingConfig, ReleaseConfig
from sdc.model.errors import ConfigError, InputError, NotReleasableError, ReleaseError, SdcError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.search.found import Found
from tests.helpers.builds import BY_NAME, CZECH_CSV

EMPTY_CELL = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))


def test_the_verbs_are_all_there_is_and_each_says_what_it_does() -> None:
    assert sorted(sdc.__all__) == sdc.__all__
    assert all(callable(verb) and inspect.getdoc(verb) for verb in (getattr(sdc, name) for name in sdc.__all__))
    with pytest.raises(AttributeError, match="module 'sdc' has no attribute 'anneal'"):
        sdc.anneal  # noqa: B018


def documented(name: str) -> Any:
    """What has the docstring and the signature of a stable name."""
    return getattr(getattr(sdc, name), "function", getattr(sdc, name))


@pytest.mark.parametrize("name", sdc.__all__)
def test_a_stable_name_is_documented_on_a_screen(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an example that runs, beside the table of the handbook."""
    shutil.copy(CZECH_CSV, tmp_path)
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(documented(name)) or ""
    example = doctest.DocTestParser().get_doctest(text, {"sdc": sdc}, name, None, 0)
    assert example.examples
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example).failed == 0
    if not inspect.isclass(documented(name)):
        assert len(str(inspect.signature(documented(name)))) < 400
        assert all(f"{part}\n---" in text for part in ("Parameters", "Returns", "Raises", "Notes", "Examples"))


@pytest.mark.parametrize("name", ["bounds", "publish", "verify"])
def test_a_package_that_is_a_function_too(name: str, czech: Table) -> None:
    package = getattr(sdc, name)
    assert package is sys.modules[f"sdc.{name}"]
    assert inspect.signature(package) == inspect.signature(package.function)
    with pytest.raises(InputError, match=rf"sdc\.{package.function.__name__}\(.*missing a required argument"):
        package()


FRAMES: dict[str, Any] = {
    "pandas": lambda path: __import__("pandas").read_csv(path),
    "arrow": lambda path: pa.csv.read_csv(path),
    "path": lambda path: path,
}


@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_is_taken_wherever_a_table_is(library: str, czech: Table) -> None:
    """Those of Polars and DuckDB are in tests/system."""
    taken_wherever_a_table_is(FRAMES[library](CZECH_CSV), czech)


def taken_wherever_a_table_is(frame: Any, czech: Table) -> None:
    found = sdc.find_release(frame, public=[], min_width=6, require=[["A", "B"]], forbid=[["B", "D", "F"]])
    known = sdc.find_release(czech, min_width=6, require=["A*B"], forbid=["B*D*F"])
    assert found.release == known.release
    assert sdc.assess(frame, found, min_width=6).releasable
    by = ["A", "B", "C"]
    suppressed, of_table = (sdc.suppress(one, by, min_width=6, small_count=70) for one in (frame, czech))
    assert suppressed.to_arrow() == of_table.to_arrow()
    assert sdc.round(frame, by, base=5).to_arrow() == sdc.round(czech, "A*B*C", base=5).to_arrow()
    sums = sdc.magnitude_table(frame, value="count", by=by, contributors=3)
    assert sums["C*B*A"].to_arrow().num_rows == 8


def test_a_zero_that_can_never_be_is_no_release() -> None:
    """By hand: with both margins x, p is at least 11 + 5 - 15 = 1, so that it has the values 1 to 5 and never 0."""
    frame = pa.table({"a": [*"xxyy"], "b": [*"pqpq"], "count": [2, 9, 3, 1]})
    asked: dict[str, Any] = {"min_width": 1, "small_count": 2, "require": ["a", "b"]}
    assert sdc.find_release(frame, min_values=2, **asked).sub_tables == 2
    with pytest.raises(NotReleasableError, match="fewer than 2 different values, or never 0, which min"):
        sdc.find_release(frame, min_values={"least": 2, "include_zero": True}, **asked)


def test_a_release_has_its_tables(czech: Table) -> None:
    wish = {"require": ["A*B*C*D*F"], "protect": [{"of": ["A", "B", "C", "D", "F"]}]}
    found = sdc.find_release(czech, min_width=6, **wish)
    assert [*found.tables] == [*found.frontier, "A*B*C*D*F"]
    assert found["B", "C"].to_pandas().equals(found["C*B"].to_pandas())
    assert found["B*C"].to_arrow() == czech.marginal("B*C").to_arrow()
    suppressed = found["A*B*C*D*F"].to_arrow()["count"]
    assert (len(suppressed), suppressed.null_count) == (32, 2)
    assert "A*B*C*D*F: 32 cells, 2 of them suppressed" in repr(found)
    assert "small_count=2" in repr(found)
    assert "<td></td>" in found._repr_html_()
    with pytest.raises(ReleaseError, match="'Bb'; did you mean B"):
        found["A", "Bb"]
    with pytest.raises(ReleaseError, match=r"is not released; sdc\.why says why"):
        found["A*B*C*D*E*F"]


def test_a_rounded_table_of_a_release_is_shown_rounded(czech: Table) -> None:
    section = {"of": "A*B*C*D*F", "by": "rounding", "base": 10}
    found = sdc.find_release(czech, min_width=4, require=["A*B*C*D*F"], protect=[section], required_only=True)
    shown = found["A*B*C*D*F"].to_arrow()
    assert shown.column_names[-1] == "count_rounded_to_10"
    assert {count % 10 for count in shown.column("count_rounded_to_10").to_pylist()} == {0}


def test_a_frame_that_is_no_table_is_refused(czech: Table) -> None:
    frame = pa.table({"age": ["x", "y"], "sex": ["f", "m"]})
    with pytest.raises(InputError, match="the data frame has no records"):
        sdc.find_release(frame.slice(0, 0), min_width=3)
    for ask in (sdc.suppress, sdc.round):
        with pytest.raises(InputError, match="the data frame has no column 'agee'; did you mean age"):
            ask(frame, by=["agee"], **({"base": 3} if ask is sdc.round else {"min_width": 3}))
        with pytest.raises(ReleaseError, match="the unknown variable 'AA'; did you mean A"):
            ask(czech, by=["AA"], **({"base": 3} if ask is sdc.round else {"min_width": 3}))
    with pytest.raises(InputError, match="titel is not a setting of a publication; did you mean title"):
        sdc.publish(sdc.find_release(czech, min_width=6), "out", titel="a")


OLD: dict[str, tuple[Any, Any]] = {
    **{
        f"{method}_release": (
            lambda czech, method=method: getattr(sdc, f"{method}_release")(czech, NOTHING, min_width=6),
            lambda czech, method=method: sdc.find_release(czech, method, min_width=6),
        )
        for method in ("ordered", "bisection")
    },
    "find_release": (
        lambda czech: sdc.find_release(czech, ["A*B"], "ordered", sdc.criteria(min_width=6)),
        lambda czech: sdc.find_release(czech, "ordered", ["A*B"], min_width=6),
    ),
    "suppress": (
        lambda czech: sdc.suppress(czech, NOTHING, "A*B", min_width=6),  # type: ignore[misc]
        lambda czech: sdc.suppress(czech, ["A", "B"], min_width=6),
    ),
    "controlled_rounding": (
        lambda czech: sdc.controlled_rounding(czech.marginal("A*B"), base=5),  # type: ignore[attr-defined]
        lambda czech: sdc.round(czech, "A*B", base=5),
    ),
    "magnitude_table": (
        lambda czech: sdc.magnitude_table(CZECH_CSV, "count", ["A"], contributors=3),  # type: ignore[misc]
        lambda czech: sdc.magnitude_table(CZECH_CSV, value="count", by=["A"], contributors=3),
    ),
    "critical_widths": (
        lambda czech: sdc.widths(czech, floor=9),  # type: ignore[call-arg]
        lambda czech: sdc.widths(czech, threshold=9),
    ),
}


@pytest.mark.parametrize("name", OLD)
def test_an_old_form_works_for_one_release_more(name: str, czech: Table) -> None:
    before, today = OLD[name]
    with pytest.warns(FutureWarning, match=rf"this form of sdc\.{name} ends with the next release; write sdc\."):
        old = before(czech)
    assert old.to_arrow() == today(czech).to_arrow()


def test_a_release_is_published_by_its_old_name_too(czech: Table, tmp_path: Path) -> None:
    found = sdc.find_release(czech, min_width=6)
    with pytest.warns(FutureWarning, match=r"write sdc\.publish\("):
        old = sdc.publish_release(czech, found, tmp_path / "old", title="t", about={"period": "1981"})
    new = sdc.publish(found, tmp_path / "new", title="t", period="1981")
    assert new.files == old.files
    assert (new.folder, new.formats) == (tmp_path / "new", ("csv", "parquet"))
    assert sdc.check(new).consistent
    other = Table.of(czech.schema, czech.codes, czech.counts + 2)
    with pytest.raises(ReleaseError, match="is of another table"):
        sdc.publish(found, tmp_path / "other", table=other)


def test_importing_the_package_imports_no_library() -> None:
    code = "import sdc, sys; print(sorted({'numpy', 'numba', 'pyarrow', 'pydantic', 'dask'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


BY_CRITERIA: dict[str, dict[str, Any]] = {
    "assess": {"public": BY_NAME},
    "find_release": {},
    "redesign": {"public": BY_NAME, "sub_table": "A*B*C*D*F", "merging": False},
    "suppress": {"by": "A*B*C*D*F"},
    "why": {"public": BY_NAME, "sub_table": "A*B*C*D*F"},
}


def test_criteria_are_taken_by_every_verb_that_judges() -> None:
    judging = {name for name in sdc.__all__ if "criteria" in inspect.signature(getattr(sdc, name)).parameters}
    assert judging == {*BY_CRITERIA}


@pytest.mark.parametrize("verb", BY_CRITERIA)
def test_criteria_are_one_value_or_keywords(verb: str, czech: Table) -> None:
    ask, given = getattr(sdc, verb), {"min_width": 6, "small_count": 3}
    whole = ask(czech, **BY_CRITERIA[verb], criteria=sdc.criteria(**given))
    one_by_one = ask(czech, **BY_CRITERIA[verb], **given)
    assert whole.headline == one_by_one.headline
    assert whole.to_arrow() == one_by_one.to_arrow()
    for words, message in (
        ({}, "min_width is missing: .* such as min_width=3; there is no default"),
        ({"criteria": sdc.criteria(min_width=6), "min_frequency": 3}, "criteria are given, and min_frequency too"),
        ({"criteria": 6}, "criteria of .* is of the type int; give criteria, which sdc.criteria gives"),
        ({"min_width": None}, "min_width is missing|min_width of .* is of the type NoneType"),
        ({"min_width": 6, "criteria": sdc.criteria(min_width=6)}, "criteria are given, and min_width too"),
        ({"min_widht": 6, "min_width": 6}, "min_widht is not a setting of .*; did you mean min_width"),
    ):
        with pytest.raises(InputError, match=message):
            ask(czech, **BY_CRITERIA[verb], **words)


@pytest.mark.parametrize(
    ("verb", "given", "message"),
    [
        ("redesign", {"posterior_limit": sdc.PosteriorLimit(max_above=0.5)}, "no recode is shown to help"),
        ("find_release", {"posterior_limit": sdc.PosteriorLimit(max_above=0.5)}, "no search may cut by a refusal"),
        ("suppress", {"min_frequency": 3}, "it suppresses by the small count alone"),
        (
            "suppress",
            {"attribute_disclosure": sdc.AttributeDisclosure(("A",), 3)},
            "it suppresses by the small count alone",
        ),
    ],
)
def test_criteria_that_a_verb_does_not_take(verb: str, given: dict[str, Any], message: str, czech: Table) -> None:
    with pytest.raises(ConfigError, match=message):
        getattr(sdc, verb)(czech, **BY_CRITERIA[verb], min_width=6, **given)


def test_a_search_is_heard(czech: Table) -> None:
    heard = list[Any]()
    sdc.find_release(czech, "ordered", min_width=6, watch=sdc.Watch(on_step=heard.append))
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
    released = sdc.find_release(czech, "ordered", sdc.knowledge(czech, structural_zeros=EMPTY_CELL), min_width=7)
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
    found = sdc.find_release(czech, "ordered", ["A*B*C*F"], min_width=6)
    assert found.release.contains(Release.of([0b100111]))
    for method in ("decomposable", "simulatable"):
        with pytest.raises(ConfigError, match="not sought beside earlier publications; choose ordered"):
            sdc.find_release(czech, method, ["A*B*C*F"], min_width=6)
    best = sdc.find_release(czech, "best", ["A*B*C*F"], min_width=6)
    assert best.release == found.release
    # a graph is found without what is public, and what of it is safe beside that is a candidate
    methods = [one.method for one in best.candidates]
    assert methods == ["bisection", "greedy search", "annealing", "annealing extended"]
    with pytest.raises(ConfigError, match="not sought beside earlier publications"):
        sdc.risk_utility_curve(czech, ["A*B*C*F"], min_widths=[6])
    (point,) = sdc.risk_utility_curve(czech, ["A*B*C*F"], min_widths=[6], methods=["ordered"])
    assert point.sub_tables == found.release.sub_tables(czech.schema)


@pytest.mark.parametrize("release", ["A*B", {"A": 1}, [3], 3, b"A*B", None, pa.table({"A": ["x"]})])
def test_a_release_that_is_no_list_of_sub_tables(release: Any, czech: Table) -> None:
    said = "A\\*B'" if release == "A*B" else f"of the type {type(release).__name__}"
    with pytest.raises(
        ReleaseError, match=rf"{said} is not a list of sub-tables; give one such as \['age\*sex', 'race'\]"
    ):
        sdc.cell_bounds(czech, release)


def told(verb: str, table: Table, public: Any, **settings: Any) -> tuple[str, Any]:
    """What a verb says and gives by names, or why it refuses."""
    try:
        found = getattr(sdc, verb)(table, **{"release" if verb == "knowledge" else "public": public}, **settings)
    except SdcError as error:
        return type(error).__name__, str(error)
    return (repr(found), None) if isinstance(found, Knowledge) else (found.headline, found.to_arrow().to_pydict())


OF_A_RELEASE: dict[str, dict[str, Any]] = {
    "assess": {"min_width": 9},
    "cell_bounds": {"cells": "all"},
    "decomposable_models": {},
    "enumerate_tables": {},
    "find_release": {"method": "ordered", "min_width": 6},
    "fit": {},
    "knowledge": {},
    "posterior": {},
    "redesign": {"sub_table": "A*B*C*D*F", "min_width": 6, "merging": False},
    "risk_utility_curve": {"min_widths": [6], "methods": ["ordered"]},
    "sharp_bounds": {},
    "super_cell_bounds": {"cells": "A=no, B=no"},
    "suppress": {"by": "A*B*C*D*F", "min_width": 6, "small_count": 2},
    "uniques": {"fraction": 0.1, "model": "released"},
    "why": {"sub_table": "A*B*C*D*F", "min_width": 6},
}


@pytest.fixture(scope="module")
def found_by(czech: Table) -> Callable[[str], Found]:
    """By each class of results; the last beside a cell that cannot be, and a marginal that goes out in part."""
    settings: dict[str, dict[str, Any]] = {
        "ordered": {"method": "ordered"},
        "decomposable": {"method": "decomposable", "steps": 300, "chains": 1},
        "in_part": {"method": "ordered", "require": ["A*B*C*D*F"], "protect": [{"of": "A*B*C*D*F"}]},
    }

    @cache
    def found(kind: str) -> Found:
        known = sdc.knowledge(czech, structural_zeros=EMPTY_CELL if kind == "in_part" else None)
        release: Found = sdc.find_release(czech, public=known, min_width=6, **settings[kind])
        return release

    return found


def test_every_verb_that_takes_a_release_is_asked() -> None:
    assert {name for name in sdc.__all__ if "public" in inspect.signature(getattr(sdc, name)).parameters} == {
        name for name in OF_A_RELEASE if name != "knowledge"
    }


@pytest.mark.parametrize(
    ("kind", "verb"),
    [
        *(("in_part", verb) for verb in OF_A_RELEASE),
        *((kind, verb) for kind in ("ordered", "decomposable") for verb in ("assess", "cell_bounds", "why")),
    ],
)
def test_a_found_release_goes_into_every_verb(
    kind: str, verb: str, found_by: Callable[[str], Found], czech: Table
) -> None:
    """As all that is known once it is out: what is impossible and what goes out in part too."""
    found = found_by(kind)
    known = found.evaluation.knowledge
    assert known == sdc.knowledge(czech, found.release, structural_zeros=known.zeros, facts=known.facts)
    assert told(verb, czech, found, **OF_A_RELEASE[verb]) == told(verb, czech, known, **OF_A_RELEASE[verb])


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
    assert "Bounds of 1 super-cell by fractional, 1 of them exact" in repr(fractions)


def test_no_super_cell(czech: Table) -> None:
    with pytest.raises(InputError, match="no super-cell is given; give one such as"):
        sdc.super_cell_bounds(czech, ["A*B"], [])
    with pytest.raises(InputError, match="method = 'shuttle' with fractional"):
        sdc.super_cell_bounds(czech, ["A*B"], "A=no", method="shuttle", fractional=True)


def test_no_at_risk_cell(czech: Table) -> None:
    ample = Table.of(czech.schema, czech.codes, czech.counts + 2)
    with pytest.raises(InputError, match=r"no at-risk cell: .* every sub-table may be released"):
        sdc.cell_bounds(ample, ["A"])
    assert sdc.assess(ample, ["A"], min_width=1).releasable
    assert sdc.find_release(ample, "ordered", min_width=5).release == Release.of([63])
    for method in ("ordered", "decomposable", "best"):
        found = sdc.find_release(ample, method, min_width=5, forbid=["A*B"])
        assert found.frontier == ["A*C*D*E*F", "B*C*D*E*F"]
        assert str(found.reason).startswith("No cell is at risk: no count is from 1 to 2")
    # where it took all for that reason, what it refuses elsewhere would tell that a cell is at risk
    simulated = sdc.find_release(ample, "simulatable", min_width=5, forbid=["A*B"], draws=20)
    assert simulated.frontier == ["A*C*D*E*F", "B*C*D*E"]


@pytest.mark.parametrize(
    ("least", "reached"), [({"sub_tables": 60}, "sub_tables = 59"), ({"halvings": 12.0}, "halvings = 10.59")]
)
def test_what_a_release_must_be_worth(least: dict[str, float], reached: str, czech: Table) -> None:
    with pytest.raises(NotReleasableError, match=f"release.at_least: .*{reached}"):
        sdc.find_release(czech, "ordered", min_width=6, at_least=least)
    worth = {name: value - 2 for name, value in least.items()}
    found = sdc.find_release(czech, "ordered", min_width=6, at_least=worth)
    assert found.release.sub_tables(czech.schema) == 59


def test_a_setting_that_there_is_not(czech: Table) -> None:
    """Refused by its name, with the nearest that there is; and one that another method has is not looked at."""
    with pytest.raises(InputError, match=r"^chians is not a setting of a search; did you mean chains\? there are "):
        sdc.find_release(czech, "best", min_width=6, chians=2)
    with pytest.raises(InputError, match=r"^require_all is not a setting of a search; did you mean require\? "):
        sdc.risk_utility_curve(czech, NOTHING, min_widths=[6], require_all=["A"])
    with pytest.raises(InputError, match=r"^step is not a setting of a search; did you mean steps\? "):
        sdc.find_release(czech, "decomposable", min_width=6, step=2)
    with pytest.raises(InputError, match=r"^weight is not a setting of a table; there are variables, columns, csv, "):
        sdc.read_table(CZECH_CSV, weight="A")


def test_what_is_given_is_on_top_of_a_section(czech: Table) -> None:
    section = ReleaseConfig(require=("A*B",), annealing=AnnealingConfig(chains=1, steps=200, seed=3))
    found = sdc.find_release(czech, "decomposable", min_width=40, release=section, seed=5, require=None)
    assert 0b11 in found.release
    given = {"annealing": {"chains": 1, "steps": 200}, "seed": 5, "require": ["A*B"]}
    same = sdc.find_release(czech, "decomposable", min_width=40, **given)
    assert (same.release, same.trace) == (found.release, found.trace)
    assert {row.chain for row in found.trace} == {0}


@pytest.mark.parametrize(
    ("verb", "given", "message"),
    [
        ("assess", {"min_width": "6"}, "min_width of sdc.assess is of the type str; give a whole number"),
        ("find_release", {"min_width": True}, "min_width of sdc.find_release is of the type bool; give a whole"),
        ("find_release", {"method": 3}, "method of sdc.find_release is of the type int; give a text"),
        ("find_release", {"executor": "local"}, "executor of sdc.find_release is of the type str; give an executor"),
        ("find_release", {"posterior_limit": 0.5}, "posterior_limit of .* is of the type float; give an"),
        ("risk_utility_curve", {"min_widths": 6}, "min_widths of .* is of the type int; give a list of whole numbers"),
        ("risk_utility_curve", {"methods": "ordered"}, "methods of .* is of the type str; give a list of texts"),
        ("publish", {"found": BY_NAME}, "found of .* is of the type list; give a release that was found"),
        ("round", {"base": 2.0}, "base of .* is of the type float; give a whole number"),
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
    called = getattr(getattr(sdc, verb), "function", getattr(sdc, verb))
    needed = {
        name
        for name, one in inspect.signature(called).parameters.items()
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    }
    with pytest.raises(InputError, match=message):
        called(**{name: right[name] for name in needed - {*given}}, **given)


def test_a_verb_without_a_needed_argument_says_how_it_is_called(czech: Table) -> None:
    with pytest.raises(InputError, match=r"sdc\.suppress\(table, by\): missing a required argument: 'by'"):
        sdc.suppress(czech)  # type: ignore[call-arg]
    says = r"sdc\.assess\(table, public\): .* 'public'; public is what is public already, \[\] if nothing is"
    with pytest.raises(InputError, match=says):
        sdc.assess(czech, min_width=3)  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"perc is not a setting of a magnitude table; did you mean"):
        sdc.magnitude_table(CZECH_CSV, value="count", by=["A"], perc=10)


def test_rules_hold_at_each_point_of_a_curve(czech: Table) -> None:
    """With no count from 1 to 19 the ordered release of width 6 has 53 sub-tables, without that rule 59."""
    asked: dict[str, Any] = {"min_widths": [6], "methods": ["ordered"]}
    (few,), (all_,) = (sdc.risk_utility_curve(czech, NOTHING, **asked, **more) for more in ({"min_frequency": 20}, {}))
    alone = sdc.find_release(czech, "ordered", min_width=6, min_frequency=20)
    assert (few.sub_tables, all_.sub_tables) == (alone.sub_tables, 59) == (53, 59)
    rule = sdc.AttributeDisclosure(("A",), 10)
    (none,) = sdc.risk_utility_curve(czech, NOTHING, **asked, attribute_disclosure=rule)
    assert none.sub_tables == sdc.find_release(czech, "ordered", min_width=6, attribute_disclosure=rule).sub_tables
    with pytest.raises(ConfigError, match="earlier publications may break the rule already"):
        sdc.risk_utility_curve(czech, ["A*B"], **asked, min_frequency=20)


@pytest.mark.parametrize("method", METHODS)
def test_a_width_below_one_is_refused_everywhere(method: str, czech: Table) -> None:
    for width, small, message in ((0, 2, "min_width is 0; give at least 1, or nothing"), (3, 0, "small_count is 0")):
        with pytest.raises(InputError, match=message):
            sdc.find_release(czech, method, min_width=width, small_count=small)
        with pytest.raises(InputError, match=message):
            sdc.assess(czech, [], min_width=width, small_count=small)


@pytest.mark.parametrize(
    ("method", "section", "fault"),
    [
        ("ordered", {"of": "A*B", "by": "recoding"}, "needs levels, which a build gives its table; use sdc run"),
        ("decomposable", {"of": "A*B"}, "suppression is sought beside a release that grows"),
        ("simulatable", {"of": "A*B", "by": "rounding", "base": 5}, "suppression depends on the records"),
    ],
)
def test_what_does_not_go_out_in_part_from_python_is_refused(
    czech: Table, method: str, section: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        find_release(czech, method, min_width=6, protect=[section])
    with pytest.raises(ConfigError, match=r"is asked of whole sub-tables|needs levels"):
        risk_utility_curve(czech, NOTHING, min_widths=[6], protect=[section])


def test_numbers_of_numpy_are_numbers(czech: Table) -> None:
    assert sdc.assess(czech, BY_NAME, min_width=np.array([9])[0]).releasable is True
