"""What an attack on a published folder got right, by the run that published it, in Python and by the command."""

import csv
import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
import yaml
from hypothesis import assume, given
from typer.testing import CliRunner, Result

import sdc as in_python
from sdc.commands.cli import app
from sdc.config.earlier import EarlierConfig
from sdc.data.reading import read_table
from sdc.executor import IN_PROCESS
from sdc.intruder.guesses import ALONE, Guesses, Right, Values
from sdc.model.errors import ConfigError, InputError, SdcError
from sdc.model.fact import Fact
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.table import Table
from sdc.public import mixture
from sdc.public.attack import Attack, Measurement, Target, attack_on, guesses, public_tables
from sdc.public.check import read_all
from sdc.public.published import Published
from sdc.public.relation import relations_given
from sdc.run_format import TOTAL
from sdc.stages.answers import judged_by
from sdc.stages.build import Build, open_build
from sdc.stages.resolved import ResolvedInput, knowledge
from sdc.stages.stages import run_all
from sdc.stages.table import check_before
from sdc.storage.parquet import write_csv
from sdc.storage.results import read_guesses
from tests.conftest import CZECH_CSV
from tests.facts import FactCase, fact_cases
from tests.helpers import builds
from tests.helpers.builds import report_of
from tests.helpers.capability_cases import sdc
from tests.helpers.folders import contents
from tests.integration.public.test_attack import Scaling, on, sums
from tests.strategies import czech, dense, schema_of

CZECH: dict[str, Any] = {
    "name": "czech",
    "table": {"path": str(CZECH_CSV)},
    "risk": {"small_count": 2, "min_width": 6},
    "posterior": {"laws": ["uniform"]},
}


class Knowing:
    """Guesses a table as it is."""

    method = "knowing"

    def __init__(self, table: Table) -> None:
        self.table = table

    def __call__(self, target: Target, seeds: Sequence[int]) -> Values:
        return np.stack([on(target.schema, self.table) + 0.4 for _ in seeds])


class Installed(Scaling):
    """In place of what is installed apart."""

    def require(self) -> None:
        """It is there."""


def built(folder: Path, config: dict[str, Any]) -> Path:
    """The run of a build."""
    return builds.built(builds.written(folder, **config)).folder.path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("czech"), CZECH)


def attacked(run: Path, seeds: Sequence[int] = (0, 1)) -> Attack:
    return attack_on(read_all([run / "release"], ()), seeds, Scaling())


def truth_of(found: Attack, run: Path, published: Path | None = None) -> dict[str, Any]:
    """What is right of it by the run."""
    return judged_by(run, published or run / "release")(found).facts


def test_what_is_guessed_right_of_the_czech_table(run: Path) -> None:
    found = attacked(run)
    told = truth_of(found, run)
    truth = on(found.schema, czech())
    small = (truth > 0) & (truth <= 2)
    for name, guess in found.by_intruder.items():
        right = np.rint(guess) == truth
        said = {"cells": right.sum(), "at_risk": (right & small).sum(), "provable": 0}
        assert told["right"][name] == said | {"claimed": np.isin(np.rint(guess), (1, 2)).sum()}
    assert told["right"]["seed 0"] == told["mean"]
    assert told["right"]["seed 0"]["cells"] > 2 * told["right"][ALONE]["cells"]
    assert (told["at_risk_cells"], told["certain_cells"], told["min_width"], told["width_kept"]) == (3, 0, 6, True)
    assert [one["outer"] for one in told["cells"]] == [[0, 9], [0, 9], [0, 10]]
    assert [one["count"] for one in told["cells"]] == [2, 2, 1]
    likely = {tuple(one["cell"].values()): one for one in sdc("posterior", run, "--law", "uniform")[1]["cells"]}
    for one in told["cells"]:
        own = likely[tuple(one["cell"][name] for name in "ABCDEF")]
        assert own["count"] == one["count"]
        assert one["posterior"] == {"uniform": pytest.approx(own["probabilities"][own["count"] - own["from"]])}
        place = int(found.schema.keys.pack(np.array([found.schema.cell(one["cell"])]))[0])
        assert one["guessed"] == {name: guess[place] for name, guess in found.by_intruder.items()}


