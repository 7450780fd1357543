"""Checks a run folder's claims of safety from its table, its release and its certificate alone.

For an auditor: nothing of the search, of its bounds or of its solvers is imported, and all arithmetic is in integers.

A width is proven for an at-risk cell by feasible tables: tables of non-negative integers that agree with every
released marginal and have 0 in every impossible cell. The release splits into components at separators that are
released; feasible tables of two components agree there, and so fit together in every way that the separator's counts
allow ([DKS], reducible models). For each component the certificate gives some feasible tables as differences from its
true marginal table, which is feasible itself. Others are known to exist by a theorem: under a decomposable release
that contains the published one, explicit bounds are reached ([DKS] theorem 1), and what is feasible there is feasible
here.

What is not proven here: that a cell cannot move further. Outer bounds only have to contain what was proven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Differences, Flags
from sdc.feasible.proof import Part, Proof
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals, combine
from sdc.model.errors import InputError, RunFolderError, SdcError
from sdc.model.graph import Decomposition
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.table import Codes, Counts, Table, matching_rows
from sdc.publish.publication import check_publication
from sdc.storage.certificate import CERTIFICATE, Certificate, read_certificate
from sdc.storage.parquet import Columns, read_columns, read_written_table
from sdc.storage.run_folder import RunFolder, folder_digest, read_json

SEARCH, CELLS, ASSESSMENT = "search.json", "cells.parquet", "assessment.json"
ENDS = ("outer_lower", "inner_lower", "count", "inner_upper", "outer_upper")
NEEDED_STAGES = ("table", "search", "assessment")
UNPROVEN_IS_ALLOWED = "outer"  # what the config must say
MAX_LISTED = 20

Say = Callable[[str], None]


@dataclass(frozen=True)
class Verification:
    """What was found; where anything failed, nothing in the run folder is to be called safe.

    at_risk_cells    cells with 0 < count <= small count, counted again from the table
    certified_cells  those whose proven width reaches the required one; 0 where the evidence was not looked at
    differences      feasible tables that the certificate claims
    failures         each claim that does not hold, one message each
    uncertified      the cells without proof, narrowest first, at most 20
    notes            what holds and must be said all the same
    """

    at_risk_cells: int = 0
    certified_cells: int = 0
    differences: int = 0
    failures: tuple[str, ...] = ()
    uncertified: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        """Whether every claim holds. A run that claims no proof may hold it too: compare the cells."""
        return not self.failures


@dataclass(frozen=True)
class _Claimed:
    """What the manifest says the run was about."""

    small_count: int
    min_width: int
    undecided: str


@dataclass(frozen=True, eq=False)
class _AtRisk:
    """The cells with 0 < count <= small count, in the table's order."""

    table: Table
    cells: Codes
    counts: Counts

    @staticmethod
    def of(table: Table, small_count: int) -> _AtRisk:
        rows = table.at_risk(small_count)
        return _AtRisk(table, table.codes[rows], table.counts[rows])

    def __len__(self) -> int:
        return len(self.counts)

    def label(self, row: np.int64) -> str:
        """The cell by the names of its categories."""
        named = zip(self.table.schema.variables, self.cells[row], strict=True)
        return " ".join(f"{variable.name}={variable.categories[code]}" for variable, code in named)


def verify(folder: Path, say: Say = lambda text: None) -> Verification:
    """Checks every claim in a run folder.

    RunFolderError where it is no run folder or has no certificate; all else that is wrong is among the failures.
    """
    run = RunFolder(folder)
    claimed = _claimed(run)
    if not (run.stage("assessment") / CERTIFICATE).is_file():
        raise RunFolderError(
            f"{folder} has no assessment/{CERTIFICATE}: nothing proves its release; run the build again"
        )
    say("verify: the files against the manifest")
    changed = _changed_stages(run)
    try:
        found = _verify_evidence(run, claimed, say)
    except SdcError as error:
        found = Verification(failures=(str(error),))
    return replace(found, failures=(*changed, *found.failures))


