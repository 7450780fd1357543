"""The numbers on a report's first page and in its sections, against the files of the run that it is about."""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from html import unescape
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from sdc.bounds import method
from sdc.executor import IN_PROCESS
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from sdc.storage.parquet import read_written_table
from tests.conftest import CZECH_CSV

Names = tuple[str, ...]
NUMBER = r"\d[\d,]*(?:\.\d+)?"


def numbers_in(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(NUMBER, text)]


@dataclass(frozen=True)
class Run:
    """A finished run by its files alone; marginals are summed here."""

    folder: Path

    def document(self, path: str) -> dict[str, Any]:
        return dict(json.loads((self.folder / path).read_text()))

    @cached_property
    def report(self) -> str:
        return (self.folder / "confidential" / "report.html").read_text()

    @cached_property
    def first_page(self) -> str:
        """Its words, without the links to what explains them."""
        text = self.report[self.report.index('<section id="decision">') : self.report.index("<nav ")]
        text = re.sub('<a class="to".*?</a>', "", text)
        return " ".join(unescape(re.sub("<[^>]*>", " ", text)).split())

    @cached_property
    def config(self) -> dict[str, Any]:
        return dict(self.document("manifest.json")["config"])

    @property
    def small_count(self) -> int:
        return int(self.config["risk"]["small_count"])

    @property
    def least(self) -> int:
        return int(self.config["risk"]["min_width"])

    @cached_property
    def earlier(self) -> dict[str, Any]:
        return self.document("table/known.json")

    @cached_property
    def categories(self) -> dict[str, Names]:
        return {v.name: v.categories for v in read_written_table(self.folder / "table").schema.variables}

    @cached_property
    def cells(self) -> Counter[Names]:
        found = Counter[Names]()
        for file in (self.folder / "table").glob("part-*.parquet"):
            for *cell, count in zip(*pq.read_table(file).to_pydict().values(), strict=True):
                found[tuple(cell)] += count
        return found

    def marginal(self, names: Names) -> Counter[Names]:
        places, found = [[*self.categories].index(name) for name in names], Counter[Names]()
        for cell, count in self.cells.items():
            found[tuple(cell[place] for place in places)] += count
        return found

    @cached_property
    def resources(self) -> list[dict[str, Any]]:
        """What the data package says of each file with a sub-table."""
        return [one for one in self.document("release/datapackage.json")["resources"] if one.get("sub_table")]

    @cached_property
    def tables(self) -> list[Names]:
        """The sub-tables that are published whole and that no other implies."""
        found = dict.fromkeys(tuple(one["sub_table"]) for one in self.resources if "in_part" not in one)
        return [names for names in found if not any({*names} < {*other} for other in found)]

    @cached_property
    def within(self) -> set[frozenset[str]]:
        return within(self.tables)

    @property
    def known(self) -> list[Names]:
        return [tuple(names) for names in self.earlier["release"] if names]

    @cached_property
    def at_risk(self) -> int:
        return sum(count <= self.small_count for count in self.cells.values())

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(at-risk cells, 2) the recorded inner and outer bounds."""
        found = pq.read_table(self.folder / "assessment" / "cells.parquet").to_pydict()
        assert len(found["count"]) == self.at_risk
        inner, outer = (np.array([found[f"{kind}_lower"], found[f"{kind}_upper"]]).T for kind in ("inner", "outer"))
        return inner, outer

    @property
    def widths(self) -> list[int]:
        """The smallest inner and outer one, or one number if they are the same."""
        return [*dict.fromkeys(int(np.ptp(bounds, axis=1).min()) for bounds in self.bounds)]

    @property
    def undecided(self) -> int:
        return int((np.ptp(self.bounds[0], axis=1) < self.least).sum())

    @property
    def sharp(self) -> int:
        return int((self.bounds[0] == self.bounds[1]).all(axis=1).sum())

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        return list(self.document("search/search.json")["steps"])

    @property
    def refuted(self) -> list[dict[str, Any]]:
        return [step for step in self.steps if step["answer"] is False]

    @cached_property
    def withheld(self) -> list[Names]:
        """The withheld cells of the one sub-table that is public in part."""
        found = self.document("search/search.json").get("in_part")
        (fact,) = self.earlier["facts"] if found is None else found["facts"]
        file = "table/known_0.parquet" if found is None else "search/withheld_0.parquet"
        columns = pq.read_table(self.folder / file).to_pydict()
        codes = zip(*(columns[v] for v in fact["view"]), strict=True)
        return [tuple(self.categories[v][c] for v, c in zip(fact["view"], cell, strict=True)) for cell in codes]


def within(tables: list[Names]) -> set[frozenset[str]]:
    """All sub-tables within these, with the grand total; of variables without levels."""
    kept = (some for table in tables for size in range(len(table) + 1) for some in combinations(table, size))
    return {frozenset(), *map(frozenset, kept)}


# The runs


def built(folder: Path, **sections: Any) -> Run:
    content = {"name": "czech", "table": {"path": str(CZECH_CSV)}, "risk": {"small_count": 2, "min_width": 6}}
    content |= {"execution": {"cluster": "in-process"}, "output": {"folder": str(folder / "runs")}} | sections
    (folder / "build.yaml").write_text(yaml.safe_dump(content))
    build = open_build(folder / "build.yaml")
    run_all(build, IN_PROCESS)
    return Run(build.folder.path)


def published_before(folder: Path, of: str, pressure: str = "", shown_above: int = -1) -> dict[str, Any]:
    """A folder with a marginal table, of records of this pressure alone, and with its larger counts alone."""
    header, *records = [line.split(",") for line in CZECH_CSV.read_text().splitlines()]
    counts = Counter[Names]()
    for record in records:
        at = dict(zip(header, record, strict=True))
        counts[tuple(at[v] for v in of)] += int(at["count"]) if pressure in ("", at["D"]) else 0
    lines = [f"{','.join(cell)},{count if count > shown_above else ''}" for cell, count in counts.items()]
    (folder / of).mkdir()
    (folder / of / "table.csv").write_text("\n".join([",".join([*of, "count"]), *lines]))
    return {"folder": of, **({"where": {"D": [pressure]}} if pressure else {})}


def with_zeros(folder: Path) -> Run:
    (folder / "impossible.yaml").write_text('- {A: yes, B: no, C: no, D: ">=140", E: ">=3", F: pos}\n')
    return built(folder, table={"path": str(CZECH_CSV), "structural_zeros": "impossible.yaml"})


def with_bad_records(folder: Path) -> Run:
    """200 records of age and sex, some of which have a sex that is in no group."""
    random = np.random.default_rng(3)
    lines = [f"{a},{b}" for a, b in random.integers(0, (6, 3), (200, 2)).tolist()]
    (folder / "ages.csv").write_text("\n".join(["age,sex", *lines]))
    table = {"path": "ages.csv", "recodes": {"sex": {"groups": {"f": ["0"], "m": ["1"]}}}}
    return built(folder, table={**table, "invalid_records": "exclude"}, risk={"small_count": 12, "min_width": 4})


def with_weights(folder: Path) -> Run:
    random = np.random.default_rng(3)
    a, b, d = (random.integers(0, size, 4000) for size in (4, 3, 2))
    c, e = (a + random.integers(0, 3, 4000)) % 4, (random.random(4000) ** 3 * 5).astype(int)
    columns = (a, b, c, d, e, np.round(random.lognormal(5, 0.7, 4000), 2))
    (folder / "w.csv").write_text(
        "\n".join(["a,b,c,d,e,w", *(",".join(map(str, row)) for row in zip(*columns, strict=True))])
    )
    totals = {"round": 500, "publish": "beside", "programs": 1000}
    table = {"path": "w.csv", "weight": "w"}
    return built(folder, table=table, weighted=totals, risk={"small_count": 2, "min_width": 4})


def bracketed(folder: Path) -> Run:
    """A table that is large for the methods that bound all of it, and too little time for any proof."""
    random = np.random.default_rng(1)
    codes = np.minimum(random.exponential(0.9, (20_000, 5)).astype(int), np.array([4, 5, 4, 4, 3]) - 1)
    (folder / "large.csv").write_text("\n".join(["A,B,C,D,E", *(",".join(map(str, row)) for row in codes.tolist())]))
    release = {"max_evaluations": 12, "seconds": 0.001, "seconds_per_cell": 0.001}
    risk = {"small_count": 1, "min_width": 2, "accept_undecided": True}
    sharp = {"assessment": "sharp", "sharp_seconds": 0.001}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "LINEAR_ROWS", 0)
        return built(folder, table={"path": "large.csv"}, risk=risk, release=release, **sharp)


WHOLE = "A*B*C*D*E*F"
LOSSES = {"intruder": {"none": 0.72}, "agency": {"right": 1.0, "wrong": 0.25}}
ON_LOSSES = {"small_count": 2, "min_width": 6, "posterior": {"losses": LOSSES, "max_loss": 0.2}}
SHORT = {"method": "decomposable", "annealing": {"steps": 500}}
FORBIDDEN = {"require": ["A*B", "A*B*C*D*F"], "on_conflict": "drop", "forbid": [{"of": ["C", "E"]}]}
RUNS: dict[str, Callable[[Path], Run]] = {
    "plain": built,
    "prefix": lambda folder: built(folder, release={"method": "bisection"}),
    "best": lambda folder: built(folder, release={**SHORT, "method": "best"}),
    "required": lambda folder: built(folder, release=FORBIDDEN),
    "losses": lambda folder: built(folder, risk=ON_LOSSES, release=SHORT),
    "earlier": lambda folder: built(
        folder, earlier=[published_before(folder, "AB"), published_before(folder, "C", "<140")]
    ),
    "known in part": lambda folder: built(folder, earlier=[published_before(folder, "ABCEF", shown_above=45)]),
    "withheld": lambda folder: built(folder, release={"require": ["A*B*C", WHOLE], "protect": "suppression"}),
    "rounded": lambda folder: built(
        folder, release={"require": ["A*B*C", WHOLE], "protect": [{"of": WHOLE, "by": "rounding", "base": 20}]}
    ),
    "zeros": with_zeros,
    "bad records": with_bad_records,
    "weights": with_weights,
    "bracketed": bracketed,
}
EVERY, BEFORE = {*RUNS}, {"earlier", "known in part"}


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of that name, made when first asked for."""
    return cache(lambda name: RUNS[name](tmp_path_factory.mktemp("run")))