def test_a_right_guess_is_provable_where_a_record_is_certain(tmp_path: Path) -> None:
    """Of rows and columns of 11 and 9 the cell of 2 has 11 + 11 - 20 at least, and up to 11."""
    table = dense(schema_of([2, 2]), [2, 9, 9, 0])
    names, categories = table.schema.names, table.schema.variables[0].categories
    rows = [[categories[a], categories[b], n] for (a, b), n in zip(table.codes.tolist(), table.counts, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(",".join(map(str, row)) for row in [[*names, "count"], *rows]) + "\n")
    run = built(tmp_path, {"name": "t", "table": {"path": str(tmp_path / "t.csv")}, "risk": {"min_width": 3}})
    found = attack_on(read_all([run / "release"], ()), (7,), Knowing(table))
    told = truth_of(found, run)
    assert (told["at_risk_cells"], told["certain_cells"]) == (1, 1)
    assert told["right"]["seed 7"] == {"cells": 4, "at_risk": 1, "provable": 1, "claimed": 1}
    assert told["right"][ALONE] == {"cells": 0, "at_risk": 0, "provable": 0, "claimed": 0}
    assert [(one["count"], one["outer"]) for one in told["cells"]] == [(2, [2, 11])]


def test_a_copy_is_attacked_as_the_folder_is_and_no_other_one(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run / "release", tmp_path / "copy"))
    assert truth_of(attacked(run), run, copy) == truth_of(attacked(run), run)
    with pytest.raises(ConfigError, match=r"copy is not a run folder; name the run that published .*release"):
        judged_by(copy, run / "release")
    (copy / "README.txt").write_text("other words")
    with pytest.raises(ConfigError, match=r"copy is not what .* has published; name that run's release, or a copy"):
        judged_by(run, copy)


def test_what_the_table_has_not_is_refused(tmp_path: Path) -> None:
    for text, message in (
        (
            "A,Z,count\nno,x,5\nyes,y,3\n",
            "'Z' is published and is not a variable of the table; give its variable by --relations",
        ),
        (
            "A,B,count\nno,no,5\nyes,yes,3\n",
            "'C' is a variable of the table and is not published, so no cell can be guessed",
        ),
        (
            "A,B,C,D,E,F,count\nno,no,no,<140,<3,neg,5\n",
            "records of the table have categories of 'A' that are not published; give by --relations the groups",
        ),
    ):
        (tmp_path / "t.csv").write_text(text)
        found = attack_on(read_all([tmp_path / "t.csv"], ()), (), Scaling())
        with pytest.raises(InputError, match=message):
            guesses(found, czech(), 2)


# What of a table is public


class Noting(Scaling):
    """Notes what is to be fitted, and guesses nothing."""

    def __call__(self, target: Target, seeds: Sequence[int]) -> Values:
        self.target = target
        return np.zeros((len(seeds), target.schema.cells))


def fitted(tables: Iterable[tuple[Published, EarlierConfig]]) -> list[tuple[list[str], int, list[Any]]]:
    """What an attack is fitted to: of each table its variables by name, its base, and the counts, -1 where none is."""
    noting = Noting()
    attack_on([*tables], (0,), noting)
    return sorted(map(partial(_by_names, noting.target.schema), noting.target.measurements))


def _by_names(schema: Schema, one: Measurement) -> tuple[list[str], int, list[Any]]:
    names = [schema.names[v] for v in one.variables]
    counts = np.append(one.counts, -1)[one.place].reshape([schema.sizes[v] for v in one.variables])
    order = np.argsort(names)
    return sorted(names), one.base, counts.transpose(order).tolist()