def _verify_evidence(run: RunFolder, claimed: _Claimed, say: Say) -> Verification:
    table = _read_table(run.stage("table"))
    at_risk = _AtRisk.of(table, claimed.small_count)
    certificate = read_certificate(run.stage("assessment"), table.schema)
    proof = certificate.proof
    say(f"verify: {len(at_risk)} at-risk cells, {len(proof.parts)} components, {proof.differences} differences")
    release, foreign = _release(run, table, certificate)
    if faults := [*_identity_faults(certificate, table, claimed), *foreign]:
        return Verification(len(at_risk), 0, proof.differences, tuple(faults))
    proven, failures = _proven(at_risk, proof, release)
    say(f"verify: {int((proven[:, 1] - proven[:, 0] >= claimed.min_width).sum())} cells are proven")
    return _judged(run, claimed, at_risk, proven, Verification(differences=proof.differences, failures=tuple(failures)))


def _judged(
    run: RunFolder, claimed: _Claimed, at_risk: _AtRisk, proven: Intervals, found: Verification
) -> Verification:
    """What was found of the evidence, and with it of what the run claims."""
    widths = proven[:, 1] - proven[:, 0]
    narrow = np.flatnonzero(widths < claimed.min_width)
    narrow = narrow[np.argsort(widths[narrow], kind="stable")]
    published, notes = _publication_faults(run, claimed, len(narrow))
    claims = [*_cell_faults(run, at_risk, proven), *_assessment_faults(run, claimed, widths), *published]
    return replace(
        found,
        at_risk_cells=len(at_risk),
        certified_cells=len(at_risk) - len(narrow),
        failures=(*found.failures, *claims),
        uncertified=tuple(_uncertified(at_risk, row, proven, claimed.min_width) for row in narrow[:MAX_LISTED]),
        notes=tuple(notes),
    )


# The run folder


def _claimed(run: RunFolder) -> _Claimed:
    manifest = run.manifest()
    if not manifest:
        raise RunFolderError(f"{run.path} is no run folder: it has no manifest.json; name one that sdc run has made")
    with _damaged(run.path / "manifest.json"):
        risk = manifest["config"]["risk"]
        return _Claimed(int(risk["small_count"]), int(risk["min_width"]), str(risk["undecided"]))


def _changed_stages(run: RunFolder) -> list[str]:
    """Stages whose files are not those that the manifest recorded."""
    with _damaged(run.path / "manifest.json"):
        recorded = {name: record.output for name, record in run.records().items()}
    lacking = [name for name in NEEDED_STAGES if name not in recorded]
    if run.stage("release").exists() and "release" not in recorded:
        lacking.append("release")
    faults = [f"the manifest does not record the stage {name}; run the build again" for name in lacking]
    for name, output in recorded.items():
        if folder_digest(run.stage(name)) != output:
            files = sorted(path.name for path in run.stage(name).rglob("*") if path.is_file())
            listed = ", ".join(files[:8]) + (", ..." if len(files) > 8 else "")
            faults.append(
                f"{name}/ is not what the manifest recorded: a file was changed, added or removed (it has "
                f"{listed or 'no file'}); run the build again"
            )
    return faults


def _read_table(folder: Path) -> Table:
    """The table, counted again from its cells; InputError where it lists a cell twice or out of order."""
    with _damaged(folder):
        table = read_written_table(folder)
    again = Table.of(table.schema, table.codes, table.counts).with_zeros(table.zeros)
    if again.digest != table.digest:
        raise InputError(f"{folder} does not list every non-zero cell once and in order; run the build again")
    return table


def _release(run: RunFolder, table: Table, certificate: Certificate) -> tuple[Release, list[str]]:
    """The published release, or where none is published the certified one; and how others differ from it."""
    path = run.stage("search") / SEARCH
    with _damaged(path):
        found = Release.of(st.of(table.schema.index(name) for name in names) for names in read_json(path)["frontier"])
    faults = _differing("the certificate's release", certificate.release, f"search/{SEARCH}", found, table.schema)
    if not run.stage("release").is_dir():
        return certificate.release, faults
    with _damaged(run.stage("release")):
        published = check_publication(table, run.stage("release"))
    more = _differing(
        "the certificate's release", certificate.release, "what release/ publishes", published, table.schema
    )
    return published, faults + more