def dimensions(run: Run) -> list[float]:
    """Published sub-tables by dimension, and the tables that they are within."""
    found = Counter(len(kept) for kept in run.within if kept)
    return [*(n for d in sorted(found) for n in (found[d], d)), len(run.tables)]


def refusals(run: Run) -> list[float]:
    """Of the refused questions all, those by proof, and those whose proof is kept, where some are."""
    kept = sum(step["refutation"] is not None for step in run.refuted)
    return [len(run.refuted), len(run.refuted), *[kept] * (kept > 0)]


def required(run: Run) -> list[float]:
    asked = run.config["release"]["require"]
    parts = {tuple(one["sub_table"]) for one in run.resources if "in_part" in one}
    return [sum(frozenset(t.split("*")) in run.within for t in asked), len(asked), *[len(parts)] * bool(parts)]


def both_editions(run: Run) -> list[float]:
    now, before = run.within, within(run.known)
    return [len(now | before) - 1, len(now - before), len(before - now), len(now & before) - 1]


def losses(run: Run) -> list[float]:
    """What is likely under the law released, and what the claims of an intruder cost."""
    found, limit = run.document("assessment/assessment.json")["likely"], run.config["risk"]["posterior"]
    claims, agency = found["claims"], limit["losses"]["agency"]
    cost = (claims["right"] * agency["right"] + claims["wrong"] * agency["wrong"]) / run.at_risk
    assert cost <= limit["max_loss"]
    likely = [found["above"], run.at_risk, found["above"] / run.at_risk, limit["threshold"], found["highest"]]
    return [*likely, claims["right"], claims["wrong"], cost, limit["max_loss"]]


