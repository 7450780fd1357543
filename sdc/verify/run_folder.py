"""Check all claims of a run folder: its files, its release, and the bounds of each cell.

Outer bounds are only checked to contain the proven ones.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from sdc import run_format as names
from sdc.verify.core.levels import CORRUPT, Array, SubTable, size_of
from sdc.verify.core.proof import AGAIN, Claims, EvidenceFolder, InPart, codes_of, identity, is_within, numbers_of
from sdc.verify.core.verdict import CHECKS, judge
from sdc.verify.likely import check_limit
from sdc.verify.min_values import MIN_VALUES, check_values
from sdc.verify.published.release import check_release
from sdc.verify.published.signed import check_evidence, key_of
from sdc.verify.refutations import check_refutations
from sdc.verify.words import many

MAX_LISTED = 20
RECORDED = "as recorded in the run folder alone"
_ASSESSMENT = f"{names.ASSESSMENT}/{names.ASSESSMENT_FILE}"


class UnreadableError(Exception):
    """There is no run folder, or it has no certificate."""


@dataclass(frozen=True)
class Verification:
    """The result. If anything failed, nothing in the run folder counts as safe."""

    at_risk_cells: int = 0  # 0 < count <= small count, recounted from the table
    certified_cells: int = 0  # cells whose proven width suffices; 0 if the evidence was not checked
    differences: int = 0  # feasible tables of the certificate
    failures: tuple[str, ...] = ()  # each false claim
    uncertified: tuple[str, ...] = ()  # cells without proof, narrowest first, at most 20
    notes: tuple[str, ...] = ()  # remarks on valid claims
    known: str = ""  # source of the prior knowledge; empty if there is none
    refutations: int = 0  # refutations of the search, all checked
    bytes: str = ""  # whether files written anew equal the published ones; empty if nothing is published

    @property
    def verified(self) -> bool:
        """Whether every claim holds. A run without proofs can be verified too: compare the numbers of cells."""
        return not self.failures


def verify(folder: Path, say: Callable[[str], None] = lambda text: None) -> Verification:
    """Check every claim of a run folder; UnreadableError if there is no run folder or certificate."""
    if not (folder / names.MANIFEST).is_file():
        lacks = f"{folder} is not a run folder: it has no {names.MANIFEST}"
        raise UnreadableError(f"{lacks}; name one that sdc run has made")
    evidence = EvidenceFolder(folder)
    try:
        say("verify: the files against the manifest")
        risk = _checked_stages(evidence)
        evidence.read_table(risk["small_count"])
        _check_code_lists(evidence, risk[names.LISTED])
        return _verification(evidence, risk, say)
    except CORRUPT as error:
        what = _damage(evidence, error)
        if evidence.path.name == names.MANIFEST:
            raise UnreadableError(what) from error
        return Verification(failures=(*evidence.failures, what))


def verify_release(
    folder: Path,
    release: Path,
    small_count: int,
    min_width: int,
    limit: dict[str, Any] | None = None,
    rules: Mapping[str, Any] = MappingProxyType({}),
) -> Verification:
    """Check what the table and the certificate of a run folder prove for a release that is not public yet.

    Of the stored files only the table stage's prior knowledge is believed, which the caller checks; no verdict, digest
    or search result is. `uncertified` is empty. A `limit` on the posterior, as in a config, and the rules `n_rule`,
    `attributes` and `reveal_suppressed` are checked too.
    """
    evidence = EvidenceFolder(folder, release)
    try:
        evidence.read_table(small_count)
        claims = evidence.claims()
        _check_published(evidence, claims, "what is to be published")
        found = judge(evidence, claims, small_count, min_width, rules, claims_safe=True)
        open_ = found.open_own_cells
        evidence.holds((f"not proven: {many(open_, 'small cell')} of suppressed tables", open_))
        if limit is not None:
            check_limit(evidence, claims.release, limit, claims_safe=True)
        if (values := rules.get(MIN_VALUES)) is not None:
            check_values(evidence, claims, values, claims_safe=True)
    except CORRUPT as error:
        return Verification(failures=(*evidence.failures, _damage(evidence, error)))
    cells, differences = len(evidence.small), sum(size_of(part.of) for part in claims.parts)
    certified = 0 if evidence.failures else int((~found.is_narrow).sum())
    return Verification(cells, certified, differences, tuple(evidence.failures))


def _check_signed(evidence: EvidenceFolder) -> None:
    """The release is signed if the config requires it, and the confidential statement has the same key and release."""
    manifest = evidence.read_json(names.MANIFEST, version=names.MANIFEST_FORMAT)
    places = (names.RELEASE, names.SIGNATURE), (names.RELEASE, names.STATEMENT), (names.CONFIDENTIAL_STATEMENT,)
    there = [evidence.folder.joinpath(*place).exists() for place in places]
    is_signed = bool(manifest["config"].get("publication", {}).get("signing_key")) or any(there)
    lacking = ["/".join(place) for place, is_there in zip(places, there, strict=True) if is_signed and not is_there]
    evidence.holds((f"what is published is signed, and lacks {', '.join(lacking)}; {AGAIN}", lacking))
    if all(there):
        key = key_of(evidence.file(names.RELEASE, names.PUBLIC_KEY).read_bytes())
        evidence.file(names.CONFIDENTIAL_STATEMENT)
        check_evidence(evidence.folder, manifest, key)


def _damage(evidence: EvidenceFolder, error: Exception) -> str:
    of_another = " or of another table" if evidence.path.name == names.CERTIFICATE else ""
    how = "cannot be read" if isinstance(error, json.JSONDecodeError) else f"is corrupt{of_another}"
    return f"{evidence.path} {how}: {type(error).__name__}: {error}; {AGAIN}"


def _checked_stages(evidence: EvidenceFolder) -> dict[str, Any]:
    """The risk section of the manifest; the files of each stage are the recorded ones."""
    manifest = evidence.read_json(names.MANIFEST, version=names.MANIFEST_FORMAT)
    risk = {key: manifest["config"]["risk"][key] for key in ("small_count", "min_width", "undecided")}
    risk |= {rule: manifest["config"]["risk"].get(rule) for rule in ("posterior", *CHECKS, MIN_VALUES)}
    risk[names.REVEALS] = manifest["config"].get("release", {}).get(names.REVEALS)
    risk[names.ASSESSMENT] = manifest["config"].get(names.ASSESSMENT)
    risk[names.LISTED] = manifest["config"].get("table", {})
    recorded = {stage["name"]: stage["output"] for stage in manifest.get("stages", ())}
    if not (evidence.folder / names.ASSESSMENT / names.CERTIFICATE).is_file():
        lacks = f"{evidence.folder} has no {names.ASSESSMENT}/{names.CERTIFICATE}"
        raise UnreadableError(f"{lacks}: nothing proves its release; {AGAIN}")
    for stage in names.STAGES:
        lacking = stage not in recorded and (stage != names.RELEASE or (evidence.folder / stage).exists())
        evidence.holds((f"the manifest does not record the stage {stage}; {AGAIN}", lacking))
    _check_manifest(evidence, manifest, recorded.keys())
    for stage, digest in recorded.items():
        found, entries = _digest_of(evidence.folder / stage)
        what = f"a file was changed, added or removed (it has {', '.join(entries[:8])})"
        evidence.holds((f"{stage}/ is not what the manifest recorded: {what}; {AGAIN}", found != digest))
    return risk


def _check_manifest(evidence: EvidenceFolder, manifest: dict[str, Any], recorded: Collection[str]) -> None:
    """The manifest agrees with itself: its name follows from its config, its stages from its plan."""
    named, planned, policy = manifest["config"]["name"], manifest["planned"], manifest["config"]["risk"]["undecided"]
    lacks = {*planned} - {*recorded} if (evidence.folder / names.RELEASE).exists() else set[str]()
    head = manifest.get("ledger_head")
    other = min({*recorded} - {*planned} or lacks, default="")
    evidence.holds(
        (f"the manifest is named {manifest['name']}, its config {named}", manifest["name"] != named),
        (f"the manifest plans the stages {', '.join(planned)}, which does not fit {other}", other),
        (f"the manifest has the policy {policy!r}, which is none", policy not in names.POLICIES),
        ("the manifest has the head of a ledger, its config none", not manifest["config"].get("ledger") and head),
    )


def _check_code_lists(evidence: EvidenceFolder, table: dict[str, Any]) -> None:
    """Only variables that the config names, outside hierarchies, have code lists.

    Run folders of version 0.1 do not record code lists: then the config's are taken.
    """
    recoded = {v: recode.get("bins") or recode.get("groups") or () for v, recode in table.get("recodes", {}).items()}
    named, levels = {**table.get("categories", {}), **recoded}, {*chain(*table.get("hierarchies", {}).values())}
    own = {v: {*named.get(v, ())} if v not in levels else set[str]() for v in evidence.axes}
    if evidence.recorded_lists is None:
        codes = {v: [k for k, name in enumerate(evidence.categories[v]) if name in own[v]] for v in own}
        evidence.listed = {v: frozenset(codes[v]) for v in own if codes[v]}
    for v, listed in evidence.listed.items():
        met = {evidence.categories[v][code] for code in listed & {*evidence.table[v].tolist()}} - own.get(v, set())
        evidence.holds((f"no code list of {v} in the config has the category {min(met, default='')}", met))


def _digest_of(folder: Path) -> tuple[str, list[str]]:
    """SHA-256 over the names in a folder and the bytes of its files, and the names.

    A link or folder changes the digest, so that it differs from every complete stage.
    """
    entries, sha = sorted(folder.rglob("*")), hashlib.sha256(b"link" if folder.is_symlink() else b"")
    for path in entries:
        is_file = path.is_file() and not path.is_symlink()
        content = hashlib.sha256(path.read_bytes()).digest() if is_file else b"no file"
        sha.update(str(path.relative_to(folder)).encode() + b"\0" + content)
    return sha.hexdigest(), [path.name for path in entries]


def _verification(evidence: EvidenceFolder, risk: dict[str, Any], say: Callable[[str], None]) -> Verification:
    known, claims, before = len(evidence.failures), evidence.claims(), evidence.before
    cells, differences = len(evidence.small), sum(size_of(part.of) for part in claims.parts)
    say(
        f"verify: {many(cells, 'at-risk cell')}, {many(len(claims.parts), 'component')}, "
        f"{many(differences, 'difference')}"
    )
    _check_same_run(evidence, claims, risk)
    _check_records(evidence)
    if len(evidence.failures) > known:
        return Verification(cells, 0, differences, tuple(evidence.failures))
    claims_safe = evidence.read_json(names.ASSESSMENT, names.ASSESSMENT_FILE)["releasable"] not in (None, False)
    is_out, meets_rules = (evidence.folder / names.RELEASE).is_dir(), True
    verdict = judge(evidence, claims, risk["small_count"], risk["min_width"], risk, claims_safe or is_out)
    low, high, own = verdict.low, verdict.high, (verdict.own_cells, verdict.open_own_cells)
    narrow, notes = np.flatnonzero(verdict.is_narrow), list[str]()
    say(f"verify: {many(cells - len(narrow), 'cell')} proven")
    if risk["posterior"] is not None:
        above, meets_rules = check_limit(evidence, claims.release, risk["posterior"], claims_safe or is_out)
        notes.append(f"{above} of {cells} true counts have a probability above {risk['posterior']['threshold']}")
    values = risk[MIN_VALUES]
    few = 0 if values is None else check_values(evidence, claims, values, claims_safe or is_out)
    claims_broken = names.BROKEN in evidence.read_json(names.ASSESSMENT, names.ASSESSMENT_FILE)
    # no table shows that too few values are possible: the build is believed where nothing is published
    is_broken = not verdict.keeps_rules or bool(few and claims_broken)
    evidence.holds((f"{_ASSESSMENT} and the rules differ on whether a rule is broken", claims_broken != is_broken))
    meets_rules &= not is_broken
    _check_assessment(evidence, risk, _check_cells(evidence, low, high), meets_rules, len(narrow), own, few)
    if len(narrow) and is_out:
        what = f"released without proof for {many(len(narrow), 'cell')} (policy {risk['undecided']})"
        (notes if risk["undecided"] == names.UNPROVEN_IS_ALLOWED else evidence.failures).append(what)
    elif len(narrow):
        notes.append(f"not proven: {many(len(narrow), 'cell')}; nothing is released")
    if own[0]:
        notes.append(_of_parts(*own))
    if evidence.recorded_lists is None and evidence.listed and any(own):
        notes.append(f"{names.RELEASE}/ does not list the code lists of {', '.join(evidence.listed)}")
    if own[1] and is_out and risk["undecided"] != names.UNPROVEN_IS_ALLOWED:
        evidence.failures.append(f"released, and {_of_parts(*own)}")
    refutations = check_refutations(evidence, risk)
    are = "refutations of what was refused are" if refutations != 1 else "refutation of what was refused is"
    say(f"verify: {refutations:,} {are} worked out again")
    first = narrow[np.argsort((high - low)[narrow], kind="stable")][:MAX_LISTED]
    lines = [f"{_cell(evidence, k, low, high)}, width {high[k] - low[k]}, needed {risk['min_width']}" for k in first]
    failures, known_from = tuple(evidence.failures), RECORDED if any((*before.release, *before.facts)) else ""
    certified = cells - len(narrow)
    return Verification(cells, certified, differences, failures, tuple(lines), tuple(notes), known_from, refutations)


def _of_parts(cells: int, unproven: int) -> str:
    if not unproven:
        return f"{cells} of {cells} small cells of suppressed tables are proven to keep the width"
    return f"{unproven} of {cells} small cells of suppressed tables are not proven to keep the width"


def _check_same_run(evidence: EvidenceFolder, claims: Claims, risk: dict[str, Any]) -> None:
    """The certificate is of this table and risk, and of the release that the search found and release/ publishes."""
    for key, own in (
        ("table", evidence.digest),
        ("records", evidence.total),
        ("small_count", risk["small_count"]),
        ("min_width", risk["min_width"]),
    ):
        claimed = getattr(claims, key)
        which = f"its {key} is {str(claimed)[:12]}, this run's {str(own)[:12]}; nothing is proven, {AGAIN}"
        evidence.holds((f"the certificate is of another run: {which}", claimed != own))
    found = evidence.read_json(names.SEARCH, names.SEARCH_FILE)
    _check_same_release(evidence, claims.released, "search/search.json", evidence.levels.subtables(found["frontier"]))
    claimed = found.get(names.IN_PART)
    parts = InPart([], []) if claimed is None else evidence.read_parts(names.SEARCH, claimed)
    same = [{*map(identity, one)} == {*map(identity, other)} for one, other in zip(parts, claims.in_part, strict=True)]
    evidence.holds(("the certificate has other suppressed tables than search/search.json", not all(same)))
    if (evidence.folder / names.RELEASE).is_dir():
        _check_published(evidence, claims, "what release/ publishes")
        _check_signed(evidence)


def _check_records(evidence: EvidenceFolder) -> None:
    content = evidence.read_json(names.TABLE, names.BAD_RECORDS)
    aside, listed = content["set_aside"], sum(reason["records"] for reason in content["reasons"])
    evidence.holds(
        (f"{evidence.path} excludes {many(aside, 'record')}, with reasons for {listed}", aside != listed),
        (
            f"{evidence.path} has {many(content['records'], 'record')}, {aside} excluded, the table has "
            f"{evidence.total}",
            content["records"] - aside != evidence.total,
        ),
    )


def _check_published(evidence: EvidenceFolder, claims: Claims, what: str) -> None:
    """Totals of weights may be public instead of counts, and of fewer sub-tables than proven."""
    public, has_counts = check_release(evidence)
    own = [evidence.levels.closed(element - evidence.hidden) for element in claims.released]
    _check_same_release(evidence, own, what, public if has_counts else [*public, *own])


def _check_same_release(evidence: EvidenceFolder, released: list[SubTable], what: str, other: list[SubTable]) -> None:
    lacks = [f"lacks {evidence.levels.label(s)}" for s in other if not is_within(s, [frozenset(), *released])]
    adds = [f"adds {evidence.levels.label(s)}" for s in released if not is_within(s, [frozenset(), *other])]
    how = " and ".join(lacks[:5] + adds[:5])
    evidence.holds((f"the certificate's release is not {what}: it {how}; nothing is proven, {AGAIN}", how))


def _check_cells(evidence: EvidenceFolder, low: Array, high: Array) -> dict[str, Array] | None:
    """Each at-risk cell's claims equal the proofs, with an outer interval that contains them; None for other cells."""
    claimed = evidence.read_json(names.ASSESSMENT, names.ASSESSMENT_FILE).get(names.SHARPNESS)
    columns, where = evidence.read_columns(names.ASSESSMENT, names.CELLS), f"{names.ASSESSMENT}/{names.CELLS}"
    ends, cells = {end: numbers_of(columns[end], pa.int64()) for end in names.ENDS}, len(low)
    outer_low, inner_low, count, inner_high, outer_high = ends.values()
    if not evidence.holds(
        (f"{where} lists {many(len(count), 'cell')}, the table has {cells} at risk", len(count) != cells)
    ):
        return None
    methods = () if claimed is None else names.METHOD_OF.values()
    own = names.variable_columns(evidence.axes, [*names.OF_CELLS, *methods])
    other = [codes_of(columns[own[v]], c) != evidence.cells[v] for v, c in evidence.axes.items()]
    exact = columns[names.EXACT].to_numpy() if cells else outer_low.astype(bool)
    for what, flags in {
        "is not the cell in that row": np.any(other, axis=0),
        "has another count": count != evidence.small,
        "has a count outside its inner interval": (inner_low > count) | (inner_high < count),
        "claims a wider inner interval": (inner_low < low) | (inner_high > high),
        "claims a narrower inner interval": (inner_low > low) | (inner_high < high),
        "claims an outer interval that feasible tables leave": (outer_low > low) | (outer_high < high),
        "is exact where its intervals differ, or not where they agree": exact
        != ((outer_low == inner_low) & (outer_high == inner_high)),
    }.items():
        first = flags.argmax() if cells else 0
        evidence.holds((f"{where}: row {first} {what}; so {flags.sum()} of {cells} rows", flags.any()))
    if claimed is not None:
        _check_sharpness(evidence, claimed, columns, ends)
    return ends