def _differing(what: str, one: Release, other_what: str, other: Release, schema: Schema) -> list[str]:
    if one == other:
        return []
    lacks = [st.label(element, schema) for element in other.frontier if element not in one]
    adds = [st.label(element, schema) for element in one.frontier if element not in other]
    parts = [f"{verb} {', '.join(names[:5])}" for verb, names in (("lacks", lacks), ("adds", adds)) if names]
    return [f"{what} is not {other_what}: it {' and '.join(parts)}; nothing is proven, run the build again"]


def _identity_faults(certificate: Certificate, table: Table, claimed: _Claimed) -> list[str]:
    """Why the certificate is not this run's."""
    pairs = [
        ("table", certificate.table_digest[:12], table.digest[:12]),
        ("small_count", certificate.small_count, claimed.small_count),
        ("min_width", certificate.min_width, claimed.min_width),
    ]
    return [
        f"the certificate is of another run: its {name} is {found}, this run's {wanted}; nothing is proven, run the "
        "build again"
        for name, found, wanted in pairs
        if found != wanted
    ]


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    """Says of a file that is not as it is written that it is damaged."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise RunFolderError(f"{path} is damaged: {type(error).__name__}: {error}; run the build again") from error


# The evidence


def _proven(at_risk: _AtRisk, proof: Proof, release: Release) -> tuple[Intervals, list[str]]:
    """(n, 2) the interval of each at-risk cell whose ends feasible tables reach, and what of the proof is wrong."""
    table, cells = at_risk.table, at_risk.cells
    nothing = np.stack([at_risk.counts, at_risk.counts], axis=1)
    if faults := _component_faults(proof, release, table):
        return nothing, faults
    intervals = []
    for part in proof.parts:
        interval, wrong = _proven_part(at_risk, part, release)
        intervals.append(interval)
        faults += wrong
    between = sum((table.marginal_at(s, cells) for s in proof.separators), np.zeros(len(at_risk), np.int64))
    return combine(intervals, between), faults


def _component_faults(proof: Proof, release: Release, table: Table) -> list[str]:
    """Why the components do not make up the release and the structural zeros, or are not split at released ones."""
    schema = table.schema
    tree = Decomposition(tuple(part.variables for part in proof.parts), proof.separators)
    faults = _tree_faults(tree, release, table, "component")
    faults += [f"the separator {st.label(s, schema)} is not released" for s in proof.separators if s not in release]
    if not all(tree.cliques) or Release.of(tree.cliques).variables != st.full(len(schema)):
        faults.append("the components do not have every variable, or one of them has none")
    return faults[:MAX_LISTED]


def _proven_part(at_risk: _AtRisk, part: Part, release: Release) -> tuple[Intervals, list[str]]:
    """(n, 2) of the at-risk cells' marginal cells in the component; and what of it is wrong."""
    table, within = at_risk.table.marginal(part.variables), release.within(part.variables)
    cells, row = np.unique(at_risk.cells[:, st.members(part.variables)], axis=0, return_inverse=True)
    inside = _AtRisk(table, cells, table.count_at(cells))
    feasible = part.differences.feasible(table, within)
    faults = _tree_faults(part.cover, within, table, "clique") if part.cover else []
    cover = None if faults else part.cover
    return _reached(inside, cover, part.differences.rows(feasible))[row.ravel()], [*_infeasible(feasible), *faults]


def _infeasible(feasible: Flags) -> list[str]:
    wrong = np.flatnonzero(~feasible)
    if not len(wrong):
        return []
    return [
        f"{len(wrong)} of {len(feasible)} differences give no feasible table (the first is number {wrong[0]}): a count "
        "below zero, a record in an impossible cell, or a released marginal that changes"
    ]


