"""Each sentence of the first page, against the files of the run that it is about: one that nobody can check fails."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from html.parser import HTMLParser
from itertools import combinations, product
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

CZECH = Path(__file__).parents[3] / "configs" / "czech_auto_workers.csv"
PARTS = "h1", "h2", "p", "li"
Names = tuple[str, ...]


class FirstPage(HTMLParser):
    """What is said on the first page, sentence by sentence; tables, which are figures and names, apart.

    Without the links to what explains it.
    """

    _is_link = False

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sentences, self.cells = list[str](), list[str]()
        self._open, self._words = list[str](), list[str]()
        self.feed(text[text.index('<section id="first">') : text.index('<label class="all">')])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if ("class", "to") in attrs:
            self._is_link = True
        if tag in (*PARTS, "td", "th"):
            self._open.append(tag)
            self._words = []

    def handle_data(self, data: str) -> None:
        if self._is_link:
            return
        self._words.append(data)
        assert self._open or not data.strip(), f"{data!r} stands outside of what is read here"

    def handle_endtag(self, tag: str) -> None:
        self._is_link = self._is_link and tag != "a"
        if self._open and tag == self._open[-1]:
            self._open.pop()
            said = " ".join("".join(self._words).split())
            self._words = []
            if tag in PARTS:
                self.sentences += re.split(r"(?<=[.:])(?<!before:) (?=[A-Z“])|(?<=[.]) (?=[0-9])", said)
            else:
                self.cells.append(said)


@dataclass(frozen=True)
class Run:
    """A finished run by its files alone; marginals are summed here."""

    folder: Path

    @cached_property
    def config(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "manifest.json").read_text())["config"])

    @property
    def limit(self) -> dict[str, Any]:
        return dict(self.config["risk"]["posterior"])

    @property
    def losses(self) -> dict[str, Any]:
        return dict(self.limit["losses"])

    def document(self, path: str) -> dict[str, Any]:
        return dict(json.loads((self.folder / path).read_text()))

    @cached_property
    def cells(self) -> Counter[Names]:
        found: Counter[Names] = Counter()
        for file in sorted((self.folder / "table").glob("part-*.parquet")):
            columns = pq.read_table(file).to_pydict()
            for level, (axis, within) in self.levels.items():
                columns[level] = [within[category] for category in columns[axis]]
            for *cell, count in zip(*(columns[name] for name in [*self.own, "count"]), strict=True):
                found[tuple(cell)] += count
        return found

    @cached_property
    def names(self) -> Names:
        return read_written_table(self.folder / "table").schema.names

    @cached_property
    def hidden(self) -> set[str]:
        named = {name for one in self.resources for name in one.get("sub_table", ())}
        return set(self.earlier["hidden"]) - named

    @cached_property
    def earlier(self) -> dict[str, Any]:
        return self.document("table/known.json")

    @property
    def own(self) -> Names:
        return tuple(name for name in self.names if name not in self.hidden)

    @cached_property
    def levels(self) -> dict[str, tuple[str, dict[str, str]]]:
        """Of each level its axis, and in which category of it each category of that is."""
        variables = {v["name"]: v for v in self.document("table/schema.json")["variables"]}
        found = {}
        for name, own in variables.items():
            if "of" in own:
                categories, axis = variables[own["of"]["axis"]]["categories"], own["of"]["axis"]
                groups = (own["categories"][group] for group in own["of"]["groups"])
                found[name] = axis, dict(zip(categories, groups, strict=True))
        return found

    @property
    def axes(self) -> Names:
        return tuple(name for name in self.own if name not in self.levels)

    def told(self, name: str) -> dict[str, dict[str, str]]:
        """Of each coarser level of a variable in which category of it each of its own is."""
        found = {}
        for level, (axis, within) in self.levels.items():
            own = dict(zip(within, within, strict=True)) if name == axis else self.levels.get(name, ("", {}))[1]
            pairs = {(own[c], category) for c, category in within.items()} if own.keys() == within.keys() else set()
            if level != name and pairs and len(pairs) == len({one for one, _ in pairs}):
                found[level] = dict(pairs)
        return found

    @cached_property
    def categories(self) -> dict[str, Names]:
        return {v.name: v.categories for v in read_written_table(self.folder / "table").schema.variables}

    @cached_property
    def patterns(self) -> list[dict[str, set[str]]]:
        variables = read_written_table(self.folder / "table").schema.variables
        return [
            {variables[v].name: {variables[v].categories[code] for code in codes} for v, codes in pattern}
            for pattern in self.earlier["structural_zeros"]
        ]

    @cached_property
    def resources(self) -> list[dict[str, Any]]:
        found = self.document("release/datapackage.json")["resources"]
        return [one for one in found if one.get("sub_table") and "in_part" not in one]

    @cached_property
    def resources_in_part(self) -> list[dict[str, Any]]:
        found = self.document("release/datapackage.json")["resources"]
        return [one for one in found if "in_part" in one]

    @cached_property
    def tables(self) -> list[Names]:
        """The published ones that no other implies, by their files; without files of counts those of the search."""
        if self.has_counts:
            found = dict.fromkeys(tuple(one["sub_table"]) for one in self.resources)
            return [names for names in found if not any({*names} < {*other} for other in found)]
        return [tuple(names) for names in self.document("search/search.json")["frontier"] if names]

    @property
    def has_counts(self) -> bool:
        return (self.config["weighted"] or {}).get("publish") != "instead" or self.config["table"]["weight"] is None

    @cached_property
    def within(self) -> set[frozenset[str]]:
        """All sub-tables within the published ones, with the grand total; by the variables that tell the others."""
        choices = ([(None, name, *self.told(name)) for name in t] for t in self.tables)
        return {frozenset(filter(None, kept)) for own in choices for kept in product(*own)} | {frozenset()}

    @property
    def possible(self) -> int:
        """How many sub-tables there are: of each axis nothing, or one of its variables."""
        return prod(2 + sum(axis == name for axis, _ in self.levels.values()) for name in self.axes)

    def marginal(self, names: Names) -> Counter[Names]:
        places, found = [self.own.index(name) for name in names], Counter[Names]()
        for cell, count in self.cells.items():
            found[tuple(cell[place] for place in places)] += count
        return found

    def is_impossible(self, names: Names, cell: Names) -> bool:
        at = dict(zip(names, cell, strict=True))
        at |= {level: within[at[name]] for name in names for level, within in self.told(name).items()}
        return any(p.keys() <= at.keys() and all(at[v] in chosen for v, chosen in p.items()) for p in self.patterns)

    def every(self, names: Names) -> Iterator[Names]:
        return product(*(self.categories[name] for name in names))

    def small(self, names: Names) -> int:
        return sum(count <= self.config["risk"]["small_count"] for count in self.marginal(names).values())

    def zeros(self, names: Names) -> int:
        there = self.marginal(names)
        return sum(cell not in there and not self.is_impossible(names, cell) for cell in self.every(names))

    def groups(self, names: Names) -> int:
        """Combinations of the other variables whose records have one category of a variable that could have others."""
        there, found = self.marginal(names), 0
        for v in range(len(names)) if len(names) > 1 else ():
            by_group: dict[Names, list[str]] = {}
            for cell in there:
                by_group.setdefault((*cell[:v], *cell[v + 1 :]), []).append(cell[v])
            for group, met in by_group.items():
                # of all levels at which the records agree the finest: whoever has it has the others
                own = {c: c for c in self.categories[names[v]]}
                levels = [w for w in (own, *self.told(names[v]).values()) if len({w[c] for c in met}) == 1]
                if levels:
                    within = max(levels, key=lambda w: len({*w.values()}))
                    others = (c for c in own if within[c] != within[met[0]])
                    found += any(not self.is_impossible(names, (*group[:v], c, *group[v:])) for c in others)
        return found

    @cached_property
    def at_risk(self) -> int:
        return sum(count <= self.config["risk"]["small_count"] for count in self.cells.values())

    @cached_property
    def widths(self) -> tuple[int, int]:
        """Smallest inner and outer width of the recorded bounds."""
        found = pq.read_table(self.folder / "assessment" / "cells.parquet").to_pydict()
        assert len(found["count"]) == self.at_risk
        ends = [np.array(found[f"{kind}_upper"]) - np.array(found[f"{kind}_lower"]) for kind in ("inner", "outer")]
        return int(ends[0].min()), int(ends[1].min())

    @cached_property
    def undecided(self) -> int:
        found, least = pq.read_table(self.folder / "assessment" / "cells.parquet").to_pydict(), self.least
        widths = [np.array(found[f"{kind}_upper"]) - np.array(found[f"{kind}_lower"]) for kind in ("inner", "outer")]
        assert (widths[1] >= least).all()
        return int((widths[0] < least).sum())

    @cached_property
    def sharp(self) -> int:
        """Cells whose outer and inner bounds are the same, in a run that looked for sharp ones."""
        found = pq.read_table(self.folder / "assessment" / "cells.parquet").to_pydict()
        assert self.config["assessment"] == "sharp"
        ends = [zip(found[f"{kind}_lower"], found[f"{kind}_upper"], strict=True) for kind in ("outer", "inner")]
        return sum(outer == inner for outer, inner in zip(*ends, strict=True))

    @property
    def least(self) -> int:
        return int(self.config["risk"]["min_width"])

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        return list(self.document("search/search.json")["steps"])

    @cached_property
    def weighted(self) -> set[Names]:
        """Published tables with totals of weights."""
        return {
            tuple(one["sub_table"])
            for one in self.resources
            if any(f["name"] == "weighted_total" for f in one.get("schema", {}).get("fields", ()))
        }

    @cached_property
    def known(self) -> list[set[str]]:
        return [set(names) for names in self.earlier["release"] if names]

    @cached_property
    def before(self) -> set[frozenset[str]]:
        """All sub-tables within what was published before, with the grand total; of variables without levels."""
        sizes = ((t, size) for t in self.known for size in range(len(t) + 1))
        return {frozenset(kept) for t, size in sizes for kept in combinations(t, size)} | {frozenset()}


def number(text: str) -> int:
    return int(text.replace(",", ""))


def counted(run: Run, of: Callable[[Names], int], total: str, tables: str) -> bool:
    each = [of(t) for t in run.tables]
    return (sum(each), sum(n > 0 for n in each)) == (number(total), number(tables))


def is_limited(run: Run, above: str, cells: str, share: str, threshold: str, highest: str, most: str) -> bool:
    found, limit = run.document("assessment/assessment.json")["likely"], run.config["risk"]["posterior"]
    assert found["limit"]["max_above"] == limit["max_above"]
    return (
        (number(above), number(cells), f"{found['above'] / found['cells']:.4f}", threshold, highest, float(most))
        == (
            found["above"],
            run.at_risk,
            share,
            f"{limit['threshold']:g}",
            f"{found['highest']:.4f}",
            limit["max_above"],
        )
    ) and found["above"] <= limit["max_above"] * run.at_risk


def is_lost(run: Run, above: str, cells: str, right: str, wrong: str, cost: str, most: str) -> bool:
    found, agency = run.document("assessment/assessment.json")["likely"], run.losses["agency"]
    claims = found["claims"]
    own = number(right) * agency["right"] + number(wrong) * agency["wrong"]
    return (
        (number(above), number(cells), number(right), number(wrong))
        == (found["above"], run.at_risk, claims["right"], claims["wrong"])
        and cost == f"{own / run.at_risk:.4f}"
        and own <= run.limit["max_loss"] * run.at_risk
        and float(most) == run.limit["max_loss"]
    )


def is_fact(run: Run, view: str, variable: str, category: str, source: str) -> bool:
    """Of a universe of one variable; the view has the level that tells it, which is not named."""
    for fact in run.earlier["facts"]:
        ((v, codes),) = fact["universe"]
        named = [(run.names[v], run.categories[run.names[v]][code]) for code in codes]
        if named == [(variable, category)] and fact["source"] == source:
            return {*view.split("*"), variable} == {*fact["view"]}
    return False


def in_part(run: Run) -> tuple[list[Names], int]:
    """The withheld cells of the sub-table that is public in part, and how many of them are small."""
    found = run.document("search/search.json").get("in_part")
    (fact,) = run.earlier["facts"] if found is None else found["facts"]
    file = "table/known_0.parquet" if found is None else "search/withheld_0.parquet"
    columns = pq.read_table(run.folder / file).to_pydict()
    cells = [*zip(*(columns[v] for v in fact["view"]), strict=True)]
    named = [tuple(run.categories[v][code] for v, code in zip(fact["view"], cell, strict=True)) for cell in cells]
    counts = run.marginal(tuple(fact["view"]))
    return named, sum(0 < counts[cell] <= run.config["risk"]["small_count"] for cell in named)


def is_withheld(run: Run) -> bool:
    """Whether cells of sub-tables are withheld that go out now, or went out before."""
    before = any(fact["between"] for fact in run.earlier["facts"])
    return before or any("withheld" in one["in_part"] for one in run.resources_in_part)


def small_cells(run: Run, view: list[str]) -> list[Names]:
    return [cell for cell, count in run.marginal(tuple(view)).items() if 0 < count <= run.config["risk"]["small_count"]]


def statuses(run: Run) -> list[tuple[str, str]]:
    """What the published file of the sub-table in part says of cells without a count."""
    (path,) = (run.folder / "release" / one["path"] for one in run.resources_in_part if one["format"] == "csv")
    rows = [line.split(",")[-2:] for line in path.read_text().splitlines()]
    return [(count, status) for count, status in rows if not count]


def rounded(run: Run) -> dict[str, tuple[int, list[str]]]:
    """What the published files say of sub-tables that are rounded: to multiples of what, and with which margins."""
    return {
        "*".join(one["sub_table"]): (one["in_part"]["rounded_to"], ["*".join(m) for m in one["in_part"]["margins"]])
        for one in run.resources_in_part
        if "rounded_to" in one["in_part"]
    }


def merged(run: Run) -> list[Names]:
    """The published sub-tables with merged categories, by names."""
    found = (tuple(one["sub_table"]) for one in run.resources if "sub_table" in one)
    return [*dict.fromkeys(names for names in found if {*names} & {*run.earlier["merged"]})]


def is_near(run: Run, view: str, base: int) -> bool:
    """Whether each published count of a rounded sub-table, and each sum of these, is a multiple less than that away."""
    (path,) = (
        run.folder / "release" / one["path"]
        for one in run.resources_in_part
        if one["format"] == "csv" and "*".join(one["sub_table"]) == view
    )
    header, *rows = [line.split(",") for line in path.read_text().splitlines()]
    names = header[:-1]
    for kept in (names, *(margin.split("*") for margin in rounded(run)[view][1]), []):
        found, truth = Counter[Names](), Counter[Names](run.marginal(tuple(kept)))
        for *cell, count in rows:
            found[tuple(c for v, c in zip(names, cell, strict=True) if v in kept)] += int(count)
        if any(found[cell] % base or abs(found[cell] - truth[cell]) >= base for cell in found | truth):
            return False
    return True


def is_unmet(run: Run, rest: str) -> bool:
    table = run.config["table"]
    for part in rest.split("; "):
        name, values = part.split(": ")
        groups = (table["recodes"].get(name) or {}).get("groups") or {}
        groups = dict(groups) if isinstance(groups, list) else groups
        named = {*table["categories"].get(name, ()), *groups, *(v for own in groups.values() for v in own)}
        there = {cell[run.own.index(name)] for cell in run.cells}
        assert set(values.split(", ")) <= named - there
    return True


CONSTANT = {
    "Criterion": lambda run: True,
    "Variables": lambda run: True,
    "Signatures": lambda run: True,
    "What is published": lambda run: (run.folder / "release").is_dir(),
    "What was required": lambda run: bool(run.config["release"]["require"]),
    "What goes out with merged categories": lambda run: merged(run) != [],
    "What goes out is exact, a sub-table like all others.": lambda run: all(
        is_exact(run, one) for one in run.resources if tuple(one.get("sub_table", ())) in merged(run)
    ),
    "Which categories are merged was chosen by the counts of these sub-tables; how is taken as unknown to readers.": (
        lambda run: all(level in run.earlier["merged"] for _, level in run.earlier["tried"])
    ),
    "What goes out rounded": lambda run: bool(rounded(run)),
    "What goes out in part": lambda run: bool(run.resources_in_part),
    "What was published before": lambda run: bool(run.earlier["sources"]),
    "What the intruder is assumed to know": lambda run: True,
    "Totals of weights": lambda run: run.config["table"]["weight"] is not None,
    "The grand total alone.": lambda run: not run.tables,
    "Each of these groups is disclosed to everybody.": lambda run: any(run.groups(t) for t in run.tables),
    "The release is of the others.": lambda run: run.document("table/bad_records.json")["set_aside"] > 0,
    "Releasable: proved for every at-risk cell": lambda run: not run.at_risk or run.widths[0] >= run.least,
    "Releasable: proved for every at-risk cell and every small cell of sub-tables in part": lambda run: (
        run.widths[0] >= run.least and in_part(run)[1] > 0
    ),
    "Released without proof: some at-risk cells are undecided": lambda run: (
        run.undecided > 0 and run.config["risk"]["undecided"] == "outer" and (run.folder / "release").is_dir()
    ),
    "For every at-risk cell one of the two proofs succeeded.": lambda run: run.undecided == 0,
    "Neither proof succeeded there; the policy “outer” lets that through.": lambda run: run.undecided > 0,
    "No question that the search recorded stayed undecided.": lambda run: (
        bool(run.steps) and all(step["answer"] is not None for step in run.steps)
    ),
    "Warning.": lambda run: True,
    "Has no answer of the table server but those that are among what was published before: its answers are in its own "
    "history, which sdc audit checks.": lambda run: run.config["server"] is not None,
    "More time changes nothing about these.": lambda run: any(step["answer"] is False for step in refused(run)),
    "More time may let these out.": lambda run: any(step["answer"] is None for step in refused(run)),
    "For lack of time none.": lambda run: all(step["answer"] is False for step in refused(run)),
    "The search was told to end, and what it had not asked about by then does not go out either.": lambda run: (
        "ended_after" in run.document("search/search.json")
    ),
    "The undecided policy of this build is “outer”: cells that no proof could settle do not stop a release.": (
        lambda run: run.config["risk"]["undecided"] == "outer"
    ),
    "Set it to “refuse” for a release that is proved.": lambda run: run.config["risk"]["undecided"] == "outer",
    "Knows every published table exactly, the grand total, and the names and categories of all variables, and can "
    "compute whatever follows from them.": lambda run: True,
    "Knows of no cell that it is impossible: the config names none.": lambda run: not run.patterns,
    "Knows the least and the largest weight of the records of each category, and takes every weight between for "
    "possible: not which values occur, nor anybody's own weight.": lambda run: (
        run.config["table"]["weight"] is not None
    ),
    "May know the method and all settings: what was left out tells nothing.": lambda run: (
        run.config["release"]["method"] == "simulatable"
    ),
    "Does not know the settings and this report: what was left out, and why, may tell more to whoever knows how it was "
    "decided.": lambda run: run.config["release"]["method"] != "simulatable",
    "Has no other figures of the same records: no earlier or overlapping publication, and no knowledge of single "
    "records.": lambda run: not run.earlier["sources"],
    "Has no other figures of the same records: no further earlier or overlapping publication, and no knowledge of "
    "single records.": lambda run: bool(run.earlier["sources"]),
}

N = r"([\d,]+)"
PATTERN: dict[str, Callable[..., bool]] = {
    r"Release audit: (.*)": lambda run, name: name == run.config["name"],
    rf"{N} records on {N} variables; {N} cells, {N} of them not zero\.": lambda run, *told: (
        tuple(map(number, told))
        == (sum(run.cells.values()), len(run.own), len(list(run.every(run.axes))), len(run.cells))
    ),
    r"Method: (\w+)\.": lambda run, name: name == run.config["release"]["method"],
    rf"At risk: counts from 1 to {N}\.": lambda run, n: number(n) == run.config["risk"]["small_count"],
    rf"Required min width: {N}\.": lambda run, n: number(n) == run.least,
    rf"Of {N} records read, {N} were set aside, each under the first of its faults: (.*)\.": (
        lambda run, read, aside, rest: (
            number(read) - number(aside) == sum(run.cells.values())
            and sum(number(part.rpartition(": ")[2]) for part in rest.split("; ")) == number(aside)
        )
    ),
    r"Of the categories and values that the config names no record has (.*)\.": is_unmet,
    rf"Released: {N} sub-tables without the grand total, {N} of {N} with it\.": lambda run, *told: (
        tuple(map(number, told)) == (len(run.within) - 1, len(run.within), run.possible)
    ),
    rf"They are the {N} frontier sub-tables? and everything within, as exact counts, without noise or suppression\.": (
        lambda run, n: number(n) == max(1, len(run.tables)) and all(is_exact(run, one) for one in run.resources)
    ),
    rf"Beside them {N} sub-tables? go(?:es)? out in part: {N} cells? (?:is|are) withheld\.": lambda run, n, cells: (
        (number(n), number(cells)) == (1, len(in_part(run)[0]))
    ),
    rf"Beside them {N} sub-tables? go(?:es)? out rounded\.": lambda run, n: number(n) == len(rounded(run)),
    rf"(\S+) goes out rounded: readers know that each of its counts((?:, its sums by \S+)*) and its total became a "
    rf"multiple of {N} that is less than {N} away\.": lambda run, view, sums, base, away: (
        number(base) == number(away)
        and (number(base), re.findall(r"by ([^,\s]+)", sums)) == rounded(run)[view]
        and is_near(run, view, number(base))
    ),
    r"Which of the tables that may be published so was chosen, and how, is taken as unknown to them\.": lambda run: (
        rounded(run) != {}
    ),
    rf"A cell is withheld where it is small, with a count from 1 to {N}, or where tables differ that prove others to "
    r"keep the width\.": lambda run, n: number(n) == run.config["risk"]["small_count"] and in_part(run)[0] != [],
    r"All withheld cells look alike\.": lambda run: len({*statuses(run)}) == 1,
    rf"They are the {N} frontier sub-tables? and everything within, of which no count goes out but totals of "
    r"weights\.": (lambda run, n: number(n) == len(run.tables) and not any(has_count(one) for one in run.resources)),
    rf"The table has no at-risk cell \(no count from 1 to {N}\), so that every release keeps the criterion\.": (
        lambda run, n: not run.at_risk and number(n) == run.config["risk"]["small_count"]
    ),
    rf"At risk are the {N} cells? of the full table with a count from 1 to {N}\.": lambda run, cells, count: (
        (number(cells), number(count)) == (run.at_risk, run.config["risk"]["small_count"])
    ),
    r"The narrowest interval that an intruder can derive for any of them from the whole release"
    rf"( and what was published before)? is proved to have a width of exactly {N}; required is at least {N}\.": (
        lambda run, before, width, least: (
            bool(before) == bool(run.earlier["sources"])
            and (number(width), number(width), number(least)) == (*run.widths, run.least)
        )
    ),
    r"The narrowest interval that an intruder can derive for any of them from the whole release is proved to have a "
    rf"width of at least {N} and at most {N}; required is at least {N}\.": lambda run, *told: (
        tuple(map(number, told)) == (*run.widths, run.least)
    ),
    r"Beside its width the release keeps a limit on what it makes likely: under the law released "
    rf"{N} of {N} at-risk cells \(([\d.]+)\) have their true count at a probability above ([\d.]+)"
    r"(?: \(at most ([\d.]+) allowed\)), and the most probable has ([\d.]+)\.": (
        lambda run, above, cells, share, threshold, most, highest: is_limited(
            run, above, cells, share, threshold, highest, most
        )
    ),
    rf"Beside its width the release keeps a limit on what it makes likely: under the law released {N} of {N} at-risk "
    r"cells \([\d.]+\) have their true count at a probability above [\d.]+, and the most probable has [\d.]+, and an "
    rf"intruder's {N} right and {N} wrong claims cost ([\d.]+) a cell \(at most ([\d.]+) allowed\)\.": (
        lambda run, above, cells, right, wrong, cost, most: is_lost(run, above, cells, right, wrong, cost, most)
    ),
    r"Under the law “released” an intruder who claims a count where it is more probable than ([\d.]+) costs at most "
    r"([\d.]+) a cell, ([\d.]+) where he is right and ([\d.]+) where he is wrong\.": (
        lambda run, threshold, most, right, wrong: (
            (1 - run.losses["intruder"]["none"] / run.losses["intruder"]["wrong"], run.limit["max_loss"])
            == (pytest.approx(float(threshold)), float(most))
            and (run.losses["agency"]["right"], run.losses["agency"]["wrong"]) == (float(right), float(wrong))
        )
    ),
    r"The bounds of all of them are sharp: the least and the largest count that the release allows\.": lambda run: (
        run.sharp == run.at_risk
    ),
    rf"The bounds of {N} of them are sharp: the least and the largest count that the release allows\.": (
        lambda run, n: number(n) == run.sharp
    ),
    (
        rf"Those of the other {N} are bracketed by an outer and an inner interval, "
        r"within a budget of ([\d.]+) seconds of a reference core\."
    ): lambda run, n, seconds: (
        (number(n), float(seconds)) == (run.at_risk - run.sharp, run.config["sharp_seconds"] or 30) and number(n) > 0
    ),
    rf"Undecided cells: {N}\.": lambda run, n: number(n) == run.undecided,
    rf"In the search {N} questions? stayed undecided, let through \(policy “outer”\)\.": lambda run, n: (
        number(n) == sum(step["answer"] is None for step in run.steps)
    ),
    rf"{N} of {N} cells? at risk rest on no proof\.": lambda run, n, all_: (
        (number(n), number(all_)) == (run.undecided, run.at_risk)
    ),
    rf"Every cell (?:of the full table with 1 record|with 1 to {N} records), of all {N} variables crossed, can still "
    rf"take values at least {N} apart, whatever an intruder works out from all published tables together"
    r"(, these and those of before)?( and from the structural zeros)?\.": (
        lambda run, count, variables, width, before, zeros: (
            (number(count or "1"), number(variables), number(width))
            == (run.config["risk"]["small_count"], len(run.own), run.least)
            and (bool(before), bool(zeros)) == (bool(run.earlier["sources"]), bool(run.patterns))
        )
    ),
    r"Under the law “(\w+)” at most ([\d.]+) % of these cells have a true count more probable than ([\d.]+)\.": (
        lambda run, law, most, threshold: (
            (law, float(most) / 100, float(threshold))
            == tuple(run.config["risk"]["posterior"][key] for key in ("law", "max_above", "threshold"))
        )
    ),
    rf"So no count (?:of 1|from 1 to {N}) is in a table that is published whole: it would bound the at-risk cell "
    rf"within it to a width of {N} at most\.": lambda run, most, width: (
        number(most or "1") == number(width) == min(run.config["risk"]["small_count"], run.least - 1)
        and all(count > number(width) for t in run.tables for count in run.marginal(t).values())
    ),
    rf"The search refused {N} questions?, each about one or more sub-tables\.": lambda run, n: (
        number(n) == len(refused(run))
    ),
    rf"By proof {N}: with what was asked for the criterion would be broken(?:, and for {N} of these the proof is kept, "
    r"and sdc verify works it out again)?\.": lambda run, proven, kept: (
        (number(proven), number(kept or "0"))
        == (
            sum(step["answer"] is False for step in refused(run)),
            sum(step["refutation"] is not None for step in refused(run)),
        )
    ),
    rf"For lack of time {N}: in {N} steps? no proof was found either way\.": lambda run, n, steps: (
        (number(n), number(steps))
        == (
            sum(step["answer"] is None for step in refused(run)),
            sum(step["spent"] for step in refused(run) if step["answer"] is None),
        )
    ),
    rf"Whoever has both has the exact counts of {N} sub-tables? without the grand total: {N} by what is published now "
    rf"alone, {N} by what was published before alone, and {N} by each of the two\.": lambda run, *told: (
        tuple(map(number, told))
        == (
            len(run.within | run.before) - 1,
            *(len(a - b) for a, b in ((run.within, run.before), (run.before, run.within))),
            len(run.within & run.before) - 1,
        )
    ),
    rf"{N} sub-tables: (.*)\.": lambda run, n, rest: (
        number(n) == len(run.within) - 1
        and Counter(dict(map(int, re.findall(r"\d+", part)[::-1]) for part in rest.split(", ")))
        == Counter(len(kept) for kept in run.within if kept)
    ),
    rf"They are {N} tables and all that is within them, each count exact, so that readers see what the tables "
    r"themselves show:": lambda run, n: number(n) == len(run.tables) and run.has_counts,
    rf"They are {N} tables and all that is within them, no count of which goes out, though all is judged as if they "
    r"did; they would show:": lambda run, n: number(n) == len(run.tables) and not run.has_counts,
    rf"{N} counts of 1 to (\d+) in {N} tables?\.": lambda run, n, small, tables: (
        int(small) == run.config["risk"]["small_count"] and counted(run, run.small, n, tables)
    ),
    rf"{N} zeros that no structural zero explains, in {N} tables?\.": lambda run, n, tables: counted(
        run, run.zeros, n, tables
    ),
    rf"{N} groups in {N} tables?, all of whose records have the same category of one more variable: whoever is known "
    r"to be in the group is known to have it\.": lambda run, n, tables: counted(run, run.groups, n, tables),
    rf"… and {N} more tables that disclose groups, see Appendix A\d+\.": lambda run, n: (
        number(n) == sum(run.groups(t) > 0 for t in run.tables) - 4
    ),
    rf"{N} of {N} required sub-tables are published( whole, and {N} in part, rounded or with merged categories)?\.": (
        lambda run, released, asked, whole, parts: (
            number(asked) == len(run.config["release"]["require"])
            and number(released) == sum(frozenset(t.split("*")) in run.within for t in run.config["release"]["require"])
            and number(parts or "0")
            == len({tuple(one["sub_table"]) for one in run.resources_in_part}) + len(merged(run))
        )
    ),
    rf"Totals of the weights, rounded to multiples of {N}, go out of {N} tables, (instead of|beside) the counts: with "
    r"them every cell that is at risk is still proven\.": lambda run, base, tables, how: (
        (number(base), number(tables)) == (run.config["weighted"]["round"], len(run.weighted))
        and (how == "beside") == any(has_count(one) for one in run.resources)
    ),
    rf"Those of {N} published tables do not: (.*)\.": lambda run, n, rest: (
        number(n) == sum(t not in run.weighted for t in run.tables)
        and all(tuple(t.split("*")) not in run.weighted for t in rest.partition(" and ")[0].split(", "))
    ),
    "That depends on the records, and may tell something to whoever knows how it was decided\\.": lambda run: any(
        t not in run.weighted for t in run.tables
    ),
    rf"Knows {N} patterns? of impossible cells, which the config names\.": lambda run, n: (
        number(n) == len(run.patterns)
    ),
    r"Knows which category of (.*) each category of (.*) is in\.": lambda run, level, axis: (
        run.levels[level][0] == axis
    ),
    rf"Beside them A\*B\*C\*E\*F is known but for {N} withheld cells?, by A\*B\*C\*E\*F of part\.": lambda run, n: (
        number(n) == len(in_part(run)[0])
    ),
    r"Some public sub-tables are (withheld in part|rounded|withheld in part or rounded)\.": lambda run, how: (
        ("rounded" in how) == bool(rounded(run)) and ("withheld" in how) == is_withheld(run)
    ),
    rf"{N} small cells? of these that no publication tells, with a count from 1 to {N}, are to keep a width of {N} "
    rf"too; of {N} that is not shown\.": lambda run, cells, small, width, open_: (
        (number(cells), number(small), number(width), number(open_))
        == (in_part(run)[1], run.config["risk"]["small_count"], run.least, 0)
    ),
    r"All is judged together with what was published before: (.*)\.": lambda run, rest: (
        rest.split("; ") == run.earlier["sources"]
    ),
    r"Rests on the config's word of what was published before, low: of the records with D = <140 alone\.": lambda run: (
        {"D": ["<140"]} in [one["where"] for one in run.config["earlier"]]
    ),
    r"Beside them (.*) where (\w+) = (.*) is known, by (.*)\.": is_fact,
    rf"Its largest tables of all records are {N}\.": lambda run, n: number(n) == len(run.known),
    rf"Of them {N} have other categories than the table, and stand in the judgement as levels that are added to it, "
    r"and are never published\.": lambda run, n: (
        number(n) == sum(bool(t & run.hidden) for t in run.known)
        and not any(set(one["sub_table"]) & run.hidden for one in run.resources)
    ),
    rf"Of the tables published now {N} were known before, by themselves or by a table that has them\.": lambda run, n: (
        number(n) == sum(any(set(t) <= known for known in run.known) for t in run.tables)
    ),
}


def refused(run: Run) -> list[dict[str, Any]]:
    """The steps of the search that let nothing out."""
    may = (True, None) if run.config["risk"]["undecided"] == "outer" else (True,)
    return [step for step in run.steps if step["answer"] not in may]


def has_count(resource: dict[str, Any]) -> bool:
    return any(field["name"] == "count" for field in resource["schema"]["fields"])


def is_exact(run: Run, resource: dict[str, Any]) -> bool:
    if resource["format"] != "parquet":
        return True
    columns = pq.read_table(run.folder / "release" / resource["path"]).to_pydict()
    names = tuple(resource["sub_table"])
    rows = zip(*(columns[name] for name in (*names, "count")), strict=True)
    return Counter({tuple(cell): count for *cell, count in rows}) == run.marginal(names)


def is_written(sentence: str) -> bool:
    """Whether the first page has such sentences, whatever their numbers."""
    return sentence in CONSTANT or any(re.fullmatch(pattern, sentence) for pattern in PATTERN)


def holds(run: Run, sentence: str) -> bool:
    if sentence in CONSTANT:
        return bool(CONSTANT[sentence](run))
    found = [(check, match) for pattern, check in PATTERN.items() if (match := re.fullmatch(pattern, sentence))]
    assert found, f"nobody can check this sentence of the first page: {sentence!r}"
    return all(check(run, *match.groups()) for check, match in found)


# The runs


def built(folder: Path, name: str, **sections: Any) -> Run:
    content = {"name": name, "table": {"path": "czech.csv"}, "risk": {"small_count": 2, "min_width": 6}}
    content |= {"execution": {"cluster": "in-process"}, "output": {"folder": str(folder / "runs")}}
    content |= sections
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    shutil.copy(CZECH, folder / "czech.csv")
    build = open_build(folder / f"{name}.yaml")
    run_all(build, IN_PROCESS)
    return Run(build.folder.path)


def with_earlier(folder: Path) -> Run:
    """A sub-table was published before, and another of the records of low pressure alone."""
    header, *records = [line.split(",") for line in CZECH.read_text().splitlines()]
    for name, of, chosen in (("all", "AB", ("<140", ">=140")), ("low", "C", ("<140",))):
        counts = Counter[Names]()
        for row in records:
            at = dict(zip(header, row, strict=True))
            counts[tuple(at[v] for v in of)] += int(at["count"]) if at["D"] in chosen else 0
        lines = [",".join(of) + ",count", *(f"{','.join(cell)},{count}" for cell, count in counts.items())]
        (folder / name).mkdir()
        (folder / name / "table.csv").write_text("\n".join(lines))
    earlier = [{"folder": "all"}, {"folder": "low", "where": {"D": ["<140"]}}]
    return built(folder, "earlier", earlier=earlier)


def with_a_part(folder: Path) -> Run:
    """A sub-table was published before but for its smaller cells."""
    header, *records = [line.split(",") for line in CZECH.read_text().splitlines()]
    counts = Counter[Names]()
    for row in records:
        at = dict(zip(header, row, strict=True))
        counts[tuple(at[v] for v in "ABCEF")] += int(at["count"])
    lines = ["A,B,C,E,F,count", *(f"{','.join(cell)},{n if n > 45 else ''}" for cell, n in counts.items())]
    (folder / "part").mkdir()
    (folder / "part" / "table.csv").write_text("\n".join(lines))
    return built(folder, "part", earlier=[{"folder": "part"}])


def withheld(folder: Path) -> Run:
    """A sub-table that may not go out whole goes out in part."""
    require = ["A*B*C", "A*B*C*D*E*F"]
    return built(folder, "withheld", release={"require": require, "in_part": "withhold"})


def with_rounding(folder: Path) -> Run:
    """A sub-table that may not go out whole goes out rounded."""
    part = {"of": "A*B*C*D*E*F", "how": "round", "base": 20}
    return built(folder, "rounded", release={"require": ["A*B*C", part["of"]], "in_part": [part]})


def with_merging(folder: Path) -> Run:
    """A sub-table that may not go out whole goes out with some areas merged."""
    random = np.random.default_rng(4)
    columns = random.geometric(0.3, 900) % 8, random.poisson(1.2, 900) % 5, random.integers(0, 2, 900)
    lines = [f"area{a},age{b},sex{c}" for a, b, c in zip(*columns, strict=True)]
    (folder / "merged.csv").write_text("\n".join(["area,age,sex", *lines]))
    release = {"require": ["area*sex", "area*age"], "in_part": [{"of": "area*age", "how": "coarsen"}]}
    return built(folder, "merged", table={"path": "merged.csv"}, risk={"min_width": 3}, release=release)


def with_groups(folder: Path) -> Run:
    """Variables of which many follow from others, two at a time: tables of them show whose category is known."""
    random = np.random.default_rng(3)
    rows = [(a, a // 2, (a + 1) // 2, a % 2, b) for a, b in random.integers(0, (4, 2), (400, 2)).tolist()]
    (folder / "groups.csv").write_text("\n".join(["a,b,c,d,e", *(",".join(map(str, row)) for row in rows)]))
    forbid = [{"of": list(three)} for three in combinations("abcde", 3)]
    return built(folder, "groups", table={"path": "groups.csv"}, release={"forbid": forbid})


def with_zeros(folder: Path) -> Run:
    (folder / "impossible.yaml").write_text('- {A: yes, B: no, C: no, D: ">=140", E: ">=3", F: pos}\n')
    return built(folder, "zeros", table={"path": "czech.csv", "structural_zeros": "impossible.yaml"})


def with_hierarchies(folder: Path) -> Run:
    """Of records with ages, some of them bad, and a group of which there is nobody."""
    random = np.random.default_rng(3)
    lines = [f"{a},{b},{c}" for a, b, c in random.integers(0, (6, 3, 4), (200, 3)).tolist()]
    (folder / "ages.csv").write_text("\n".join(["age,sex,job", *lines]))
    recodes = {
        "generation": {"column": "age", "groups": {"young": ["0", "1", "2"], "old": ["3", "4", "5", "6"]}},
        "sex": {"groups": {"f": ["0"], "m": ["1"]}},
    }
    table = {"path": "ages.csv", "recodes": recodes, "hierarchies": {"age": ["generation", "age"]}}
    table |= {"bad_records": "set_aside", "categories": {"job": ["0", "1", "2", "3", "none"]}}
    return built(folder, "hierarchies", table=table, risk={"small_count": 5, "min_width": 4})


def with_weights(folder: Path, publish: str, programs: int) -> Run:
    random = np.random.default_rng(3)
    a, b, d = (random.integers(0, size, 4000) for size in (4, 3, 2))
    c, e = (a + random.integers(0, 3, 4000)) % 4, (random.random(4000) ** 3 * 5).astype(int)
    weights = np.round(random.lognormal(5, 0.7, 4000), 2)
    lines = [",".join(map(str, row)) for row in zip(a, b, c, d, e, weights, strict=True)]
    (folder / "w.csv").write_text("\n".join(["a,b,c,d,e,w", *lines]))
    table, totals = {"path": "w.csv", "weight": "w"}, {"round": 500, "publish": publish, "programs": programs}
    return built(folder, publish, table=table, weighted=totals, risk={"small_count": 2, "min_width": 4})


def undecided(folder: Path, **more: Any) -> Run:
    """A table that is large for the methods that bound all of it, and too little time for any proof."""
    random = np.random.default_rng(1)
    codes = np.minimum(random.exponential(0.9, (20_000, 5)).astype(int), np.array([4, 5, 4, 4, 3]) - 1)
    (folder / "large.csv").write_text("\n".join(["A,B,C,D,E", *(",".join(map(str, row)) for row in codes.tolist())]))
    release = {"questions": 12, "seconds": 0.001, "seconds_per_cell": 0.001}
    risk = {"small_count": 1, "min_width": 2, "undecided": "outer"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "LINEAR_ROWS", 0)
        return built(folder, "undecided", table={"path": "large.csv"}, risk=risk, release=release, **more)


LIMIT = {"small_count": 2, "min_width": 6, "posterior": {"max_above": 0.5, "threshold": 0.4}}
LOSSES = {"intruder": {"none": 0.72}, "agency": {"right": 1.0, "wrong": 0.25}}
ON_LOSSES = {**LIMIT, "posterior": {"losses": LOSSES, "max_loss": 0.2}}
SHORT = {"method": "decomposable", "annealing": {"steps": 500}}
"""Each graph that is tried is held against the limit."""
RUNS: dict[str, Callable[[Path], Run]] = {
    "plain": lambda folder: built(folder, "plain"),
    "one person": lambda folder: built(folder, "one", risk={"small_count": 1, "min_width": 3}),
    "nobody at risk": lambda folder: built(folder, "none", table={"path": "czech.csv", "variables": ["A", "B", "C"]}),
    "the total alone": lambda folder: built(folder, "total", risk={"small_count": 2, "min_width": 1800}),
    "a server": lambda folder: built(folder, "served", server={"rules": [{"rule": "one_step"}]}),
    "a prefix": lambda folder: built(folder, "prefix", release={"method": "bisection"}),
    "decomposable": lambda folder: built(folder, "decomposable", release=SHORT),
    "best": lambda folder: built(folder, "best", release={**SHORT, "method": "best"}),
    "simulatable": lambda folder: built(
        folder, "simulatable", release={"method": "simulatable", "simulatable": {"draws": 20}}
    ),
    "required": lambda folder: built(
        folder,
        "required",
        release={"require": ["A*B", "A*B*C*D*F"], "conflicts": "best_subset", "forbid": [{"of": ["C", "E"]}]},
    ),
    "a limit": lambda folder: built(folder, "limit", risk=LIMIT, release=SHORT),
    "a limit on losses": lambda folder: built(folder, "losses", risk=ON_LOSSES, release=SHORT),
    "earlier": with_earlier,
    "in part": with_a_part,
    "withheld": withheld,
    "rounded": with_rounding,
    "merged": with_merging,
    "groups": with_groups,
    "zeros": with_zeros,
    "hierarchies": with_hierarchies,
    "weights": lambda folder: with_weights(folder, "beside", 1000),
    "weights withheld": lambda folder: with_weights(folder, "beside", 0),
    "weights instead": lambda folder: with_weights(folder, "instead", 1000),
    "undecided": undecided,
    "sharp": lambda folder: built(folder, "sharp", assessment="sharp"),
    "bracketed": lambda folder: undecided(folder, assessment="sharp", sharp_seconds=0.001),
}


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of that name, made when first asked for."""
    return cache(lambda name: RUNS[name](tmp_path_factory.mktemp("run")))


