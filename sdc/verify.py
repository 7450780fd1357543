"""Checks a run folder's claims of safety from its table, its release and its certificate alone, in integers.

For an auditor: but for the names in the files nothing is shared with what made them. Feasible tables prove how far a
cell can move: non-negative integers, equal to the true table in every released marginal, 0 where it is impossible. The
release splits at separators that are released: feasible tables of two components agree there, and fit together in every
way ([DKS], reducible models). Those of a component are given as differences from its true marginal table, or exist by a
theorem: explicit bounds under a decomposable release that contains the published one are reached ([DKS] theorem 1).
That a cell cannot move further is not proven: outer bounds only have to contain what is.
"""

import csv
import hashlib
import json
from collections import namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sdc import run_format as names

Array = NDArray[Any]
SubTable = frozenset[str]
Cells = dict[str, Array]  # the codes of each variable, a cell a row
Part = tuple[SubTable, Any, Array, Cells, Array]  # a component, its cover, and whose, where and what its changes are
Variable = namedtuple("Variable", "name categories")
Schema = namedtuple("Schema", "variables")
StructuralZeros = namedtuple("StructuralZeros", "patterns")  # the digest of a table is over how these three print
DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError, pa.ArrowException)
AGAIN, MAX_LISTED, MAX_TOTAL = "run the build again", 20, 1 << 53


class UnreadableError(Exception):
    """There is no run folder, or it has no certificate."""


@dataclass(frozen=True)
class Verification:
    """What was found; where anything failed, nothing in the run folder is to be called safe."""

    at_risk_cells: int = 0  # 0 < count <= small count, counted again from the table
    certified_cells: int = 0  # whose proven width reaches the required one; 0 where the evidence was not looked at
    differences: int = 0  # feasible tables that the certificate claims
    failures: tuple[str, ...] = ()  # each claim that does not hold
    uncertified: tuple[str, ...] = ()  # cells without proof, narrowest first, at most 20
    notes: tuple[str, ...] = ()  # what holds and must be said all the same

    @property
    def verified(self) -> bool:
        """Whether every claim holds. A run that claims no proof may hold it too: compare the cells."""
        return not self.failures


def verify(folder: Path, say: Callable[[str], None] = lambda text: None) -> Verification:
    """Checks every claim; UnreadableError where it is no run folder or has no certificate, all else is a failure."""
    audit = _Audit(folder)
    try:
        audit.check_stages(say)
        audit.read_table()
        return audit.verification(say)
    except DAMAGED as error:
        of_another = " or of another table" if audit.path.name == names.CERTIFICATE else ""
        how = "cannot be read" if isinstance(error, json.JSONDecodeError) else f"is damaged{of_another}"
        what = f"{audit.path} {how}: {type(error).__name__}: {error}; {AGAIN}"
        if audit.path.name == names.MANIFEST:
            raise UnreadableError(what) from error
        return Verification(failures=(*audit.failures, what))