def _reached(at_risk: _AtRisk, cover: Decomposition | None, feasible: Differences) -> Intervals:
    """(n, 2) the interval of each cell whose ends are reached under the cover or by a difference."""
    table, low, high = at_risk.table, at_risk.counts.copy(), at_risk.counts.copy()
    if cover is not None:
        explicit = _explicit_bounds(table, at_risk.cells, cover)
        low, high = np.minimum(low, explicit[:, 0]), np.maximum(high, explicit[:, 1])
    place = matching_rows(at_risk.cells, feasible.cells, table.schema)
    moved = place[place >= 0]
    values = at_risk.counts[moved] + feasible.changes[place >= 0]
    np.minimum.at(low, moved, values)
    np.maximum.at(high, moved, values)
    return np.stack([low, high], axis=1)


def _explicit_bounds(table: Table, cells: Codes, cover: Decomposition) -> Intervals:
    """(n, 2) bounds that are reached: UB = min n_C(i_C), LB = max(0, sum n_C(i_C) - sum n_S(i_S)).

    [DKS] theorem 1. LB = 0 where a variable of two categories or more is in no clique: then the records of a cell may
    all move to another category of it. Each n_C - n_S is at most 0, so the sum may be cut at 0 after each clique.
    """
    upper = lower = table.marginal_at(cover.cliques[0], cells)
    for clique, separator in zip(cover.cliques[1:], cover.separators, strict=True):
        at_clique = table.marginal_at(clique, cells)
        upper = np.minimum(upper, at_clique)
        lower = np.maximum(lower + at_clique - table.marginal_at(separator, cells), 0)
    if not st.is_within(_essential(table.schema), Release.of(cover.cliques).variables):
        lower = np.zeros_like(upper)
    return np.stack([lower, upper], axis=1)


def _essential(schema: Schema) -> st.SubTable:
    """The variables of two categories or more; another can change no marginal."""
    return st.of(v for v, size in enumerate(schema.sizes) if size > 1)


def _tree_faults(tree: Decomposition, release: Release, table: Table, what: str) -> list[str]:
    """Why cliques (or components) are not those of a junction tree, or do not contain the release and the zeros."""
    if len(tree.separators) + 1 != len(tree.cliques):
        return [f"there are {len(tree.cliques)} {what}s and {len(tree.separators)} separators, not one fewer"]
    return [*_intersection_faults(tree, table.schema, what), *_containment_faults(tree, release, table, what)][
        :MAX_LISTED
    ]


def _intersection_faults(tree: Decomposition, schema: Schema, what: str) -> Iterator[str]:
    """Running intersection: what a clique shares with all earlier ones is its separator, within one of them."""
    for j, separator in enumerate(tree.separators, start=1):
        clique, earlier = tree.cliques[j], tree.cliques[:j]
        shared = clique & Release.of(earlier).variables
        named = f"the {what} {st.label(clique, schema)}"
        if shared != separator:
            yield f"{named} shares {st.label(shared, schema)} with earlier ones, not {st.label(separator, schema)}"
        if not any(st.is_within(shared, other) for other in earlier):
            yield f"{named} shares {st.label(shared, schema)} with earlier ones, which is within none of them"


def _containment_faults(tree: Decomposition, release: Release, table: Table, what: str) -> Iterator[str]:
    contained, essential = Release.of(tree.cliques), _essential(table.schema)
    for element in release.frontier:
        if element & essential not in contained:
            yield f"the released {st.label(element, table.schema)} is within no {what}"
    for element, label in zip(table.zeros.subtables, table.zeros.labels(table.schema), strict=True):
        if element not in contained:  # whole: a component that lacks one of its variables does not have the zero
            yield f"the structural zero {label} is within no {what}"


# The claims


