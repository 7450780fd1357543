"""What a table, its release and its certificate prove, in integers. Evidence is read and judged here alone.

A feasible table has non-negative integers, the true released marginals, 0 in impossible cells, and agrees with all
facts on other marginals. Feasible tables prove how far a cell can move. The release splits at released separators:
feasible tables of the components combine freely ([DKS], reducible models). Those of a component are given as
differences from its true marginal table, or exist by [DKS] theorem 1: under a decomposable release that contains the
published one, and the marginal of every fact, the explicit bounds are reached. A variable may be a level of another
one, its axis; the axis implies the level. Sub-tables are closed when they are read, and both theorems hold for axes and
levels alike. That each category is in one group is a structural zero within the component that has the axis, and within
the clique that has all variables of it in the cover.
"""

import hashlib
import json
from collections import namedtuple
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from sdc import run_format as names
from sdc.verify.core.levels import Array, Cells, Pattern, SubTable, Variables, check, keys_of, size_of, variable_of

Problem = tuple[str, Any]  # an error, and whether it is there
# of a certificate: what is released now, and all that is public then
Claims = namedtuple("Claims", "table records small_count min_width released release separators parts in_part")
# suppressed tables, beside the sub-tables released whole; rounded ones, and the margins that they imply
InPart = namedtuple("InPart", "beside facts margins rounded", defaults=((), {}))
Rounding = namedtuple("Rounding", "base margins")
# marginal cells in a universe whose counts are known, of some of these only between low and high
Fact = namedtuple("Fact", "view universe cells low high source")
Known = namedtuple("Known", "release zeros facts")  # prior knowledge
# difference of[e] changes cells[e] by changes[e]
ComponentProof = namedtuple("ComponentProof", "variables cover of cells changes")
Schema = namedtuple("Schema", "variables")  # the digest of a table depends on how these print
AGAIN, MAX_TOTAL = "run the build again", 1 << 53