def _check_sharpness(evidence: EvidenceFolder, claimed: Any, columns: dict[str, Any], ends: dict[str, Array]) -> None:
    """The numbers of sharp cells and of ends by each method follow from the cells."""
    outer_low, inner_low, _, inner_high, outer_high = ends.values()
    meets = {"lower": outer_low == inner_low, "upper": outer_high == inner_high}
    own = {"cells": len(outer_low), "sharp": int((meets["lower"] & meets["upper"]).sum())}
    counted = {key: {kind: Counter[str]() for kind in ("outer", "inner")} for key in ("met", "open")}
    for end, name in names.METHOD_OF.items():
        kind, _, side = end.partition("_")
        for method, is_met in zip(columns[name].to_pylist(), meets[side], strict=True):
            counted["met" if is_met else "open"][kind][method] += 1
    evidence.holds((f"{_ASSESSMENT} counts other methods or sharp cells than {names.CELLS}", claimed != own | counted))


def _check_assessment(
    evidence: EvidenceFolder,
    risk: dict[str, Any],
    ends: dict[str, Array] | None,
    meets_rules: bool,
    unproven: int,
    of_parts: tuple[int, int],
    few: int,
) -> None:
    content, where = evidence.read_json(names.ASSESSMENT, names.ASSESSMENT_FILE), _ASSESSMENT
    what = f"{where} and the config differ on sharp bounds: assessment = {risk[names.ASSESSMENT]}"
    # configs without sharp bounds make no claims on them
    fitting = (names.SHARP,) if names.SHARPNESS in content else (names.PROVEN, None)
    evidence.holds((what, risk[names.ASSESSMENT] not in fitting))
    if ends is None:
        return
    cells, (outer_low, inner_low, _, inner_high, outer_high) = len(evidence.small), ends.values()
    outer, inner, needed = outer_high - outer_low, inner_high - inner_low, risk["min_width"]
    refuted, undecided = outer < needed, (outer >= needed) & (inner < needed)
    is_out = (evidence.folder / names.RELEASE).is_dir()
    evidence.holds(
        (f"released in spite of {many(int(refuted.sum()), 'refuted cell')}: {where}", is_out and refuted.any())
    )
    verdict = False if refuted.any() or not meets_rules else None if undecided.any() or of_parts[1] or few else True
    for key, own in {
        "min_width_required": needed,
        "at_risk_cells": cells,
        "min_width": [int(width.min(initial=evidence.total)) for width in (inner, outer)],
        "undecided_cells": int(undecided.sum()),
        "releasable": verdict,
    }.items():
        what = f"{where} claims {key} = {content[key]}, it is {own}"
        evidence.holds((what, type(content[key]) is not type(own) or content[key] != own))
    claimed = None if not of_parts[0] else dict(zip(("cells", "unproven"), of_parts, strict=True))
    evidence.holds(
        (f"{where} has other numbers of suppressed cells than {claimed}", content.get(names.IN_PART) != claimed)
    )
    claims_safe = content["releasable"] not in (None, False)
    evidence.holds(
        (f"{where} claims releasable, but {unproven} of {cells} cells are not proven", claims_safe and unproven)
    )
    _check_witnesses(evidence, content["witnesses"], ends, refuted if refuted.any() else undecided)