@pytest.mark.parametrize("name", RUNS)
def test_each_sentence_of_the_first_page_is_so(name: str, run_of: Callable[[str], Run]) -> None:
    run = run_of(name)
    page = FirstPage((run.folder / "confidential" / "report.html").read_text())
    wrong = [sentence for sentence in page.sentences if not holds(run, sentence)]
    assert not wrong
    assert len(page.sentences) >= 15
    assert sum("Knows which category" in sentence for sentence in page.sentences) == len(run.levels)
    ran = run.document("search/search.json")["method"]
    assert said_of(run, "method").startswith(f"The method that ran is “{ran}”")
    assert (ran == "bisection") == ('id="prefixes"' in (run.folder / "confidential" / "report.html").read_text())


def test_what_two_editions_tell_together_is_said(run_of: Callable[[str], Run]) -> None:
    """Of what was published before all is within what is published now, and each is counted once."""
    page = FirstPage((run_of("earlier").folder / "confidential" / "report.html").read_text())
    (said,) = [sentence for sentence in page.sentences if sentence.startswith("Whoever has both")]
    now = len(run_of("earlier").within) - 1
    assert [number(n) for n in re.findall(r"[\d,]*\d", said)] == [now, now - 3, 0, 3]
    plain = FirstPage((run_of("plain").folder / "confidential" / "report.html").read_text())
    assert not [sentence for sentence in plain.sentences if "Whoever has both" in sentence]