PART = "A*B*C*D*F"
WISHES: dict[str, dict[str, Any]] = {
    "whole": {},
    "withheld": {"require": [PART], "protect": [{"of": PART}]},
    "rounded": {"require": [PART], "protect": [{"of": PART, "by": "rounding", "base": 20}]},
}


@pytest.mark.parametrize("way", WISHES)
def test_a_build_is_fitted_to_what_its_folder_tells(way: str, tmp_path: Path) -> None:
    """Whole, in part with cells withheld, and rounded with its margins."""
    run = built(tmp_path, CZECH | {"release": WISHES[way], "posterior": None})
    about = ResolvedInput.open(str(run))
    told = [*public_tables(about.table, about.public(None))]
    assert fitted(told) == fitted(read_all([run / "release"], ()))
    parts = [(one.label, one.base, len(one.suppressed) > 0) for one, _ in told if not one.is_exact]
    assert parts == {"whole": [], "withheld": [(PART, 0, True)], "rounded": [(PART, 20, False)]}[way]


def test_a_build_is_fitted_to_what_was_published_before_too(tmp_path: Path) -> None:
    """A rounded table, one with a cell withheld, and one of some records, as whoever has all the files reads them."""
    table = read_table(CZECH_CSV)
    rounded = in_python.controlled_rounding(table.marginal("A*C"), base=20).to_arrow().to_pydict()
    cells = list(zip(*rounded.values(), strict=True))
    for c in dict.fromkeys(rounded["C"]):  # a rounded table by itself has some of its sums
        cells.append((TOTAL, c, sum(count for _, own, count in cells if own == c)))
    write_csv(tmp_path / "rounded.csv", dict(zip(rounded, map(list, zip(*cells, strict=True)), strict=True)))
    part = table.marginal("B*E").to_arrow().to_pydict()
    write_csv(tmp_path / "part.csv", part | {"count": [None, *part["count"][1:]]})
    some = table.to_arrow().filter(pc.field("F") == "pos").group_by(["D", "E"]).aggregate([("count", "sum")])
    write_csv(tmp_path / "some.csv", some.rename_columns(["D", "E", "count"]).to_pydict())
    earlier: list[dict[str, Any]] = [{"folder": str(tmp_path / f"{name}.csv")} for name in ("rounded", "part", "some")]
    earlier[2]["where"] = {"F": ["pos"]}
    constraints = {"require": ["A*B", *"CDEF"], "required_only": True}
    run = built(tmp_path, {**CZECH, "posterior": None, "release": constraints, "earlier": earlier})
    about = ResolvedInput.open(str(run))
    told = [*public_tables(about.table, about.public(None))]
    assert fitted(told) == fitted(
        read_all([run / "release", *(one["folder"] for one in earlier)], relations_given(earlier))
    )
    assert {one.label: (one.base, len(one.suppressed)) for one, _ in told if not one.is_exact} == {
        "A*C": (20, 0),
        "B*E": (0, 1),
    }
    assert [(one.label, {**of.where}) for one, of in told if of.where] == [("D*E*F", {"F": ("pos",)})]


def test_totals_beside_cells_without_a_count_are_fitted(tmp_path: Path) -> None:
    """Of a table that somebody else has published: a row and a column are told, of their cells not all."""
    of_b, of_a = "(total),u,11\n(total),v,17", "x,(total),\ny,(total),\n(total),(total),28"
    (tmp_path / "t.csv").write_text(f"a,b,count\nx,u,\nx,v,9\ny,u,\ny,v,8\n{of_b}\n{of_a}\n")
    (tmp_path / "a.csv").write_text("a,count\nx,11\ny,17\n")
    assert fitted(read_all([tmp_path / "t.csv", tmp_path / "a.csv"], ())) == [
        (["a"], 0, [11, 17]),
        (["a", "b"], 0, [[-1, 9], [-1, 8]]),
        (["b"], 0, [11, 17]),
    ]