def _cell_faults(run: RunFolder, at_risk: _AtRisk, proven: Intervals) -> list[str]:
    """What cells.parquet says of the at-risk cells that is not so."""
    path = run.stage("assessment") / CELLS
    with _damaged(path):
        columns, _ = read_columns(path)
        outer_lower, inner_lower, count, inner_upper, outer_upper = (_integers(columns, name) for name in ENDS)
        if len(count) != len(at_risk):
            return [f"assessment/{CELLS} lists {len(count)} cells, the table has {len(at_risk)} at risk"]
        other_cell = ~_same_cells(columns, at_risk)
    low, high = proven.T
    wrong = {
        "is not the cell in that row": other_cell,
        "has another count": count != at_risk.counts,
        "has a count outside its inner interval": (inner_lower > count) | (inner_upper < count),
        "claims a wider inner interval": (inner_lower < low) | (inner_upper > high),
        "claims an outer interval that feasible tables leave": (outer_lower > low) | (outer_upper < high),
    }
    return [_cell_fault(what, np.flatnonzero(flags), at_risk, proven) for what, flags in wrong.items() if flags.any()]


def _integers(columns: Columns, name: str) -> Counts:
    if columns[name].dtype != np.int64:
        raise TypeError(f"column {name!r} is {columns[name].dtype}, not int64")
    return columns[name]


def _same_cells(columns: Columns, at_risk: _AtRisk) -> Flags:
    """(n,) whether each row names the cell; all names have a prefix where one is taken by another column."""
    variables, same = at_risk.table.schema.variables, np.ones(len(at_risk), np.bool_)
    prefix = "variable:" if {*ENDS, "exact"} & set(at_risk.table.schema.names) else ""
    for v, variable in enumerate(variables):
        same &= columns[prefix + variable.name] == np.array(variable.categories, object)[at_risk.cells[:, v]]
    return same


def _cell_fault(what: str, wrong: npt.NDArray[np.int64], at_risk: _AtRisk, proven: Intervals) -> str:
    row = wrong[0]
    true = f"count {at_risk.counts[row]}, values {proven[row, 0]} to {proven[row, 1]} proven"
    return f"assessment/{CELLS}: {at_risk.label(row)} ({true}) {what}; so {len(wrong)} of {len(at_risk)} rows"


def _uncertified(at_risk: _AtRisk, row: np.int64, proven: Intervals, min_width: int) -> str:
    low, high = proven[row].tolist()
    reached = f"values {low} to {high} proven, width {high - low}, needed {min_width}"
    return f"{at_risk.label(row)}: count {at_risk.counts[row]}, {reached}"


def _assessment_faults(run: RunFolder, claimed: _Claimed, widths: Counts) -> list[str]:
    path = run.stage("assessment") / ASSESSMENT
    least, unproven = int(widths.min(initial=np.iinfo(np.int64).max)), int((widths < claimed.min_width).sum())
    with _damaged(path):
        content = read_json(path)
        low, releasable = int(content["min_width"][0]), content["releasable"]
        required, cells = int(content["min_width_required"]), int(content["at_risk_cells"])
    says_safe = releasable is not None and releasable is not False
    wrong = {
        f"requires width {required}, the manifest {claimed.min_width}": required != claimed.min_width,
        f"counts {cells} at-risk cells, the table has {len(widths)}": cells != len(widths),
        f"claims a width of at least {low} everywhere, proven is {least}": low > least,
        f"says releasable, but {unproven} of {len(widths)} cells are not proven": says_safe and unproven > 0,
    }
    return [f"assessment/{ASSESSMENT} {what}" for what, is_wrong in wrong.items() if is_wrong]


def _publication_faults(run: RunFolder, claimed: _Claimed, unproven: int) -> tuple[list[str], list[str]]:
    """Failures and notes: is anything published without proof?"""
    if not unproven:
        return [], []
    if not run.stage("release").is_dir():
        return [], [f"{unproven} cells are not proven, and nothing is released"]
    what = f"released without proof for {unproven} cells (policy {claimed.undecided})"
    return ([], [what]) if claimed.undecided == UNPROVEN_IS_ALLOWED else ([what], [])