def said_of(run: Run, paragraph: str) -> str:
    """What a paragraph of the report says, by its id."""
    text = (run.folder / "confidential" / "report.html").read_text()
    found = re.search(rf'<p id="{paragraph}">(.*?)</p>', text, re.DOTALL)
    assert found
    return found[1]


def test_what_is_said_of_a_bisection_is_so(run_of: Callable[[str], Run]) -> None:
    """Beside the widths and the search's own record: the list, each prefix with its last sub-table, the longest one."""
    run = run_of("a prefix")
    widths = pq.read_table(run.folder / "widths" / "widths.parquet").to_pydict()
    listed = [(s, w) for s, w in zip(widths["sub_table"], widths["critical_width"], strict=True) if w >= 6]
    steps = run.document("search/search.json")["steps"]
    longest = max(step["length"] for step in steps if step["answer"])
    assert [int(said) for said in re.findall(r"\d+", said_of(run, "course"))] == [len(listed), len(steps), longest]
    text = (run.folder / "confidential" / "report.html").read_text()
    table = text[text.index('<table id="bisection">') :]
    cells = [re.sub(r"<.*?>", "", cell) for cell in re.findall(r"<t[dh].*?</t[dh]>", table[: table.index("</table>")])]
    for number, step in enumerate(steps, 1):
        label, width = listed[step["length"] - 1]
        row = cells[8 * number : 8 * number + 7]
        assert row[:4] == [str(number), str(step["length"]), label, str(width)]
        assert row[5] == f"[{step['min_width'][0]}, {step['min_width'][1]}]"
    on_list = text[text.index('id="list"') :]
    first = re.findall(r"<tr><td.*?</tr>", on_list[: on_list.index("</table>")])
    expected = [[str(k), s, str(w), "yes" if k <= longest else "no"] for k, (s, w) in enumerate(listed, 1)]
    assert [[re.sub(r"<.*?>", "", c) for c in re.findall(r"<t[dh].*?</t[dh]>", row)] for row in first] == expected