@given(fact_cases())
def test_nothing_is_fitted_that_is_not_so(case: FactCase) -> None:
    """Of facts of every kind, beside a release: exact counts are the table's, rounded ones less than the base away."""
    noting, truth = Noting(), case.table
    told = [*public_tables(truth, case.known)]
    try:
        attack_on(told, (0,), noting)
    except InputError as error:
        if not re.match("no published table (has exact counts of all records|of all records has)", str(error)):
            raise
        assume(False)
    for one in noting.target.measurements:
        off = np.abs(sums(one, noting.target, on(noting.target.schema, truth)) - one.counts)
        assert (off < max(one.base, 1)).all()


def test_of_no_records_nothing_is_told() -> None:
    """Those of `a0` in a group of the level that has only others."""
    schema = Schema(
        (
            Variable("a", ("a0", "a1", "a2")),
            Variable("b", ("b0", "b1")),
            Variable("g", ("g0", "g1"), Coarser("a", (0, 1, 1))),
        )
    )
    table = Table.of(schema, np.array([[0, 0], [1, 1]], np.uint16), np.array([3, 4]))
    known = knowledge(table, ["b"])
    before = [one.label for one, _ in public_tables(table, known)]
    assert before == ["b"]
    more = known.plus_facts([Fact(0b101, ((0, (0,)), (2, (1,))), None, "of nobody")])
    assert len(more.published) == 1
    assert [one.label for one, _ in public_tables(table, more)] == before


# In a build


def rebuilt(run: Path, more: dict[str, Any]) -> tuple[Build, dict[str, str]]:
    """The same build with more settings, where it was; and what became of its stages."""
    place = {"execution": {"cluster": "in-process"}, "output": {"folder": str(run.parents[1])}}
    path = run.parents[1] / "more.yaml"
    path.write_text(yaml.safe_dump(CZECH | place | more))
    build = open_build(path)
    return build, {record.name: record.status for record in run_all(build, IN_PROCESS)}