class _Audit:
    """A run folder, the file read last and the claims that failed; then what its manifest says, and its table."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.failures = folder, folder / names.MANIFEST, list[str]()
        if not self.path.is_file():
            lacks = f"{folder} is no run folder: it has no {names.MANIFEST}"
            raise UnreadableError(f"{lacks}; name one that sdc run has made")

    def require(self, holds: Any, failure: str) -> None:
        self.failures += [] if holds else [failure]

    def read(self, *place: str, version: int | None = None) -> Any:
        """A JSON file of that version, or the columns of a Parquet or CSV file by name."""
        self.path = path = self.folder.joinpath(*place)
        _check(path.is_file(), f"{path.name} is missing")
        if path.suffix == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
            found = content.get("format") if version else None
            _check(found == version, f"it has format {found!r}, this version reads {version}")
            return content
        if path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                header, *rows = csv.reader(file)
            columns = list(zip(*rows, strict=True))
        else:
            table = pq.ParquetFile(path).read()
            header, columns = table.column_names, table.columns
        _check(len({*header}) == len(header), "two columns have one name")
        return dict(zip(header, columns, strict=True))

    def check_stages(self, say: Callable[[str], None]) -> None:
        """The files of each stage are those that the manifest recorded."""
        manifest = self.read(names.MANIFEST, version=names.MANIFEST_FORMAT)
        risk, recorded = manifest["config"]["risk"], {s["name"]: s["output"] for s in manifest.get("stages", ())}
        self.small_count, self.min_width, self.undecided = risk["small_count"], risk["min_width"], risk["undecided"]
        if not (self.folder / names.ASSESSMENT / names.CERTIFICATE).is_file():
            lacks = f"{self.folder} has no {names.ASSESSMENT}/{names.CERTIFICATE}"
            raise UnreadableError(f"{lacks}: nothing proves its release; {AGAIN}")
        say("verify: the files against the manifest")
        for stage in (names.TABLE, names.SEARCH, names.ASSESSMENT, names.RELEASE):
            lacking = stage not in recorded and (stage != names.RELEASE or (self.folder / stage).exists())
            self.require(not lacking, f"the manifest does not record the stage {stage}; {AGAIN}")
        for stage, digest in recorded.items():
            files, sha = sorted(path for path in (self.folder / stage).rglob("*") if path.is_file()), hashlib.sha256()
            for path in files:
                content = hashlib.sha256(path.read_bytes()).digest()
                sha.update(str(path.relative_to(self.folder / stage)).encode() + b"\0" + content)
            what = f"a file was changed, added or removed (it has {', '.join(path.name for path in files[:8])})"
            self.require(sha.hexdigest() == digest, f"{stage}/ is not what the manifest recorded: {what}; {AGAIN}")

    def read_table(self) -> None:
        """The table, counted again from its parts, and its at-risk cells."""
        recorded = self.read(names.TABLE, names.SCHEMA, version=names.TABLE_FORMAT)
        variables = tuple(Variable(v["name"], tuple(v["categories"])) for v in recorded["variables"])
        listed, self.categories = [part["name"] for part in recorded["parts"]], dict(variables)
        parts = [self.read(names.TABLE, name) for name in listed]
        self.path, sizes = self.folder / names.TABLE, [(part["cells"], part["total"]) for part in recorded["parts"]]
        _check({path.name for path in self.path.glob(names.PARTS)} <= {*listed}, "it has a part that is not recorded")
        _check(all([*part] == [*self.categories, names.COUNT] for part in parts), "columns are not the variables")
        _check(all(len(c) == len({*c}) <= 1 << 16 for _, c in variables), "a variable has a category twice")
        self.table = {v: np.concatenate([_codes(part[v], c) for part in parts]) for v, c in variables}
        known = min(map(np.min, self.table.values())) >= 0
        _check(known and len(variables) == len(self.table) < 64, "a category is unknown or a variable occurs twice")
        counts = [_numbers(part[names.COUNT], pa.int64()) for part in parts]
        _check([(len(c), sum(c.tolist())) for c in counts] == sizes, "a part has another total")  # Python's integers
        self.counts, self.total = np.concatenate(counts), sum(total for _, total in sizes)
        in_order = np.array_equal(_groups(self.table.values(), 0 * self.counts), np.arange(len(self.counts)))
        whole = in_order and self.counts.min() > 0 and self.total <= MAX_TOTAL
        _check(whole, f"{self.path} does not list every non-zero cell once and in order")
        patterns = recorded.get(names.STRUCTURAL_ZEROS, ())
        zeros = tuple(sorted({tuple(sorted((v, tuple(sorted({*c}))) for v, c in pattern)) for pattern in patterns}))
        known = all({*c} <= {*range(len(variables[v].categories))} and v >= 0 for zero in zeros for v, c in zero)
        self.zeros = [{variables[v].name: codes for v, codes in zero} for zero in zeros]
        known = known and all(zeros) and [*map(len, zeros)] == [*map(len, self.zeros)]
        _check(known and not self.impossible(self.table).any(), "a structural zero is of no cell or has records")
        data = np.stack([*self.table.values()], axis=1).astype("<u2").tobytes() + self.counts.astype("<i8").tobytes()
        text = repr(StructuralZeros(zeros)) if zeros else ""
        self.digest = hashlib.sha256(repr(Schema(variables)).encode() + data + text.encode()).hexdigest()
        _check(self.digest == recorded["digest"], f"its digest is {self.digest[:12]}, not {recorded['digest'][:12]}")
        rows, self.essential = self.counts <= self.small_count, frozenset(v for v, c in variables if len(c) > 1)
        self.cells, self.small = {v: codes[rows] for v, codes in self.table.items()}, self.counts[rows]

    def subtables(self, listed: Any, among: Iterable[str]) -> list[SubTable]:
        """Of lists of variables; ValueError for one that is not among those given."""
        _check(all(isinstance(some, list) for some in [listed, *listed]), "a list of lists of variables is expected")
        unknown = {str(v) for subtable in listed for v in subtable} - {*among}
        _check(not unknown, f"unknown variable {min(unknown, default='')!r}, the table has {', '.join(among)}")
        return [frozenset(subtable) for subtable in listed]

    def part(self, facts: Any, number: int) -> Part:
        """A component of the certificate; of its differences number of[e] changes cells[e] by changes[e]."""
        (variables,) = self.subtables([facts["variables"]], self.categories)
        _check(variables, "a component has no variables")
        inside, cover, claimed = [v for v in self.categories if v in variables], facts["cover"], facts["differences"]
        tree = cover and [self.subtables(cover[key], inside) for key in ("cliques", "separators")]
        if claimed == 0:
            return variables, tree, self.small[:0], {v: self.cells[v][:0] for v in inside}, self.small[:0]
        columns = self.read(names.ASSESSMENT, names.DIFFERENCES.format(number))
        prefix = names.VARIABLE if {names.DIFFERENCE, names.CHANGE} & variables else ""
        of, changes = (_numbers(columns.pop(name), pa.int64()) for name in (names.DIFFERENCE, names.CHANGE))
        cells = {v: _numbers(columns.pop(prefix + v), pa.uint16()) for v in inside}
        known = all(codes.max(initial=0) < len(self.categories[v]) for v, codes in cells.items())
        _check(known and not columns, "a column or a code is unknown")
        _check(np.array_equal(of, np.cumsum(np.diff(of, prepend=of[:1]) != 0)), "they are not numbered 0, 1, ...")
        _check(_size(of) == claimed, f"{self.path.name} has {_size(of)} differences, {claimed} are claimed")
        self.path = self.path.with_name(names.CERTIFICATE)
        return variables, tree, of, cells, changes

    def check_release(self, certified: list[SubTable]) -> None:
        """What is certified is what the search found, and what release/ publishes: exact marginals, no other file."""
        found = self.subtables(self.read(names.SEARCH, names.SEARCH_FILE)["frontier"], self.categories)
        others, folder = {f"{names.SEARCH}/{names.SEARCH_FILE}": found}, self.folder / names.RELEASE
        if folder.is_dir():
            metadata = self.read(names.RELEASE, names.METADATA)
            tables = [resource for resource in metadata["resources"] if names.SUB_TABLE in resource]
            public = self.subtables([table[names.SUB_TABLE] for table in tables], self.categories)
            listed = {names.METADATA, names.DICTIONARY, names.GUIDE, *(table["path"] for table in tables)}
            _check(metadata["records"] == self.total, f"{metadata['records']} records, the table has {self.total}")
            _check({path.name for path in folder.iterdir()} <= listed, "a file is no table that it lists")
            for table, subtable in zip(tables, public, strict=True):
                columns = self.read(names.RELEASE, table["path"])
                is_exact = {v: [*map(str, column)] for v, column in columns.items()} == self.marginal(subtable)
                sha = names.SHA256 + hashlib.sha256(self.path.read_bytes()).hexdigest()
                _check(is_exact and sha == table["hash"], f"{self.path} is not the exact marginal of the table")
            others["what release/ publishes"] = public
        for what, other in others.items():
            lacks = [self.label(subtable) for subtable in other if not _within(subtable, certified)]
            adds = [self.label(subtable) for subtable in certified if not _within(subtable, [frozenset(), *other])]
            how = [f"{verb} {', '.join(some[:5])}" for verb, some in (("lacks", lacks), ("adds", adds)) if some]
            which = f"the certificate's release is not {what}: it {' and '.join(how)}"
            self.require(not how, f"{which}; nothing is proven, {AGAIN}")

    def verification(self, say: Callable[[str], None]) -> Verification:
        """What the certificate proves, and with it whether all else that is claimed holds."""
        content = self.read(names.ASSESSMENT, names.CERTIFICATE, version=names.CERTIFICATE_FORMAT)
        known = len(self.failures)
        for key, own in (("table", self.digest), ("small_count", self.small_count), ("min_width", self.min_width)):
            which = f"its {key} is {str(content[key])[:12]}, this run's {str(own)[:12]}; nothing is proven, {AGAIN}"
            self.require(content[key] == own, f"the certificate is of another run: {which}")
        release, between = (self.subtables(content[key], self.categories) for key in ("release", "separators"))
        parts = [self.part(facts, number) for number, facts in enumerate(content["components"])]
        cells, differences = len(self.small), sum(_size(of) for _, _, of, _, _ in parts)
        say(f"verify: {cells} at-risk cells, {len(parts)} components, {differences} differences")
        self.check_release(release)
        if len(self.failures) > known:
            return Verification(cells, 0, differences, tuple(self.failures))
        low, high = self.proven(parts, between, [frozenset(), *release])
        narrow, notes = np.flatnonzero(high - low < self.min_width), list[str]()
        say(f"verify: {cells - len(narrow)} cells are proven")
        self.check_assessment(low, high, len(narrow))
        if len(narrow) and (self.folder / names.RELEASE).is_dir():
            what = f"released without proof for {len(narrow)} cells (policy {self.undecided})"
            (notes if self.undecided == names.UNPROVEN_IS_ALLOWED else self.failures).append(what)
        elif len(narrow):
            notes.append(f"{len(narrow)} cells are not proven, and nothing is released")
        first = narrow[np.argsort((high - low)[narrow], kind="stable")][:MAX_LISTED]
        lines = [f"{self.cell(k, low, high)}, width {high[k] - low[k]}, needed {self.min_width}" for k in first]
        return Verification(cells, cells - len(narrow), differences, tuple(self.failures), tuple(lines), tuple(notes))

    def check_assessment(self, low: Array, high: Array, unproven: int) -> None:
        """What is claimed of all at-risk cells together and of each is no more than what is proven."""
        content, cells = self.read(names.ASSESSMENT, names.ASSESSMENT_FILE), len(low)
        least, required, listed = content["min_width"][0], content["min_width_required"], content["at_risk_cells"]
        width, says_safe = int((high - low).min(initial=MAX_TOTAL)), content["releasable"] not in (None, False)
        for what, wrong in {
            f"requires width {required}, the manifest {self.min_width}": required != self.min_width,
            f"counts {listed} at-risk cells, the table has {cells}": listed != cells,
            f"claims a width of at least {least} everywhere, proven is {width}": least > width,
            f"says releasable, but {unproven} of {cells} cells are not proven": says_safe and unproven,
        }.items():
            self.require(not wrong, f"{names.ASSESSMENT}/{names.ASSESSMENT_FILE} {what}")
        columns = self.read(names.ASSESSMENT, names.CELLS)
        outer_low, inner_low, count, inner_high, outer_high = (_numbers(columns[end], pa.int64()) for end in names.ENDS)
        if len(count) != cells:
            what = f"lists {len(count)} cells, the table has {cells} at risk"
            return self.failures.append(f"{names.ASSESSMENT}/{names.CELLS} {what}")
        prefix = names.VARIABLE if {*names.ENDS, names.EXACT} & self.categories.keys() else ""
        other = [_codes(columns[prefix + v], c) != self.cells[v] for v, c in self.categories.items()]
        for what, flags in {
            "is not the cell in that row": np.any(other, axis=0),
            "has another count": count != self.small,
            "has a count outside its inner interval": (inner_low > count) | (inner_high < count),
            "claims a wider inner interval": (inner_low < low) | (inner_high > high),
            "claims an outer interval that feasible tables leave": (outer_low > low) | (outer_high < high),
        }.items():
            for k in np.flatnonzero(flags)[:1]:
                which = f"{names.ASSESSMENT}/{names.CELLS}: {self.cell(k, low, high)}"
                self.failures.append(f"{which} {what}; so {flags.sum()} of {cells} rows")

    def proven(self, parts: list[Part], between: list[SubTable], release: list[SubTable]) -> tuple[Array, Array]:
        """(n,) the lowest and the highest count of each at-risk cell that feasible tables reach.

        UB = min UB_j(i_Cj), LB = max(0, sum LB_j(i_Cj) - sum n_Sj(i_Sj)) for components C_j, separators S_j ([DKS]).
        """
        known, components = len(self.failures), [part[0] for part in parts]
        self.check_tree(components, between, release, frozenset(self.categories), "component")
        for separator in between:
            self.require(_within(separator, release), f"the separator {self.label(separator)} is not released")
        whole = all(components) and frozenset().union(*components) == self.categories.keys()
        self.require(whole, "the components do not have every variable, or one of them has none")
        if len(self.failures) > known:
            return self.small, self.small
        low, high = zip(*(self.reached(part, {s & part[0] for s in release}) for part in parts), strict=True)
        return np.maximum(sum(low) - sum(self.at(s, self.cells) for s in between), 0), np.min(high, axis=0)

    def reached(self, part: Part, release: set[SubTable]) -> tuple[Array, Array]:
        """The same of their marginal cells in a component, by its differences and its cover."""
        variables, cover, of, cells, changes = part
        count, before = self.at(variables, self.cells), self.at(variables, cells)
        good = ~self.infeasible(part, before, release)[of]
        values = np.append(count, (before + changes)[good])
        group = _groups([np.append(self.cells[v], cells[v][good]) for v in cells], 0 * values)
        low, high = np.full_like(values, MAX_TOTAL), 0 * values
        np.minimum.at(low, group, values)
        np.maximum.at(high, group, values)
        low, high = low[group[: len(count)]], high[group[: len(count)]]
        if not cover or not self.check_tree(cover[0], cover[1], release, variables, "clique"):
            return low, high
        # [DKS] theorem 1: UB = min n_C(i_C), LB = max(0, sum n_C(i_C) - sum n_S(i_S)), 0 if a variable is in no clique
        at_cliques, at_separators = ([self.at(s, self.cells) for s in subtables] for subtables in cover)
        is_bound = self.essential & variables <= frozenset().union(*cover[0])
        lower = np.maximum(sum(at_cliques) - sum(at_separators), 0) * is_bound
        return np.minimum(low, lower), np.maximum(high, np.min(at_cliques, axis=0))

    def infeasible(self, part: Part, before: Array, release: set[SubTable]) -> Array:
        """(differences,) which of them, from counts before, lead to no feasible table of the component."""
        _, _, of, cells, changes = part
        bad = (changes < -self.total) | (changes > self.total)
        after, entry = before + np.where(bad, 0, changes), _groups(cells.values(), of)
        bad |= (after < 0) | (self.impossible(cells) & (after != 0))
        bad |= np.bincount(entry)[entry] > 1  # a cell in two pieces could hide a count below zero
        if len(of) * self.total >= 1 << 63:
            changes = changes.astype(object)  # Python's integers, for sums that might wrap around
        for element in release:
            if not any(element < other for other in release):
                group = _groups([cells[v] for v in element], of)
                bad |= _sums(group, changes)[group] != 0
        wrong: Array = np.bincount(of[bad], minlength=_size(of)) > 0
        which = f"{wrong.sum()} of {len(wrong)} differences give no feasible table"
        what = "a count below zero, a record in an impossible cell, or a released marginal that changes"
        self.require(not wrong.any(), f"{which} (the first is number {of[bad].min(initial=len(of))}): {what}")
        return wrong

    def check_tree(self, cliques: Any, separators: Any, release: Any, among: SubTable, what: str) -> bool:
        """Running intersection; and what is released and known to be impossible of the variables is within a clique."""
        known, label, one_fewer = len(self.failures), self.label, len(separators) + 1 == len(cliques)
        self.require(one_fewer, f"there are {len(cliques)} {what}s and {len(separators)} separators, not one fewer")
        for j, separator in enumerate(separators if one_fewer else [], start=1):
            shared = cliques[j] & frozenset().union(*cliques[:j])
            named = f"the {what} {label(cliques[j])} shares {label(shared)} with earlier ones"
            self.require(shared == separator, f"{named}, not {label(separator)}")
            self.require(_within(shared, cliques[:j]), f"{named}, which is within none of them")
        for element in (element for element in release if not _within(element & self.essential, cliques)):
            self.failures.append(f"the released {label(element)} is within no {what}")
        for zero in self.zeros:  # whole: what lacks one of its variables does not have the zero
            named = " and ".join(f"{v} = {' or '.join(self.categories[v][c] for c in zero[v])}" for v in zero)
            is_within = _within(frozenset(zero), cliques) or not zero.keys() <= among
            self.require(is_within, f"the structural zero {named} is within no {what}")
        return len(self.failures) == known

    def at(self, subtable: SubTable, cells: Cells) -> Any:
        """(n,) the marginal's counts at the cells."""
        counts = np.append(self.counts, np.zeros_like(next(iter(cells.values())), np.int64))
        group = _groups([np.append(self.table[v], cells[v]) for v in subtable], 0 * counts)
        return _sums(group, counts)[group[len(self.counts) :]]

    def marginal(self, subtable: SubTable) -> dict[str, list[str]]:
        """Its non-zero cells by names, in order, and their counts."""
        kept = [v for v in self.categories if v in subtable]
        group = _groups([self.table[v] for v in kept], 0 * self.counts)
        first = np.unique(group, return_index=True)[1]
        named = {v: [self.categories[v][code] for code in self.table[v][first]] for v in kept}
        return {**named, names.COUNT: [*map(str, _sums(group, self.counts))]}

    def impossible(self, cells: Cells) -> Any:
        """(n,) whether the cell has, for every variable of some structural zero, one of its codes."""
        zeros = [zero.items() for zero in self.zeros if zero.keys() <= cells.keys()]
        excluded = [np.all([np.isin(cells[v], codes) for v, codes in zero], axis=0) for zero in zeros]
        return np.any([np.zeros_like(next(iter(cells.values())), np.bool_), *excluded], axis=0)

    def label(self, subtable: SubTable) -> str:
        return "*".join(v for v in self.categories if v in subtable) or "(total)"

    def cell(self, k: int, low: Array, high: Array) -> str:
        named = " ".join(f"{v}={categories[self.cells[v][k]]}" for v, categories in self.categories.items())
        return f"{named}: count {self.small[k]}, values {low[k]} to {high[k]} proven"


def _groups(columns: Iterable[Array], group: Array) -> Array:
    """(n,) numbers 0, 1, ...: equal where the rows are, ascending as they do; `group` is the first column."""
    for column in columns:
        values = int(column.max(initial=0)) + 1
        if _size(group) * values >= 1 << 62:  # ranks instead, before a number could wrap around
            group = np.unique(group, return_inverse=True)[1]
        group = group * values + column
    return np.unique(group, return_inverse=True)[1]


def _sums(group: Array, values: Array) -> Array:
    sums = np.zeros(_size(group), values.dtype)
    np.add.at(sums, group, values)
    return sums


def _size(group: Array) -> int:
    return int(group.max(initial=-1)) + 1


def _within(subtable: SubTable, others: Iterable[SubTable]) -> bool:
    return any(subtable <= other for other in others)


def _check(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _numbers(column: Any, kind: Any) -> Any:
    _check(column.type == kind and not column.null_count, f"a column of {column.type} is not of {kind}, or has nulls")
    return column.to_numpy()


def _codes(column: Any, categories: tuple[str, ...]) -> Any:
    return pc.fill_null(pc.index_in(column.cast(pa.string()), pa.array(categories, pa.string())), -1).to_numpy()