class EvidenceFolder:
    """A run folder: its failed claims, its table, and what is proven of its at-risk cells.

    Unreadable files raise ValueError or the error of their reader; `path` is the file concerned.
    """

    def __init__(self, folder: Path, release: Path | None = None) -> None:
        """`release` is the place of the release if it is not in the run folder yet."""
        self.folder, self.path, self.failures = folder, folder / names.MANIFEST, list[str]()
        self.release = folder / names.RELEASE if release is None else release
        self.is_feasible = dict[SubTable, Array]()  # by component, the entries of feasible differences

    def holds(self, *problems: Problem) -> bool:
        """Whether none of these errors is there; each one that is becomes a failure."""
        found = [what for what, is_so in problems if is_so]
        self.failures += found
        return not found

    def file(self, *place: str) -> Path:
        self.path = self.release.joinpath(*place[1:]) if place[0] == names.RELEASE else self.folder.joinpath(*place)
        check(self.path.is_file(), f"{self.path.name} is missing")
        return self.path

    def read_json(self, *place: str, version: int | None = None) -> Any:
        content = json.loads(self.file(*place).read_text(encoding="utf-8"))
        found = content.get("format") if version else None
        check(found == version, f"it has format {found!r}, this version reads {version}")
        return content

    def read_columns(self, *place: str) -> dict[str, Any]:
        """The columns of a Parquet file, or those of a CSV file as text."""
        if self.file(*place).suffix == ".csv":
            as_text = pa_csv.ConvertOptions(column_types=dict.fromkeys([*self.categories, names.COUNT], pa.string()))
            layout = pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
            table = pa_csv.read_csv(self.path, parse_options=layout, convert_options=as_text)
        else:
            table = pq.ParquetFile(self.path).read()
        check(len({*table.column_names}) == len(table.column_names), "two columns have one name")
        return dict(zip(table.column_names, table.columns, strict=True))

    def read_cells(self, variables: Iterable[str], fields: Iterable[str], *place: str) -> tuple[Cells, list[Array]]:
        """The codes of the variables and the numbers of a file without other columns."""
        columns, own = self.read_columns(*place), names.variable_columns(variables, fields)
        check({*columns} == {*own.values(), *fields}, "a column is unknown or missing")
        cells = {v: numbers_of(columns[own[v]], pa.uint16()) for v in own}
        check(all(cells[v].max(initial=0) < len(self.categories[v]) for v in own), "a code is unknown")
        return cells, [numbers_of(columns[name], pa.int64()) for name in fields]

    def read_table(self, small_count: int) -> None:
        """Read the table, recounted from its parts, and its at-risk cells: 0 < count <= small count.

        If counts are missing, a cell is at risk if the least positive count that it may have is small.
        """
        recorded = self.read_json(names.TABLE, names.SCHEMA, version=names.TABLE_FORMAT)
        variables = tuple(map(variable_of, recorded["variables"]))
        listed, self.categories = [part["name"] for part in recorded["parts"]], {v: c for v, c, _ in variables}
        self.axes = {v: c for v, c, of in variables if of is None}
        parts = [self.read_columns(names.TABLE, name) for name in listed]
        self.path, sizes = self.folder / names.TABLE, [(part["cells"], part["total"]) for part in recorded["parts"]]
        check({path.name for path in self.path.glob(names.PARTS)} <= {*listed}, "it has a part that is not recorded")
        fields = [names.COUNT, *[names.LEAST] * (names.UNKNOWN in recorded)]
        check(all([*part] == [*self.axes, *fields] for part in parts), "columns are not the variables")
        check(all(len(c) == len({*c}) <= 1 << 16 for _, c, _ in variables), "a variable has a category twice")
        self.table = {v: np.concatenate([codes_of(part[v], c) for part in parts]) for v, c in self.axes.items()}
        known = min(map(np.min, self.table.values())) >= 0
        check(known and len(variables) == len(self.categories) < 64, "a category is unknown or a variable occurs twice")
        self.table = {v: codes.astype("<u2") for v, codes in self.table.items()}
        pa.default_memory_pool().release_unused()
        counts, leasts = ([numbers_of(part[f], pa.int64()) for part in parts] for f in (names.COUNT, fields[-1]))
        # in two halves, whose sums cannot overflow
        totals = [(len(c), (int((c >> 32).sum()) << 32) + int((c & 0xFFFFFFFF).sum())) for c in counts]
        check(totals == sizes, "a part has another total")
        self.counts, self.total = np.concatenate(counts), sum(total for _, total in sizes)
        in_order = (np.diff(keys_of(self.table.values(), 0 * self.counts)) > 0).all()
        least, order = np.concatenate(leasts), [*self.categories]
        whole = in_order and self.counts.min() >= (names.UNKNOWN not in recorded) and self.total <= MAX_TOTAL
        check(whole, f"{self.path} does not list every non-zero cell once and in order")
        agrees = least.min() > 0 and (self.counts[self.counts > 0] >= least[self.counts > 0]).all()
        check(agrees, "a cell has no least positive count, or one above its count")
        of = (recorded["cells"], recorded["total"])
        check(of == (len(self.counts), self.total), f"its parts do not have the cells and the total {of}")
        self.levels = Variables(variables)
        self.table = self.levels.with_levels(self.table)
        sha = hashlib.sha256(repr(Schema(variables)).encode())
        for array in (np.stack([self.table[v] for v in self.axes], axis=1), self.counts.astype("<i8")):
            sha.update(array.data)
        unknown = recorded.get(names.UNKNOWN, [])
        check(all({*own} <= {*order} for own in unknown), "an unknown sub-table has other variables")
        self.unknown = [frozenset(own) for own in unknown]
        if names.UNKNOWN in recorded:
            sha.update(least.astype("<i8").data)
            sha.update(repr(tuple(sum(1 << order.index(v) for v in own) for own in unknown)).encode())
        self.digest = sha.hexdigest()
        check(self.digest == recorded["digest"], f"its digest is {self.digest[:12]}, not {recorded['digest'][:12]}")
        # a variable with one category changes no marginal: no clique needs it
        self.rows, self.essential = least <= small_count, frozenset(v for v, c, _ in variables if len(c) > 1)
        self.cells, self.small = {v: codes[self.rows] for v, codes in self.table.items()}, self.counts[self.rows]
        content = self.read_json(names.TABLE, names.KNOWN, version=names.KNOWN_FORMAT)
        self.known = self.before = self.read_known(names.TABLE, content)
        self.recorded_lists = content.get(names.LISTED)  # absent in versions that did not evaluate labels
        self.listed = self.levels.pattern(self.recorded_lists or ())
        self.labels = [*self.labels_beside(self.before)]
        self.in_part = InPart([], [])
        self.hidden = frozenset(content.get(names.HIDDEN, ()))  # if absent, everything evaluated is published
        check(self.hidden <= self.categories.keys(), "a hidden variable is unknown")
        self.tried = frozenset(level for _, level in content.get(names.TRIED, ()))
        for fact in self.known.facts:
            counts = self.at(fact.view, fact.cells)
            wrong = int(((counts < fact.low) | (counts > fact.high)).sum())
            which = f"{fact.source}: in {wrong} of the cells of {self.levels.label(fact.view)}"
            self.holds((f"{which} the table has other counts; {AGAIN}", wrong))

    def spread(self, covered: SubTable, among: SubTable) -> Iterator[Array]:
        """(n,) by axis, the number of categories that share the covered information with the at-risk cell."""
        for v in self.levels.finest(among):
            if v not in covered:
                levels = [self.levels.group(v, level) for level in covered & self.levels.implied[v]]
                block = keys_of(levels, np.zeros(len(self.categories[v]), np.int64))
                yield np.bincount(block)[block][self.cells[v]]

    def read_known(self, stage: str, content: Any) -> Known:
        """Prior knowledge from a document of a stage; ValueError if it is invalid."""
        release = self.levels.subtables(content[names.RELEASE])
        zeros = [self.levels.pattern(listed) for listed in content[names.STRUCTURAL_ZEROS]]
        check(all(zeros) and not matching(zeros, self.table).any(), "a structural zero is of no cell or has records")
        facts = [self.fact(stage, listed, names.KNOWN_CELLS.format(k)) for k, listed in enumerate(content[names.FACTS])]
        return Known(release, zeros, facts)

    def labels_beside(self, known: Known) -> Iterator[Fact]:
        """Facts that each category of a variable has a record, as published labels imply, except for code lists.

        They concern the finest variables of facts, and axes whose categories a public level names: `a or b`, `a to c`.
        """
        public = frozenset[str]().union(*known.release, *(fact.view for fact in known.facts))
        named = [axis for axis in self.axes if any(self._spells(v, axis) for v in public & self.levels.implied[axis])]
        named += [v for fact in known.facts for v in self.levels.finest(fact.view)]
        for v in dict.fromkeys(named):
            cells = self.levels.with_levels({v: np.arange(len(self.categories[v]), dtype="<u2")})
            (axis,) = (axis for axis in self.axes if v in self.levels.implied[axis])
            met = self.table[axis][~np.isin(self.table[axis], [*self.listed.get(axis, ())])]
            low = np.isin(cells[v], self.levels.group(axis, v)[met]).astype(np.int64)
            if low.any() and not is_within(self.levels.implied[v], known.release):
                yield Fact(self.levels.implied[v], {}, cells, low, np.full(len(low), self.total), f"the labels of {v}")

    def _spells(self, level: str, axis: str) -> bool:
        own, groups = np.array(self.axes[axis]), self.levels.group(axis, level)
        pairs = [(own[groups == k], label) for k, label in enumerate(self.categories[level])]
        return any(len(c) > 1 and label in (" or ".join(c), f"{c[0]} to {c[-1]}") for c, label in pairs)

    def read_parts(self, stage: str, content: Any) -> InPart:
        """Suppressed and rounded tables from a document of a stage; ValueError if it has other facts."""
        facts = [self.fact(stage, listed, names.PART_CELLS.format(k)) for k, listed in enumerate(content[names.FACTS])]
        check(len({fact.view for fact in facts}) == len(facts), "a sub-table is suppressed twice")
        rounded = {}
        for one in content.get(names.ROUNDED, ()):
            (view,) = self.levels.subtables([one["view"]])
            rounded[view] = Rounding(one["base"], self.levels.subtables(one[names.MARGINS]))
        check(rounded.keys() <= {fact.view for fact in facts}, "a rounded table is not listed")
        margins = [margin for f in facts if f.view in rounded for margin in self._margins(f, *rounded[f.view])]
        own = [f for f in facts if f.view not in rounded]
        unknown = [not f.universe and len(f.low) and not f.low.any() and (f.high == self.total).all() for f in own]
        check(all(unknown), "the suppressed cells have other bounds than 0 and the total")
        return InPart(self.levels.subtables(content[names.BESIDE]), facts, margins, rounded)

    def _margins(self, fact: Fact, base: int, margins: list[SubTable]) -> Iterator[Fact]:
        """Facts on the marginals that are rounded too; an error if the table is not rounded so."""
        own = self.levels.finest(fact.view)
        check(isinstance(base, int) and base > 1 and not fact.universe, "a sub-table is rounded to no multiples")
        counts = fact.high - base + 1
        check(len(counts) == prod(len(self.categories[v]) for v in own), "a cell of a rounded table is missing")
        check(not (counts % base).any() and (counts >= 0).all(), "a rounded count is not a multiple of its base")
        check(np.array_equal(fact.low, np.maximum(counts - base + 1, 0)), "a rounded table has wrong bounds")
        for margin in margins:
            check(margin < fact.view, "a margin of a rounded table is none")
            inside = {v: fact.cells[v] for v in fact.cells if v in margin}
            key = keys_of(self.levels.columns(inside, margin), 0 * counts)
            first, sums = np.unique(key, return_index=True)[1], np.zeros(size_of(key), np.int64)
            np.add.at(sums, key, counts)
            cells = {v: codes[first] for v, codes in inside.items()}
            low = np.maximum(sums[key[first]] - base + 1, 0)
            yield Fact(margin, {}, cells, low, sums[key[first]] + base - 1, f"margin of {fact.source}")

    def fact(self, stage: str, content: Any, file: str) -> Fact:
        """A fact; its cells with bounds are in a file of their own."""
        (view,), universe = self.levels.subtables([content["view"]]), self.levels.pattern(content["universe"])
        source, claimed, own, path = str(content["source"]), content["between"], self.levels.finest(view), self.path
        check(own and universe.keys() <= view, f"{source}: its universe has variables that its view has not")
        if claimed == 0:
            none, no_cells = self.counts[:0], self.levels.with_levels({v: self.cells[v][:0] for v in own})
            return Fact(view, universe, no_cells, none, none, source)
        cells, (low, high) = self.read_cells(own, names.OF_KNOWN_CELLS, stage, file)
        check(len(low) == claimed, f"its number of cells is {len(low)}, and {claimed} are claimed")
        check(len(np.unique(keys_of(cells.values(), 0 * low))) == claimed, "a cell occurs twice")
        cells = self.levels.with_levels(cells)
        check(matching([universe], cells).all(), "a cell is outside the universe")
        self.path = path
        return Fact(view, universe, cells, low, high, source)

    def claims(self) -> Claims:
        """The certificate with its differences."""
        content = self.read_json(names.ASSESSMENT, names.CERTIFICATE, version=names.CERTIFICATE_FORMAT)
        check(all(content[kind] == [] for kind in names.NOT_YET), "it has evidence of an unknown kind")
        known = self.read_known(names.ASSESSMENT, content[names.PUBLIC_BEFORE])
        for what, one, other in zip(("sub-tables", "structural zeros", "facts"), known, self.known, strict=True):
            same = {*map(identity, one)} == {*map(identity, other)}
            check(same, f"the prior knowledge has other {what} than {names.TABLE}/{names.KNOWN}")
        listed = content[names.PUBLIC_BEFORE].get(names.LISTED)
        check(listed == self.recorded_lists, f"it names other code lists than {names.TABLE}/{names.KNOWN}")
        released, between = (self.levels.subtables(content[key]) for key in (names.ASKED, "separators"))
        self.hidden -= self.tried.intersection(*[[v for element in released for v in self.levels.finest(element)]])
        check(len(content[names.PUBLIC_IN_PART]) <= 1, "it lists the suppressed tables twice")
        for document in content[names.PUBLIC_IN_PART]:
            self.in_part = self.read_parts(names.ASSESSMENT, document)
        self.path = self.folder / names.ASSESSMENT / names.CERTIFICATE
        whole = [fact for fact in self.in_part.facts if not is_within(fact.view, released)]
        check(len(whole) == len(self.in_part.facts), "a suppressed table is released whole")
        beside = all(is_within(s, [frozenset(), *released]) for s in self.in_part.beside)
        check(beside, "a suppressed table is beside an unreleased one")
        self.known = self.known._replace(facts=[*self.before.facts, *self.in_part.facts, *self.in_part.margins])
        parts = [self.part(facts, number) for number, facts in enumerate(content["components"])]
        public = dict.fromkeys([*known.release, *released])
        self.labels = [*self.labels_beside(self.known._replace(release=public))]
        release = [s for s in public if not any(s < other for other in public)]
        table, records, small_count, min_width = (content[k] for k in ("table", "records", "small_count", "min_width"))
        return Claims(table, records, small_count, min_width, released, release, between, parts, self.in_part)

    def part(self, facts: Any, number: int) -> ComponentProof:
        """A component of the certificate, its cover and its differences."""
        (variables,) = self.levels.subtables([facts["variables"]])
        check(variables, "a component has no variables")
        inside, cover, claimed = [v for v in self.categories if v in variables], facts["cover"], facts["differences"]
        tree = cover and [self.levels.subtables(cover[key], inside) for key in ("cliques", "separators")]
        if claimed == 0:
            none = self.small[:0]
            return ComponentProof(variables, tree, none, {v: self.cells[v][:0] for v in inside}, none)
        own, place = self.levels.finest(variables), (names.ASSESSMENT, names.DIFFERENCES.format(number))
        cells, (of, changes) = self.read_cells(own, names.OF_DIFFERENCES, *place)
        check(np.array_equal(of, np.cumsum(np.diff(of, prepend=of[:1]) != 0)), "they are not numbered 0, 1, ...")
        check(size_of(of) == claimed, f"{self.path.name}: {size_of(of)} of {claimed} differences that are claimed")
        self.path = self.path.with_name(names.CERTIFICATE)
        return ComponentProof(variables, tree, of, self.levels.with_levels(cells), changes)

    def proven(self, claims: Claims) -> tuple[Array, Array]:
        """(n,) lowest and highest count of each at-risk cell over feasible tables.

        UB = min UB_j(i_Cj), LB = max(0, sum LB_j(i_Cj) - sum n_Sj(i_Sj)) for components C_j, separators S_j ([DKS]).
        """
        parts, between, release = claims.parts, claims.separators, [frozenset(), *claims.release]
        components = [part.variables for part in parts]
        whole = all(components) and frozenset().union(*components) == self.categories.keys()
        # feasible tables of components combine only if the separators are released and form a tree
        splits = self.holds(
            *self.problems(components, between, release, frozenset(self.categories), "component"),
            *((f"the separator {self.levels.label(s)} is not released", not is_within(s, release)) for s in between),
            ("the components do not have every variable, or one of them has none", not whole),
        )
        if not splits:
            return self.small, self.small
        low, high = -sum((self.at_risk(s) for s in between), 0 * self.small), self.small + self.total
        for part in parts:
            lowest, highest = self.reached(part, {s & part.variables for s in release})
            low, high = low + lowest, np.minimum(high, highest)
        return np.maximum(low, 0), high

    def reached(self, part: ComponentProof, release: set[SubTable]) -> tuple[Array, Array]:
        """The lowest and highest counts of the marginal cells in a component, by its differences and its cover."""
        cover, cells, is_feasible = part.cover, part.cells, self.feasible(part, release)
        self.is_feasible[part.variables] = is_feasible
        # group at-risk and changed cells together: the minimum and maximum of each group is reached
        columns = [np.append(self.cells[v], cells[v][is_feasible]) for v in self.levels.finest(part.variables)]
        after = (self.at(part.variables, cells) + part.changes)[is_feasible]
        values = np.append(self.at_risk(part.variables), after)
        low, high = (folded(f, columns, 0 * values, values)[: len(self.small)] for f in (np.minimum, np.maximum))
        if not cover or not self.holds(*self.problems(cover[0], cover[1], release, part.variables, "clique")):
            return low, high
        lower, upper = self.covered(part)
        return np.minimum(low, lower), np.maximum(high, upper)

    def covered(self, part: ComponentProof) -> tuple[Array, Array]:
        """By the cover ([DKS] theorem 1): UB = min n_C(i_C), LB = max(0, sum n_C(i_C) - sum n_S(i_S)).

        LB = 0 if another cell is the same to all cliques: that may have all records.
        """
        cover = part.cover
        lower, upper = -sum((self.at_risk(s) for s in cover[1]), 0 * self.small), self.small + self.total
        for clique in cover[0]:
            at_clique = self.at_risk(clique)
            lower, upper = lower + at_clique, np.minimum(upper, at_clique)
        spread = self.spread(frozenset().union(*cover[0]), part.variables)
        return np.maximum(lower, 0) * np.all([categories == 1 for categories in spread], axis=0), upper

    def feasible(self, part: ComponentProof, release: set[SubTable]) -> Array:
        """(entries,) which belong to a difference that gives a feasible table of the component."""
        variables, _, of, cells, changes = part
        # first, so that no later sum of a change and a count can overflow
        bad = (changes < -self.total) | (changes > self.total)
        after = self.at(variables, cells) + np.where(bad, 0, changes)
        bad |= (after < 0) | (matching(self.known.zeros, cells) & (after != 0))
        whole = self.levels.columns(cells, variables)
        bad |= folded(np.add, whole, of, np.ones_like(of)) > 1  # pieces of a cell could hide a count below 0
        if len(of) * self.total >= 1 << 63:
            changes = changes.astype(object)  # Python integers, for sums that might overflow
        for element in release:
            if not any(element < other for other in release):
                bad |= folded(np.add, self.levels.columns(cells, element), of, changes) != 0
        for fact in [*self.known.facts, *self.labels]:
            if fact.view & self.essential <= variables:
                low, high = self.room(fact, cells)
                moved = folded(np.add, self.levels.columns(cells, fact.view & variables), of, changes)
                bad |= (moved < low) | (moved > high)
        wrong = np.unique(of[bad])
        which = f"{len(wrong)} of {size_of(of)} differences give no feasible table"
        what = "a count below 0, a record in an impossible cell, a released marginal that changes, or one beside a fact"
        self.holds((f"{which} (the first is number {wrong.min(initial=len(of))}): {what}", len(wrong)))
        return np.isin(of, wrong, invert=True)

    def room(self, fact: Fact, cells: Cells) -> tuple[Array, Array]:
        """(n,) the least and the largest allowed change of the cells' marginal counts under a fact."""
        # a variable that the cells lack has one category, which all have
        universe = {v: c for v, c in fact.universe.items() if v in cells}
        own = self.levels.finest(fact.view & {*cells})
        most, listed = np.where(matching([universe], cells), 0, self.total), len(fact.low)
        place = keys_of([np.append(fact.cells[v], cells[v]) for v in own], np.zeros(listed + len(most), np.int64))
        row = np.full(size_of(place), -1)
        row[place[:listed]] = np.arange(listed)
        row = row[place[listed:]]
        counts, is_listed, low, high = self.at(fact.view, fact.cells), row >= 0, -most, most.copy()
        # no count is below 0: clipped there, so that no difference can overflow
        for ends, known_ends in ((low, fact.low), (high, fact.high)):
            ends[is_listed] = (np.maximum(known_ends, -1) - counts)[row[is_listed]]
        return low, high

    def problems(self, cliques: Any, separators: Any, release: Any, among: SubTable, what: str) -> Iterator[Problem]:
        """Running intersection; and each released sub-table, zero and fact is within a clique."""
        number = f"there are {len(cliques)} {what}s and {len(separators)} separators, not one fewer"
        yield number, len(separators) + 1 != len(cliques)
        for j, (clique, separator) in enumerate(zip(cliques[1:], separators, strict=False), start=1):
            shared = clique & frozenset().union(*cliques[:j])
            named = f"the {what} {self.levels.label(clique)} shares {self.levels.label(shared)} with earlier ones"
            yield f"{named}, not {self.levels.label(separator)}", shared != separator
            yield f"{named}, which is within none of them", not is_within(shared, cliques[:j])
        for s in release:
            yield f"the released {self.levels.label(s)} is within no {what}", not is_within(s & self.essential, cliques)
        for axis in self.axes:
            # incomparable levels of one axis: apart they could combine into a category that does not exist
            levels = self.levels.implied[axis].intersection(frozenset[str]().union(*cliques))
            is_apart = len(levels) > 1 and not is_within(levels, cliques)
            yield f"the levels {' and '.join(self.levels.finest(levels))} of {axis} are within no {what}", is_apart
        # a feasible table of a part without one of its variables may have records in impossible cells
        for zero in self.known.zeros:
            named = " and ".join(f"{v} = {' or '.join(self.categories[v][c] for c in sorted(zero[v]))}" for v in zero)
            is_apart = zero.keys() <= among and not is_within(frozenset(zero), cliques)
            yield f"the structural zero {named} is within no {what}", is_apart
        for fact in [*self.known.facts, *self.labels]:
            view = fact.view & self.essential
            is_apart = view <= among and not is_within(view, cliques)
            yield f"{fact.source}: {self.levels.label(fact.view)} is within no {what}; {AGAIN}", is_apart

    def at_risk(self, subtable: SubTable) -> Any:
        """(n,) the marginal's counts at the at-risk cells."""
        return folded(np.add, self.levels.columns(self.table, subtable), 0 * self.counts, self.counts)[self.rows]

    def at(self, subtable: SubTable, cells: Cells) -> Any:
        """(n,) the marginal's counts at the cells."""
        counts = np.append(self.counts, np.zeros_like(next(iter(cells.values())), np.int64))
        columns = [np.append(self.table[v], cells[v]) for v in self.levels.finest(subtable)]
        return folded(np.add, columns, 0 * counts, counts)[len(self.counts) :]