@pytest.mark.parametrize("name", ["plain", "a prefix", "best"])
def test_what_is_said_of_refusals_is_so(name: str, run_of: Callable[[str], Run]) -> None:
    """Beside the search's own record: how many are proven, by how many refutations, and how many have no proof."""
    run = run_of(name)
    steps = run.document("search/search.json")["steps"]
    proven = [step["refutation"] for step in steps if step["refutation"] is not None]
    refuted = [step for step in steps if step["answer"] is False and step["refutation"] is None]
    open_ = [step for step in steps if step["answer"] is None]
    expected = [len(proven) + len(refuted) + len(open_)]
    expected += [len(proven), len({*proven})] * bool(proven) + [len(refuted)] * bool(refuted)
    expected += [len(open_), sum(step["spent"] for step in open_)] * bool(open_)
    said = said_of(run, "proven-refusals")
    told = said[: said.index(". <")]
    assert [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", told)] == expected
    assert "refused, proven" in told
    text = (run.folder / "confidential" / "report.html").read_text()
    rows = text[text.index('<table class="search" id="refutations">') :]
    listed = re.findall(r'<th scope="row"><code>(\w+)</code>', rows[: rows.index("</table>")])
    assert {*listed} == {*proven}


def test_the_picture_of_a_sub_table_in_part_has_its_withheld_and_its_small_cells(
    run_of: Callable[[str], Run],
) -> None:
    """Square by square beside the search's own record and the counts; what is said beside it too."""
    run = run_of("withheld")
    cells, small = in_part(run)
    (told,) = run.document("search/search.json")["in_part"]["facts"]
    view = [v for v in run.own if v in told["view"]]
    text = (run.folder / "confidential" / "report.html").read_text()
    pattern = r"(\d+) of (\d+) cells are withheld, (\d+) of them small; (\d+) have to be at least\.(.*?)</p>"
    (said,) = re.findall(f'<p class="of-part">{pattern}', text)
    size = prod(len(run.categories[v]) for v in view)
    assert [int(number) for number in said[:3]] == [len(cells), size, small]
    alone = []
    for own in view:
        kept = tuple(v for v in view if v != own)
        small_at = small_cells(run, view)
        lines = Counter(tuple(c for v, c in zip(view, cell, strict=True) if v != own) for cell in small_at)
        alone.append(sum(n == 1 for n in lines.values()) * (frozenset(kept) in run.within))
    assert number(said[3]) == small + max(alone)  # none of them is told without it
    assert (" Whole it would not fit: " in said[4]) == (tuple(view) == tuple("ABCDEF"))
    figure = text[text.index('id="part-0"') :]
    figure = figure[: figure.index("</svg>")]
    side = min(14.0, (1000 - 26) * len(run.categories[view[0]]) / size)
    counts = run.marginal(tuple(view))
    for class_, marked in (("withheld", {*cells}), ("small-count", {c for c, n in counts.items() if 0 < n <= 2})):
        (drawn,) = re.findall(rf'<path d="([^"]*)" class="{class_}">', figure)
        squares = re.findall(r"M([\d.]+) ([\d.]+)h", drawn)
        found = {(int((float(y) - 26) / side + 0.3), int((float(x) - 26) / side + 0.3)) for x, y in squares}
        # the first of the longest axes is down, the others are across, the last fastest
        places = {
            (int(row), int(np.ravel_multi_index(rest, [len(run.categories[v]) for v in view[1:]])))
            for row, *rest in ([run.categories[v].index(c) for v, c in zip(view, cell, strict=True)] for cell in marked)
        }
        assert found == places


def test_a_sentence_that_is_not_so_is_found_out(run_of: Callable[[str], Run]) -> None:
    """Each sentence of a page that has a number, with the number changed, and one that was never written."""
    run = run_of("earlier")
    page = FirstPage((run.folder / "confidential" / "report.html").read_text())
    for sentence in page.sentences:
        for match in re.finditer(r"(?<= )\d+(?=[ .])", sentence):
            changed = f"{sentence[: match.start()]}{int(match[0]) + 1}{sentence[match.end() :]}"
            assert not is_written(changed) or not holds(run, changed), changed
    with pytest.raises(AssertionError, match="nobody can check this sentence"):
        holds(run, "Nothing can go wrong.")
