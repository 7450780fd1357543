"""The release: cleared by its certificate, written, read back, verified, and entered into its ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sdc.config.build import ELSEWHERE, BuildConfig
from sdc.config.publication import PublicationConfig
from sdc.executor import IN_PROCESS, Executor
from sdc.model import subtable as st
from sdc.model.errors import NotReleasableError, ReleaseError, SdcError
from sdc.model.release import Release
from sdc.model.weights import UNIT, RecordWeights
from sdc.public.earlier import known_anew
from sdc.public.published import read_published
from sdc.publish.gate import Cleared, clear
from sdc.publish.publication import Texts, check_publication, differences, signing_key, write_publication
from sdc.publish.statement import checker, descriptor, of_file, passed
from sdc.record.ledger import Ledger
from sdc.record.ledger import record as record_publication
from sdc.risk.verdict import Policy
from sdc.run_format import (
    ASSESSMENT,
    ASSESSMENT_FILE,
    CONFIDENTIAL_STATEMENT,
    LEVELS,
    METADATA,
    RELEASE,
    REPORT,
    REVEALS,
    SHA256,
    SIGNED,
    SUB_TABLE,
    SUMS,
    TIMESTAMP,
    VERDICT,
    WEIGHTED,
)
from sdc.stages.assemble import require_utility
from sdc.stages.build import Build, Say, Work, effort_settings, plain
from sdc.stages.checks import check_labels
from sdc.stages.report import PAGE
from sdc.storage.certificate import Certificate
from sdc.storage.proofs import keep_proof, proofs_folder
from sdc.storage.run_folder import read_json
from sdc.storage.weighted import WeightedCertificate, read_weighted
from sdc.verify.run_folder import verify_release


def publish(work: Work, into: Path) -> None:
    """Clears the release by its certificate, writes the files, and reads them back."""
    build, executor = work.build, work.executor
    config, made, report = build.config, build.made, build.folder.stage(REPORT) / PAGE
    # nothing but this file speaks for the release: the gate checks all of it again
    certificate = made.certificate(ASSESSMENT)
    if certificate.asked != made.found.release:
        raise ReleaseError("the certificate is of another release than was found; nothing is released, run again")
    _require_not_refuted(build, report)
    try:
        require_utility(made.table, made.known, made.found.release, build.settings(executor))
    except NotReleasableError as error:
        raise NotReleasableError(f"{error}; nothing is published, see {report}") from error
    try:
        cleared = _cleared(build, certificate, executor)
    except ReleaseError as error:
        raise ReleaseError(f"{error}, see {report}") from error
    if cleared.unproven_cells:
        work.say(
            f"release: {cleared.unproven_cells} cells are not proven, let through by undecided: {build.policy.value}"
        )
    check_labels(config, made.table.schema)
    texts = _texts(build)
    write_publication(cleared, build.subject, config.name, into, texts=texts)
    # from the files as they will be published, still under their temporary name
    check_publication(cleared, into, config.name, texts)


def differing(build: Build, folder: Path) -> Iterator[tuple[str, str]]:
    """As `differences` of a release that was made, but of what signs it; errors as when it was made."""
    cleared, texts = _cleared(build, build.made.certificate(ASSESSMENT), IN_PROCESS), _texts(build)
    unsigned = replace(texts, about=texts.about.model_copy(update={"signing_key": None}))
    found = differences(cleared, folder, build.config.name, unsigned)
    return ((path, how) for path, how in found if path not in (*SIGNED, TIMESTAMP))


def _cleared(build: Build, certificate: Certificate, executor: Executor) -> Cleared:
    made, effort, weighted = build.made, build.settings(executor).effort, _weighted(build)
    judged = made.table, made.known, certificate, build.criteria, build.policy
    reveal = build.config.release.reveal_suppressed
    return clear(*judged, effort, weighted, hidden=build.hidden, reveal=reveal)


def _texts(build: Build) -> Texts:
    config, schema, listed = build.config, build.made.table.schema, build.made.known.listed
    return Texts(
        _with_required(build),
        config.labels.labels,
        "beside" if config.totals is None else config.totals.publish,
        frozenset(schema.names[v] for axis, _ in listed for v in st.members(schema.levels.of_axis[axis])),
    )


def _with_required(build: Build) -> PublicationConfig:
    """How to publish: what was required has a file of its own, or what goes out of it with merged categories.

    Even where what is released implies it.
    """
    config, made = build.config, build.made
    if config.totals is not None and config.totals.publish == "instead":
        return config.publication  # no counts go out
    required = (t for t in build.settings().wished(made.known).require if t in made.found.release)
    named = (st.label(t, made.table.schema) for t in (*required, *build.coarsened.values()))
    children = dict.fromkeys([*config.publication.children, *named])
    return config.publication.model_copy(update={"children": tuple(children)})


def _require_not_refuted(build: Build, report: Path) -> None:
    """NotReleasableError where sharp bounds prove a cell too narrow, which bounds of the gate alone might not see."""
    if build.config.seconds_to_sharpen is None:
        return
    schema, risk = build.made.table.schema, build.config.risk
    assessment, bounds = build.made.assessed(risk.small_count)
    narrow, (low, high) = ~build.criteria.width.is_wide(bounds.outer_width), assessment.min_width
    if narrow.any():
        named = [" ".join(f"{v}={c}" for v, c in schema.named(w.cell).items()) for w in assessment.witnesses]
        raise NotReleasableError(
            f"the release found is refuted: by sharp bounds {narrow.sum()} of {len(bounds)} at-risk cells are too "
            f"narrow (min width between {low} and {high}, required {risk.min_width}); nothing is published, see "
            f"{report}",
            "\n".join(named),
        )


def _weighted(build: Build) -> tuple[RecordWeights, WeightedCertificate] | None:
    """The weights, and what shows which of their totals may go out; ReleaseError where that is of another rounding."""
    if (asked := build.config.totals) is None:
        return None
    shown = read_weighted(build.folder.stage(WEIGHTED), build.made.table.schema)
    if shown.base != asked.round * UNIT:
        raise ReleaseError(f"the totals were judged for another rounding than {asked.round}; run again")
    return build.made.weights, shown


def unverified(build: Build, folder: Path, made: bool) -> str:
    """Why a release may not be public: by the table, the certificate, and the config's publications as they are now.

    Of one that was not made just now the gate judges the cells without proof again, which the policy "outer" may let
    through.
    """
    risk = build.config.risk
    limit = risk.posterior.model_dump() if risk.posterior else None
    try:
        known_anew(build.made.known, build.made.table, build.origin, build.config, build.head)
    except SdcError as error:
        return str(error)
    rules = {**risk.model_dump(), REVEALS: build.config.release.reveal_suppressed}
    found = verify_release(build.folder.path, folder, risk.small_count, risk.min_width, limit, rules)
    unproven = found.at_risk_cells - found.certified_cells
    if not found.failures and unproven and build.policy is Policy.REFUSE:
        return f"{unproven} of {found.at_risk_cells} cells are not proven"
    if not found.failures and unproven and not made:
        try:
            _require_not_refuted(build, build.folder.stage(REPORT) / PAGE)
            _cleared(build, build.made.certificate(ASSESSMENT), IN_PROCESS)
        except SdcError as error:
            return str(error)
    return "; ".join(found.failures)


def enter(build: Build, folder: Path, say: Say) -> None:
    """Notes what is about to be public: in the confidential statement, and last in its ledger."""
    _write_statement(build, folder)
    try:
        _enter_ledger(build, folder)
    except BaseException:  # what has no place has no statement either
        (build.folder.path / CONFIDENTIAL_STATEMENT).unlink(missing_ok=True)
        raise


def _write_statement(build: Build, folder: Path) -> None:
    """What a release is by, signed by the key that signs it: config, verdict, and digests of all evidence.

    Beside the stages' folders, each of which is whole before there is a release.
    """
    if (key := signing_key(build.config.publication)) is None:
        (build.folder.path / CONFIDENTIAL_STATEMENT).unlink(missing_ok=True)
        return
    own, digests = build.folder, build.digests
    assessed = own.stage(ASSESSMENT) / ASSESSMENT_FILE
    assessment = read_json(assessed)
    verdict = {assessed: {what: assessment[what] for what in VERDICT}}
    stages = (own.stage(stage) for stage in sorted(own.records().keys() - {RELEASE}))
    files = (path for stage in stages for path in sorted(stage.rglob("*")))
    evidence = [of_file(path, path.relative_to(own.path).as_posix(), verdict.get(path)) for path in files]
    config = build.config.model_dump(mode="json", exclude={**ELSEWHERE, "server": True})
    by = [descriptor("config", digests["config"], config), descriptor("data", digests["data"])]
    release = of_file(folder / SUMS, f"{RELEASE}/{SUMS}")
    own.write_text(CONFIDENTIAL_STATEMENT, passed(key, [release, *evidence], [checker(digests["code"]), *by]))


def _enter_ledger(build: Build, folder: Path) -> None:
    """A release that is not in its ledger has no place."""
    ledger = build.publications.ledger
    if ledger is None:
        return
    about, hidden, made = build.config.publication, build.hidden, build.made
    certificate, assessed = made.certificate(ASSESSMENT), made.assessed(build.config.risk.small_count)[0]
    public = Release.of(element & ~hidden for element in made.found.release.frontier)
    content = {
        "name": build.config.name,
        "table": ledger.keyed(build.origin.table),
        "build": build.base,
        "sub_tables": [st.names(element, made.table.schema) for element in public.frontier if element],
        "known": build.origin.entered(made.beside, public, ledger),
        "universe": {key: text for key, text in about.facts.items() if key in ("Population", "Reference period")},
        "folder": str(build.folder.stage(RELEASE).absolute()),
        "proof": keep_proof(proofs_folder(ledger.path), certificate, made.table, assessed.open_cells == 0),
        "metadata": SHA256 + hashlib.sha256((folder / METADATA).read_bytes()).hexdigest(),
        "public": _public(folder, ledger),
    }
    record_publication(content, ledger)


def _public(folder: Path, ledger: Ledger) -> dict[str, Any]:
    """All that the files of a release tell, read back from them; the counts by keyed digests."""
    about = read_json(folder / METADATA)
    tables = read_published(folder) if any(one.get(SUB_TABLE) for one in about["resources"]) else []
    return {
        "records": about["records"],
        "tables": {one.label: ledger.keyed(one.digest) for one in tables},
        "categories": {v.name: v.categories for one in tables for v in one.table.schema.variables},
        LEVELS: about.get(LEVELS, []),
    }


def release_settings(build: Build) -> list[Any]:
    config = build.config
    sections = [config.risk, config.publication, config.labels, *([] if config.totals is None else [config.totals])]
    utility = {"at_least", "weights", "demand"} if config.release.at_least is not None else set[str]()
    wished = config.release.model_dump(mode="json", include={"require", "reveal_suppressed", *utility})
    return [config.name, *map(plain, sections), effort_settings(config), wished, _public_key(config)]


def _public_key(config: BuildConfig) -> str:
    key = signing_key(config.publication)
    return "" if key is None else key.public