def folded(operation: np.ufunc, columns: Iterable[Array], first_column: Array, values: Array) -> Any:
    """(n,) sum, minimum or maximum of the values over all equal rows."""
    group = keys_of(columns, first_column)
    found = np.zeros(size_of(group), values.dtype)
    found[group] = 0 * values if operation is np.add else values  # extremes start from some value
    operation.at(found, group, values)
    return found[group]


def is_within(subtable: SubTable, others: Iterable[SubTable]) -> bool:
    return any(subtable <= other for other in others)


def matching(patterns: Iterable[Pattern], cells: Cells) -> Any:
    """(n,) whether the cell has a listed code of each variable of some pattern; not if it lacks a variable."""
    every = np.ones(len(next(iter(cells.values()))), np.bool_)
    own = [pattern.items() for pattern in patterns if pattern.keys() <= cells.keys()]
    matched = [np.all([every, *(np.isin(cells[v], [*codes]) for v, codes in pattern)], axis=0) for pattern in own]
    return np.any([~every, *matched], axis=0)


def identity(content: Any) -> Any:
    """A key that equal sub-tables, structural zeros or facts share, whatever their source."""
    if isinstance(content, Fact):
        cells = [content.cells[v].tobytes() for v in sorted(content.cells)]
        return content.view, identity(content.universe), *cells, content.low.tobytes(), content.high.tobytes()
    return frozenset(content.items()) if isinstance(content, dict) else content


def numbers_of(column: Any, kind: Any) -> Any:
    check(column.type == kind and not column.null_count, f"a column of {column.type} is not of {kind}, or has nulls")
    return column.to_numpy()


def codes_of(column: Any, categories: tuple[str, ...]) -> Any:
    return pc.fill_null(pc.index_in(column.cast(pa.string()), pa.array(categories, pa.string())), -1).to_numpy()