def _check_witnesses(
    evidence: EvidenceFolder, witnesses: list[dict[str, Any]], ends: dict[str, Array], deciding: Array
) -> None:
    """The listed witnesses are deciding cells with their bounds, as many as fit."""
    number, listed = min(int(deciding.sum()), MAX_LISTED), dict[tuple[str, ...], dict[str, Any]]()
    for k in np.flatnonzero(deciding):
        cell = tuple(categories[evidence.cells[v][k]] for v, categories in evidence.axes.items())
        outer_low, inner_low, count, inner_high, outer_high = (int(end[k]) for end in ends.values())
        listed[cell] = {"count": count, "outer": [outer_low, outer_high], "inner": [inner_low, inner_high]}
    wrong = [
        witness
        for witness in witnesses
        if listed.get(tuple(witness["cell"].get(v) for v in evidence.axes))
        != {key: witness[key] for key in ("count", "outer", "inner")}
    ]
    named = {tuple(witness["cell"].values()) for witness in witnesses}
    evidence.holds(
        (f"{_ASSESSMENT} names {many(len(wrong), 'cell')} that decided nothing, or with other bounds", len(wrong)),
        (
            f"{_ASSESSMENT} names {many(len(named), 'cell')}, and {number} can be named",
            not len(named) == len(witnesses) == number,
        ),
    )


def _cell(evidence: EvidenceFolder, k: int, low: Array, high: Array) -> str:
    named = " ".join(f"{v}={categories[evidence.cells[v][k]]}" for v, categories in evidence.axes.items())
    return f"{named}: count {evidence.small[k]}, values {low[k]} to {high[k]} proven"
