"""Checks a run folder's claims of safety from its table, its release and its certificate alone, in integers.

Nothing but the names in the files is shared with what made them. A feasible table, non-negative integers with the true
released marginals and 0 where it is impossible, proves how far a cell can move. The release splits at released
separators: feasible tables of the components fit together in every way ([DKS], reducible models). Those of a component
are given as differences from its true marginal table, or exist by [DKS] theorem 1: explicit bounds under a decomposable
release that contains the published one are reached. Outer bounds are only checked to contain what is proven.
"""

import hashlib
import json
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sdc import run_format as names

Array = NDArray[Any]
SubTable = frozenset[str]
Fault = tuple[str, Any]  # what is wrong, and whether it is
Cells = dict[str, Array]  # the codes of each variable, a cell a row
Part = namedtuple("Part", "variables cover of cells changes")  # difference of[e] changes cells[e] by changes[e]
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
        say("verify: the files against the manifest")
        audit.check_stages()
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

    def holds(self, *faults: Fault) -> bool:
        """Whether none of these is so; each that is becomes a failure."""
        found = [what for what, is_so in faults if is_so]
        self.failures += found
        return not found

    def file(self, *place: str) -> Path:
        self.path = self.folder.joinpath(*place)
        _check(self.path.is_file(), f"{self.path.name} is missing")
        return self.path

    def read_json(self, *place: str, version: int | None = None) -> Any:
        content = json.loads(self.file(*place).read_text(encoding="utf-8"))
        found = content.get("format") if version else None
        _check(found == version, f"it has format {found!r}, this version reads {version}")
        return content

    def read_columns(self, *place: str) -> dict[str, Any]:
        """The columns of a Parquet file, or those of a CSV file as text."""
        if self.file(*place).suffix == ".csv":
            as_text = pa_csv.ConvertOptions(column_types=dict.fromkeys([*self.categories, names.COUNT], pa.string()))
            layout = pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
            table = pa_csv.read_csv(self.path, parse_options=layout, convert_options=as_text)
        else:
            table = pq.ParquetFile(self.path).read()
        _check(len({*table.column_names}) == len(table.column_names), "two columns have one name")
        return dict(zip(table.column_names, table.columns, strict=True))

    def check_stages(self) -> None:
        """The files of each stage are those that the manifest recorded."""
        manifest = self.read_json(names.MANIFEST, version=names.MANIFEST_FORMAT)
        risk, recorded = manifest["config"]["risk"], {s["name"]: s["output"] for s in manifest.get("stages", ())}
        self.small_count, self.min_width, self.undecided = risk["small_count"], risk["min_width"], risk["undecided"]
        if not (self.folder / names.ASSESSMENT / names.CERTIFICATE).is_file():
            lacks = f"{self.folder} has no {names.ASSESSMENT}/{names.CERTIFICATE}"
            raise UnreadableError(f"{lacks}: nothing proves its release; {AGAIN}")
        for stage in names.STAGES:
            lacking = stage not in recorded and (stage != names.RELEASE or (self.folder / stage).exists())
            self.holds((f"the manifest does not record the stage {stage}; {AGAIN}", lacking))
        for stage, digest in recorded.items():
            files = sorted(path for path in (self.folder / stage).rglob("*") if path.is_file())
            named = [str(path.relative_to(self.folder / stage)).encode() + b"\0" for path in files]
            content = [hashlib.sha256(path.read_bytes()).digest() for path in files]
            found = hashlib.sha256(b"".join(n + sha for n, sha in zip(named, content, strict=True))).hexdigest()
            what = f"a file was changed, added or removed (it has {', '.join(path.name for path in files[:8])})"
            self.holds((f"{stage}/ is not what the manifest recorded: {what}; {AGAIN}", found != digest))

    def read_table(self) -> None:
        """The table, counted again from its parts, and its at-risk cells."""
        recorded = self.read_json(names.TABLE, names.SCHEMA, version=names.TABLE_FORMAT)
        variables = tuple(Variable(v["name"], tuple(v["categories"])) for v in recorded["variables"])
        listed, self.categories = [part["name"] for part in recorded["parts"]], dict(variables)
        parts = [self.read_columns(names.TABLE, name) for name in listed]
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
        in_order = (np.diff(_keys(self.table.values(), 0 * self.counts)) > 0).all()
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
        """A component of the certificate, its cover and its differences."""
        (variables,) = self.subtables([facts["variables"]], self.categories)
        _check(variables, "a component has no variables")
        inside, cover, claimed = [v for v in self.categories if v in variables], facts["cover"], facts["differences"]
        tree = cover and [self.subtables(cover[key], inside) for key in ("cliques", "separators")]
        if claimed == 0:
            return Part(variables, tree, self.small[:0], {v: self.cells[v][:0] for v in inside}, self.small[:0])
        columns = self.read_columns(names.ASSESSMENT, names.DIFFERENCES.format(number))
        own = names.variable_columns(inside, names.OF_DIFFERENCES)
        _check({*columns} == {*own.values(), *names.OF_DIFFERENCES}, "a column is unknown or missing")
        of, changes = (_numbers(columns[name], pa.int64()) for name in names.OF_DIFFERENCES)
        cells = {v: _numbers(columns[own[v]], pa.uint16()) for v in inside}
        _check(all(cells[v].max(initial=0) < len(self.categories[v]) for v in inside), "a code is unknown")
        _check(np.array_equal(of, np.cumsum(np.diff(of, prepend=of[:1]) != 0)), "they are not numbered 0, 1, ...")
        _check(_size(of) == claimed, f"{self.path.name} has {_size(of)} differences, {claimed} are claimed")
        self.path = self.path.with_name(names.CERTIFICATE)
        return Part(variables, tree, of, cells, changes)

    def check_release(self, certified: list[SubTable]) -> None:
        """What is certified is what the search found, and what release/ publishes: exact marginals, no other file."""
        found = self.subtables(self.read_json(names.SEARCH, names.SEARCH_FILE)["frontier"], self.categories)
        others, folder = {f"{names.SEARCH}/{names.SEARCH_FILE}": found}, self.folder / names.RELEASE
        if folder.is_dir():
            metadata = self.read_json(names.RELEASE, names.METADATA)
            tables = [resource for resource in metadata["resources"] if names.SUB_TABLE in resource]
            public = self.subtables([table[names.SUB_TABLE] for table in tables], self.categories)
            listed = {names.METADATA, names.DICTIONARY, names.GUIDE, *(table["path"] for table in tables)}
            _check(metadata["records"] == self.total, f"{metadata['records']} records, the table has {self.total}")
            _check({path.name for path in folder.iterdir()} <= listed, "a file is no table that it lists")
            for table, subtable in zip(tables, public, strict=True):
                columns = self.read_columns(names.RELEASE, table["path"])
                is_exact = {v: [*map(str, column)] for v, column in columns.items()} == self.marginal(subtable)
                sha = names.SHA256 + hashlib.sha256(self.path.read_bytes()).hexdigest()
                _check(is_exact and sha == table["hash"], f"{self.path} is not the exact marginal of the table")
            others["what release/ publishes"] = public
        for what, other in others.items():
            lacks = [f"lacks {self.label(s)}" for s in other if not _within(s, certified)]
            adds = [f"adds {self.label(s)}" for s in certified if not _within(s, [frozenset(), *other])]
            how = " and ".join(lacks[:5] + adds[:5])
            self.holds((f"the certificate's release is not {what}: it {how}; nothing is proven, {AGAIN}", how))

    def verification(self, say: Callable[[str], None]) -> Verification:
        """What the certificate proves, and with it whether all else that is claimed holds."""
        content = self.read_json(names.ASSESSMENT, names.CERTIFICATE, version=names.CERTIFICATE_FORMAT)
        known = len(self.failures)
        for key, own in (("table", self.digest), ("small_count", self.small_count), ("min_width", self.min_width)):
            which = f"its {key} is {str(content[key])[:12]}, this run's {str(own)[:12]}; nothing is proven, {AGAIN}"
            self.holds((f"the certificate is of another run: {which}", content[key] != own))
        release, between = (self.subtables(content[key], self.categories) for key in ("release", "separators"))
        parts = [self.part(facts, number) for number, facts in enumerate(content["components"])]
        cells, differences = len(self.small), sum(_size(part.of) for part in parts)
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
        content, cells = self.read_json(names.ASSESSMENT, names.ASSESSMENT_FILE), len(low)
        least, required, listed = content["min_width"][0], content["min_width_required"], content["at_risk_cells"]
        width, says_safe = int((high - low).min(initial=MAX_TOTAL)), content["releasable"] not in (None, False)
        where = f"{names.ASSESSMENT}/{names.ASSESSMENT_FILE}"
        self.holds(
            (f"{where} requires width {required}, the manifest {self.min_width}", required != self.min_width),
            (f"{where} counts {listed} at-risk cells, the table has {cells}", listed != cells),
            (f"{where} claims a width of at least {least} everywhere, proven is {width}", least > width),
            (f"{where} says releasable, but {unproven} of {cells} cells are not proven", says_safe and unproven),
        )
        columns, where = self.read_columns(names.ASSESSMENT, names.CELLS), f"{names.ASSESSMENT}/{names.CELLS}"
        outer_low, inner_low, count, inner_high, outer_high = (_numbers(columns[end], pa.int64()) for end in names.ENDS)
        if not self.holds((f"{where} lists {len(count)} cells, the table has {cells} at risk", len(count) != cells)):
            return
        own = names.variable_columns(self.categories, names.OF_CELLS)
        other = [_codes(columns[own[v]], c) != self.cells[v] for v, c in self.categories.items()]
        for what, flags in {
            "is not the cell in that row": np.any(other, axis=0),
            "has another count": count != self.small,
            "has a count outside its inner interval": (inner_low > count) | (inner_high < count),
            "claims a wider inner interval": (inner_low < low) | (inner_high > high),
            "claims an outer interval that feasible tables leave": (outer_low > low) | (outer_high < high),
        }.items():
            first = [self.cell(k, low, high) for k in np.flatnonzero(flags)[:1]]
            self.holds(*((f"{where}: {cell} {what}; so {flags.sum()} of {cells} rows", True) for cell in first))

    def proven(self, parts: list[Part], between: list[SubTable], release: list[SubTable]) -> tuple[Array, Array]:
        """(n,) the lowest and the highest count of each at-risk cell that feasible tables reach.

        UB = min UB_j(i_Cj), LB = max(0, sum LB_j(i_Cj) - sum n_Sj(i_Sj)) for components C_j, separators S_j ([DKS]).
        """
        components = [part.variables for part in parts]
        whole = all(components) and frozenset().union(*components) == self.categories.keys()
        splits = self.holds(
            *self.tree_faults(components, between, release, frozenset(self.categories), "component"),
            *((f"the separator {self.label(s)} is not released", not _within(s, release)) for s in between),
            ("the components do not have every variable, or one of them has none", not whole),
        )
        if not splits:
            return self.small, self.small
        low, high = zip(*(self.reached(part, {s & part.variables for s in release}) for part in parts), strict=True)
        return np.maximum(sum(low) - sum(self.at(s, self.cells) for s in between), 0), np.min(high, axis=0)

    def reached(self, part: Part, release: set[SubTable]) -> tuple[Array, Array]:
        """The same of their marginal cells in a component, by its differences and its cover."""
        cover, cells, kept = part.cover, part.cells, self.feasible(part, release)
        columns = [np.append(self.cells[v], cells[v][kept]) for v in cells]
        after = (self.at(part.variables, cells) + part.changes)[kept]
        values = np.append(self.at(part.variables, self.cells), after)
        low, high = (_folded(f, columns, 0 * values, values)[: len(self.small)] for f in (np.minimum, np.maximum))
        if not cover or not self.holds(*self.tree_faults(cover[0], cover[1], release, part.variables, "clique")):
            return low, high
        # [DKS] theorem 1: UB = min n_C(i_C), LB = max(0, sum n_C(i_C) - sum n_S(i_S)), 0 if a variable is in no clique
        at_cliques, at_separators = ([self.at(s, self.cells) for s in subtables] for subtables in cover)
        is_bound = self.essential & part.variables <= frozenset().union(*cover[0])
        lower = np.maximum(sum(at_cliques) - sum(at_separators), 0) * is_bound
        return np.minimum(low, lower), np.maximum(high, np.min(at_cliques, axis=0))

    def feasible(self, part: Part, release: set[SubTable]) -> Array:
        """(entries,) which belong to a difference that leads to a feasible table of the component."""
        variables, _, of, cells, changes = part
        bad = (changes < -self.total) | (changes > self.total)
        after = self.at(variables, cells) + np.where(bad, 0, changes)
        bad |= (after < 0) | (self.impossible(cells) & (after != 0))
        bad |= _folded(np.add, cells.values(), of, np.ones_like(of)) > 1  # pieces of a cell could hide a count below 0
        if len(of) * self.total >= 1 << 63:
            changes = changes.astype(object)  # Python's integers, for sums that might wrap around
        for element in release:
            if not any(element < other for other in release):
                bad |= _folded(np.add, [cells[v] for v in element], of, changes) != 0
        wrong = np.unique(of[bad])
        which = f"{len(wrong)} of {_size(of)} differences give no feasible table"
        what = "a count below zero, a record in an impossible cell, or a released marginal that changes"
        self.holds((f"{which} (the first is number {wrong.min(initial=len(of))}): {what}", len(wrong)))
        return np.isin(of, wrong, invert=True)

    def tree_faults(self, cliques: Any, separators: Any, release: Any, among: SubTable, what: str) -> Iterator[Fault]:
        """Running intersection; and what is released and known to be impossible of the variables is within a clique."""
        number = f"there are {len(cliques)} {what}s and {len(separators)} separators, not one fewer"
        yield number, len(separators) + 1 != len(cliques)
        for j, (clique, separator) in enumerate(zip(cliques[1:], separators, strict=False), start=1):
            shared = clique & frozenset().union(*cliques[:j])
            named = f"the {what} {self.label(clique)} shares {self.label(shared)} with earlier ones"
            yield f"{named}, not {self.label(separator)}", shared != separator
            yield f"{named}, which is within none of them", not _within(shared, cliques[:j])
        for s in release:
            yield f"the released {self.label(s)} is within no {what}", not _within(s & self.essential, cliques)
        for zero in self.zeros:  # whole: what lacks one of its variables does not have the zero
            named = " and ".join(f"{v} = {' or '.join(self.categories[v][c] for c in zero[v])}" for v in zero)
            is_apart = zero.keys() <= among and not _within(frozenset(zero), cliques)
            yield f"the structural zero {named} is within no {what}", is_apart

    def at(self, subtable: SubTable, cells: Cells) -> Any:
        """(n,) the marginal's counts at the cells."""
        counts = np.append(self.counts, np.zeros_like(next(iter(cells.values())), np.int64))
        columns = [np.append(self.table[v], cells[v]) for v in subtable]
        return _folded(np.add, columns, 0 * counts, counts)[len(self.counts) :]

    def marginal(self, subtable: SubTable) -> dict[str, list[str]]:
        """Its non-zero cells by names, in order, and their counts."""
        kept = {v: self.table[v] for v in self.categories if v in subtable}
        first = np.unique(_keys(kept.values(), 0 * self.counts), return_index=True)[1]
        counts = _folded(np.add, kept.values(), 0 * self.counts, self.counts)
        named = {v: [self.categories[v][code] for code in codes[first]] for v, codes in kept.items()}
        return {**named, names.COUNT: [*map(str, counts[first])]}

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


def _keys(columns: Iterable[Array], key: Array) -> Array:
    """(n,) numbers: equal where the rows are, ascending as they do; `key` is the first column."""
    for column in columns:
        values = int(column.max(initial=0)) + 1
        if _size(key) * values >= 1 << 62:  # ranks instead, before a number could wrap around
            key = np.unique(key, return_inverse=True)[1]
        key = key * values + column
    return key


def _folded(operation: np.ufunc, columns: Iterable[Array], first_column: Array, values: Array) -> Any:
    """(n,) the sum, the least or the largest of the values in all rows that equal this one."""
    _, group = np.unique(_keys(columns, first_column), return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    return operation.reduceat(values[order], starts)[group]


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