def test_a_build_may_guess_too(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rerun may add it: what was found stays, and the release too."""
    monkeypatch.setattr(mixture, "Mixture", Installed)
    before = contents(run / "release")
    build, statuses = rebuilt(run, {"attack": {"seeds": 2}})
    assert [name for name, status in statuses.items() if status == "done"] == ["attack", "confidential"]
    assert contents(build.folder.stage("release")) == before
    found, own = read_guesses(build.folder.stage("attack")), guesses(attacked(run), czech(), 2)
    assert isinstance(found, Guesses)
    assert (found.methods, found.names) == (own.methods, own.names)
    assert (found.cells, found.claimed) == (own.cells, own.claimed)
    assert found.expected == pytest.approx(own.expected)
    assert f"right by scaling {truth_of(attacked(run), run)['right']['seed 0']['at_risk']};" in report_of(build)


def test_whoever_guesses_knows_what_is_within_each_level(tmp_path: Path) -> None:
    """Of a group that a level tells all categories are taken to be alike."""
    rows = [f"{d},{c},{n}" for d, c, n in (("d0", "c0", 2), ("d1", "c0", 9), ("d2", "c0", 8), ("d2", "c1", 9))]
    (tmp_path / "t.csv").write_text("\n".join(["d,c,count", *rows]) + "\n")
    flat = read_table(tmp_path / "t.csv")
    schema = Schema((*flat.schema.variables, Variable("a", ("a0", "a1"), Coarser("d", (0, 0, 1)))))
    table = Table.of(schema, flat.codes, flat.counts)
    for name, expected in (("a", 11 / 2 * 19 / 28), ("d", 2 * 19 / 28)):
        known = knowledge(table, [name, "c"])
        found = guesses(attack_on([*public_tables(table, known)], (), Scaling()), table, 2)
        assert found.expected.tolist() == [pytest.approx([expected])]


def test_a_build_that_guesses_needs_the_extra_before_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mbi", None)
    for seeds, message in ((1, r"needs .*mbi.*; run"), (0, "nowhere.csv")):
        path = tmp_path / "build.yaml"
        path.write_text(yaml.safe_dump(CZECH | {"table": {"path": "nowhere.csv"}, "attack": {"seeds": seeds}}))
        with pytest.raises(SdcError, match=message):
            check_before(open_build(path))


# In Python


def right_of(found: Attack) -> Right:
    assert found.right is not None
    return found.right


def test_the_verb_says_what_the_command_says(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixture, "Mixture", Installed)
    _, told = sdc("attack", run / "release", "--truth", run, "--seeds", 2)
    found = in_python.attack(run / "release", truth=run, seeds=2)
    assert told == {
        "release": str(run / "release"),
        **json.loads(json.dumps(found.facts)),
        "truth": right_of(found).facts,
    }
    rows = right_of(found).to_arrow().to_pydict()
    assert [*rows] == [*"ABCDEF", "count", "outer_lower", "outer_upper", "seed 0", "seed 1", "independence"]
    assert sorted(zip(rows["outer_lower"], rows["outer_upper"], strict=True)) == [(0, 9), (0, 9), (0, 10)]
    assert len(found.to_arrow()) == 64
    assert in_python.attack(str(run / "release"), seeds=0).right is None


def test_a_found_release_is_attacked_with_its_table(run: Path) -> None:
    """As its folder is, and scored by the same bounds; nothing was promised of it."""
    table = in_python.read_table(CZECH_CSV)
    found = in_python.find_release(table, min_width=6)
    own, folder = in_python.attack(found, truth=table, seeds=0), in_python.attack(run / "release", truth=run, seeds=0)
    told, expected = right_of(own).facts, right_of(folder).facts
    for one, other in zip(told.pop("cells"), expected.pop("cells"), strict=True):
        assert one.pop("guessed") == pytest.approx(other.pop("guessed"))
        assert one | {"posterior": other["posterior"]} == other
    assert told | {"min_width": 6, "width_kept": True} == expected
    assert right_of(in_python.attack(found, truth=table, seeds=0, small_count=3)).facts["at_risk_cells"] > 3


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"release": ["A*B"]}, "public facts do not contain the table; give the table as truth"),
        ({"release": "published", "truth": "TABLE"}, "published is a published folder or file, .* name that run's fol"),
        ({"release": "published", "seeds": 101}, "seeds = 101; give the number of starts .*, from 0 to 100"),
        ({"release": "nowhere"}, "nowhere does not exist"),
        ({"release": ["A*B*C*D*E*F"], "truth": "TABLE", "small_count": 0}, "small_count is 0; give at least 1"),
    ],
)
def test_what_the_verb_does_not_take(given_: dict[str, Any], message: str) -> None:
    named = {"seeds": 0, **given_}
    if named.get("truth") == "TABLE":
        named["truth"] = in_python.read_table(CZECH_CSV)
    with pytest.raises(SdcError, match=message):
        in_python.attack(**named)


# The command


def said(*words: object) -> Result:
    return CliRunner().invoke(app, ["attack", *map(str, words)], catch_exceptions=False)


def test_the_command_says_what_was_guessed_right(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixture, "Mixture", Installed)
    words = run / "release", "--truth", run, "--seeds", 2
    status, told = sdc("attack", *words)
    expected = truth_of(attacked(run), run)
    assert (status, told["truth"]) == (0, expected)
    assert [told[name] for name in ("records", "cells", "published", "telling")] == [1841, 64, 6, 6]
    text = said(*words, "--out", tmp_path / "guessed.csv").stdout
    assert "3 cells of 1 to 2 records; 0 hold a record for certain" in text
    assert "width of at least 6: met" in text
    with (tmp_path / "guessed.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == [*"ABCDEF", "seed 0", "seed 1", "independence"]
    assert len(rows) == 64