def totals(run: Run) -> list[float]:
    """To multiples of what totals are rounded, and how many published tables have them, and have none."""
    fields = {tuple(one["sub_table"]): str(one.get("schema")) for one in run.resources}
    having = sum("weighted_total" in named for named in fields.values())
    return [run.config["weighted"]["round"], having, *[len(fields) - having] * (having < len(fields))]


FACTS: dict[str, tuple[Callable[[Run], list[float]], set[str]]] = {
    f"{NUMBER} records on .*? not zero": (
        lambda run: [
            sum(run.cells.values()),
            len(run.categories),
            prod(map(len, run.categories.values())),
            len(run.cells),
        ],
        EVERY,
    ),
    r"At risk: counts from .*? Required min width: \d+": (lambda run: [1, run.small_count, run.least], EVERY),
    f"Released {NUMBER} sub-tables .*? with it": (
        lambda run: [len(run.within) - 1, len(run.within), 1 << len(run.categories)],
        EVERY,
    ),
    f"{NUMBER} cells? of the full table .*?[.]": (lambda run: [run.at_risk, 1, run.small_count], EVERY),
    f"proved to have a width of .*? required is at least {NUMBER}": (
        lambda run: [*run.widths, run.least],
        EVERY,
    ),
    r"Undecided cells: \d+": (lambda run: [run.undecided], EVERY),
    r"Every cell .*? \d+ records?, of all .*? apart": (
        lambda run: [*[1] * (run.small_count > 1), run.small_count, len(run.categories), run.least],
        EVERY,
    ),
    f"by number of variables: .*? They are {NUMBER} tables?": (dimensions, EVERY),
    "The search refused .*? question.*? broken(, and .*? kept)?": (
        refusals,
        EVERY - {"required", "losses", "bad records", "weights", "bracketed"},
    ),
    f"{NUMBER} of {NUMBER} required sub-tables are published( whole, and {NUMBER} suppressed)?": (
        required,
        {"required", "withheld", "rounded"},
    ),
    "who claims a count where .*? he is wrong": (lambda run: [1 - 0.72, 0.2, 1.0, 0.25], {"losses"}),
    "under the law released .*? allowed": (losses, {"losses"}),
    "Readers of both have .*? each of the two": (both_editions, {"earlier"}),
    "Their largest tables of all records are .*? other categories": (lambda run: [len(run.known), 0], BEFORE),
    "Among the tables published now .*? known before": (
        lambda run: [sum(any({*t} <= {*known} for known in run.known) for t in run.tables)],
        BEFORE,
    ),
    r"is known but for \d+ suppressed": (lambda run: [len(run.withheld)], {"known in part"}),
    r"\d+ sub-tables? with suppression: \d+ cells?": (lambda run: [1, len(run.withheld)], {"withheld"}),
    r"They hold [\d.]+% of the records": (
        lambda run: [round(100 * sum(run.cells[cell] for cell in run.withheld) / sum(run.cells.values()), 1)],
        {"withheld"},
    ),
    r"a multiple of \d+ that is less than \d+ away": (lambda run: [20, 20], {"rounded"}),
    r"Knows \d+ patterns? of impossible": (lambda run: [1], {"zeros"}),
    f"{NUMBER} of {NUMBER} records read were excluded": (
        lambda run: [200 - sum(run.cells.values()), 200],
        {"bad records"},
    ),
    "rounded to multiples of .*? published of .*? tables(.*? are not)?": (totals, {"weights"}),
    f"bounds of {NUMBER} of them are sharp": (lambda run: [run.sharp], {"bracketed"}),
    f"the other {NUMBER} are bracketed": (lambda run: [run.at_risk - run.sharp], {"bracketed"}),
    f"{NUMBER} of {NUMBER} cells? at risk rest on no proof": (lambda run: [run.undecided, run.at_risk], {"bracketed"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_first_page_has_the_numbers_of_the_run(name: str, run_of: Callable[[str], Run]) -> None:
    run = run_of(name)
    for pattern, (expected, runs) in FACTS.items():
        found = re.search(pattern, run.first_page)
        assert (found is not None) == (name in runs), (pattern, run.first_page)
        if found is not None:
            assert numbers_in(found[0]) == pytest.approx(expected(run), abs=5e-5), found[0]
    ran = run.document("search/search.json")["method"]
    assert f"The method that ran is “{ran}”" in run.report
    assert (ran == "bisection") == ('id="bisection"' in run.report)


# Sections behind it


def words_of(cells: str) -> list[str]:
    return [re.sub("<.*?>", "", cell) for cell in re.findall("<t[dh].*?</t[dh]>", cells)]


def test_a_bisection_is_listed_prefix_by_prefix(run_of: Callable[[str], Run]) -> None:
    """Against the widths and the search's own record: each prefix with its last sub-table, the longest."""
    run = run_of("prefix")
    widths = pq.read_table(run.folder / "widths" / "widths.parquet").to_pydict()
    listed = [(s, w) for s, w in zip(widths["sub_table"], widths["critical_width"], strict=True) if w >= 6]
    longest = max(step["length"] for step in run.steps if step["answer"])
    (course,) = re.findall('<p id="course">(.*?)</p>', run.report, re.DOTALL)
    assert numbers_in(course) == [len(listed), len(run.steps), longest]
    table = run.report[run.report.index('id="bisection"') :]
    cells = words_of(table[: table.index("</table>")])
    for number, step in enumerate(run.steps, 1):
        label, width = listed[step["length"] - 1]
        row = cells[7 * number : 7 * number + 7]
        assert row[:4] == [str(number), str(step["length"]), label, str(width)]
        assert row[5] == f"[{step['min_width'][0]}, {step['min_width'][1]}]"


@pytest.mark.parametrize("name", ["plain", "prefix", "best"])
def test_each_proof_of_a_refusal_is_listed(name: str, run_of: Callable[[str], Run]) -> None:
    run = run_of(name)
    proven = [step["refutation"] for step in run.refuted if step["refutation"] is not None]
    rows = run.report[run.report.index('id="refutations"') :]
    listed = re.findall(r'<th scope="row">(\w+)</th>', rows[: rows.index("</table>")])
    assert {*listed} == {*proven}
