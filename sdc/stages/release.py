"""Publications: the release of a build, its upload, and releases published without a build."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from sdc import run_format as names
from sdc.config.build import ELSEWHERE, BuildConfig
from sdc.config.file import faults_of
from sdc.config.given import require_names
from sdc.config.publication import LabelsConfig, PublicationConfig
from sdc.data.source import cause_of, file_system, is_unreached, require_no_password
from sdc.events import emit
from sdc.executor import IN_PROCESS, Executor
from sdc.model import subtable as st
from sdc.model.errors import (
    ConfigError,
    InputError,
    MissingLibraryError,
    NotReleasableError,
    ReleaseError,
    RunFolderError,
    SdcError,
    TemporaryError,
    many,
)
from sdc.model.labels import Labels
from sdc.model.release import Release
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES
from sdc.model.table import Table
from sdc.model.weights import UNIT, RecordWeights
from sdc.protect.rounding import Rounded
from sdc.public.earlier import known_anew
from sdc.public.published import read_published
from sdc.publish.catalogue import checker, descriptor, of_file, passed
from sdc.publish.formats import CountTable
from sdc.publish.gate import Cleared, GateSubject, clear
from sdc.publish.publication import Texts, check_publication, differences, signing_key, write_publication
from sdc.record.ledger import Ledger
from sdc.record.ledger import record as record_publication
from sdc.risk.verdict import Policy
from sdc.search.best import FoundRelease
from sdc.search.found import Found
from sdc.stages.assemble import require_utility
from sdc.stages.build import Build, Say, Work, effort_settings, plain
from sdc.stages.report import PAGE
from sdc.stages.table import check_labels
from sdc.storage.certificate import Certificate, WeightedCertificate, read_weighted
from sdc.storage.proofs import proofs_folder, save_proof
from sdc.storage.run_folder import RunFolder, folder_digest, read_json
from sdc.verify.run_folder import verify_release


def publish(work: Work, into: Path) -> None:
    """Clear the release by its certificate, write the files and read them back."""
    build, executor = work.build, work.executor
    config, made, report = build.config, build.made, build.folder.stage(names.REPORT) / PAGE
    # the gate trusts only this file, and checks all of it
    certificate = made.certificate(names.ASSESSMENT)
    if certificate.asked != made.found.release:
        raise ReleaseError("the certificate is for another release; nothing is released, run again")
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
        work.say(f"release: {cleared.unproven_cells} cells are not proven, accepted by risk.accept_undecided")
    check_labels(config, made.table.schema)
    texts = _texts(build)
    write_publication(cleared, build.gate_input, config.name, into, texts=texts)
    # check the final files, still under their temporary name
    check_publication(cleared, into, config.name, texts)


def differing(build: Build, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield differences between a release and what this version writes, except signatures.

    Errors as for publication.
    """
    cleared, texts = _cleared(build, build.made.certificate(names.ASSESSMENT), IN_PROCESS), _texts(build)
    unsigned = replace(texts, about=texts.about.model_copy(update={"signing_key": None}))
    found = differences(cleared, folder, build.config.name, unsigned)
    return ((path, how) for path, how in found if path not in (*names.SIGNED, names.TIMESTAMP))


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
    """Return the publication settings, with a file for each required sub-table or its recoded form."""
    config, made = build.config, build.made
    if config.totals is not None and config.totals.publish == "instead":
        return config.publication  # no counts are published
    required = (t for t in build.settings().constraints(made.known).require if t in made.found.release)
    named = (st.label(t, made.table.schema) for t in (*required, *build.coarsened.values()))
    children = dict.fromkeys([*config.publication.children, *named])
    return config.publication.model_copy(update={"children": tuple(children)})


def _require_not_refuted(build: Build, report: Path) -> None:
    """Raise NotReleasableError if sharp bounds prove a cell too narrow, which the gate's own bounds may miss."""
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
    """Return the weights and their certificate; ReleaseError if it is for another rounding."""
    if (totals := build.config.totals) is None:
        return None
    shown = read_weighted(build.folder.stage(names.WEIGHTED), build.made.table.schema)
    if shown.base != totals.round * UNIT:
        raise ReleaseError(f"the totals were judged for another rounding than {totals.round}; run again")
    return build.made.weights, shown


def unverified(build: Build, folder: Path, made: bool) -> str:
    """Return why a release may not be public, or "": by table, certificate and current earlier publications.

    For a release that was not made just now, the gate judges unproven cells again, if the policy accepts them.
    """
    risk = build.config.risk
    limit = risk.posterior.model_dump() if risk.posterior else None
    try:
        known_anew(build.made.known, build.made.table, build.origin, build.config, build.head)
    except SdcError as error:
        return str(error)
    rules = {**risk.recorded(), names.REVEALS: build.config.release.reveal_suppressed}
    found = verify_release(build.folder.path, folder, risk.small_count, risk.min_width, limit, rules)
    unproven = found.at_risk_cells - found.certified_cells
    if not found.failures and unproven and build.policy is Policy.REFUSE:
        return f"{unproven} of {found.at_risk_cells} cells are not proven"
    if not found.failures and unproven and not made:
        try:
            _require_not_refuted(build, build.folder.stage(names.REPORT) / PAGE)
            _cleared(build, build.made.certificate(names.ASSESSMENT), IN_PROCESS)
        except SdcError as error:
            return str(error)
    return "; ".join(found.failures)


def enter(build: Build, folder: Path, say: Say) -> None:
    """Record what is about to be public: the confidential statement first, the ledger last."""
    _write_statement(build, folder)
    try:
        _enter_ledger(build, folder)
    except BaseException:  # no release, no statement
        (build.folder.path / names.CONFIDENTIAL_STATEMENT).unlink(missing_ok=True)
        raise


def _write_statement(build: Build, folder: Path) -> None:
    """Write the signed confidential statement: config, verdict, and digests of all evidence.

    It lies beside the stage folders, which are complete before there is a release.
    """
    if (key := signing_key(build.config.publication)) is None:
        (build.folder.path / names.CONFIDENTIAL_STATEMENT).unlink(missing_ok=True)
        return
    own, digests = build.folder, build.digests
    assessed = own.stage(names.ASSESSMENT) / names.ASSESSMENT_FILE
    assessment = read_json(assessed)
    verdict = {assessed: {what: assessment[what] for what in names.VERDICT}}
    stages = (own.stage(stage) for stage in sorted(own.records().keys() - {names.RELEASE}))
    files = (path for stage in stages for path in sorted(stage.rglob("*")))
    evidence = [of_file(path, path.relative_to(own.path).as_posix(), verdict.get(path)) for path in files]
    config = build.config.recorded(exclude={**ELSEWHERE, "server": True})
    by = [descriptor("config", digests["config"], config), descriptor("data", digests["data"])]
    release = of_file(folder / names.SUMS, f"{names.RELEASE}/{names.SUMS}")
    own.write_text(names.CONFIDENTIAL_STATEMENT, passed(key, [release, *evidence], [checker(digests["code"]), *by]))


def _enter_ledger(build: Build, folder: Path) -> None:
    """Enter the release into its ledger; without an entry it is not published."""
    ledger = build.publications.ledger
    if ledger is None:
        return
    about, hidden, made = build.config.publication, build.hidden, build.made
    certificate, assessed = made.certificate(names.ASSESSMENT), made.assessed(build.config.risk.small_count)[0]
    public = Release.of(element & ~hidden for element in made.found.release.frontier)
    proven, run = assessed.open_cells == 0, build.folder.path
    content = {
        "name": build.config.name,
        "table": ledger.keyed(build.origin.table),
        "build": build.base,
        "sub_tables": [st.names(element, made.table.schema) for element in public.frontier if element],
        "known": build.origin.entered(made.beside, public, ledger),
        "universe": {key: text for key, text in about.facts.items() if key in ("Population", "Reference period")},
        "folder": str(build.folder.stage(names.RELEASE).absolute()),
        "proof": save_proof(proofs_folder(ledger.path), certificate, made.table, proven, run),
        "metadata": names.SHA256 + hashlib.sha256((folder / names.METADATA).read_bytes()).hexdigest(),
        "public": _public(folder, ledger),
        "criterion": build.config.risk.model_dump(mode="json"),
    }
    record_publication(content, ledger)


def _public(folder: Path, ledger: Ledger) -> dict[str, Any]:
    """Return what the files of a release reveal, read back from them; counts as keyed digests."""
    about = read_json(folder / names.METADATA)
    tables = read_published(folder) if any(one.get(names.SUB_TABLE) for one in about["resources"]) else []
    return {
        "records": about["records"],
        "tables": {one.label: ledger.keyed(one.digest) for one in tables},
        "categories": {v.name: v.categories for one in tables for v in one.table.schema.variables},
        names.LEVELS: about.get(names.LEVELS, []),
    }


def release_settings(build: Build) -> list[Any]:
    config = build.config
    sections = [config.risk, config.publication, config.labels, *([] if config.totals is None else [config.totals])]
    utility = {"at_least", "weights", "demand"} if config.release.at_least is not None else set[str]()
    required = config.release.recorded(include={"require", "reveal_suppressed", *utility})
    return [config.name, *map(plain, sections), effort_settings(config), required, _public_key(config)]


def _public_key(config: BuildConfig) -> str:
    key = signing_key(config.publication)
    return "" if key is None else key.public


def check_upload(build: Build) -> None:
    """Raise ConfigError early for a URL with a password or a protocol without its package."""
    if (url := build.config.output.upload) is not None:
        try:
            require_no_password(url)
            file_system(url)
        except (InputError, MissingLibraryError) as error:
            raise ConfigError(f"output.upload: {error}") from error


def upload(build: Build, say: Say) -> str | None:
    """Upload the release of a finished build and return its URL; None without `output.upload`.

    An equal release at the place stays. Other files are read back before SHA256SUMS is written, and another release is
    never replaced. SdcError if the place has another release, cannot be written or changes files; TemporaryError if it
    cannot be reached; RunFolderError if the release is not complete.
    """
    if (url := build.config.output.upload) is None:
        return None
    with build.folder.locked():
        release = _whole(build)
        with _written(url, release):
            _put(release, url.rstrip("/"))
        emit("uploaded", f"the release is at {url}")
    say(f"upload: the release is at {url}")
    return url


def _whole(build: Build) -> Path:
    """Return the complete release; RunFolderError if it is not complete or another one was begun."""
    folder, records = build.folder, build.folder.records()
    release = folder.stage(names.RELEASE)
    planned = folder.manifest().planned
    is_whole = (
        records.keys() >= {*planned} and release.is_dir() and folder_digest(release) == records[names.RELEASE].output
    )
    if not is_whole:
        raise RunFolderError(f"{folder.path} is not complete, so nothing is uploaded; run the build again")
    return release


def _put(release: Path, url: str) -> None:
    files, place = file_system(url)
    files.invalidate_cache()
    own = {path.relative_to(release).as_posix(): path for path in release.rglob("*") if path.is_file()}
    there = {str(found).removeprefix(f"{place}/") for found in files.find(place)} - {""}
    if names.SUMS in there:
        if files.cat_file(f"{place}/{names.SUMS}") == own[names.SUMS].read_bytes():
            return
        raise SdcError(f"output.upload = {url!r} has another release, which is never replaced; name another folder")
    if foreign := sorted(there - own.keys()):
        raise SdcError(f"output.upload = {url!r} has other files, such as {foreign[0]!r}; name an empty folder")
    for name in [*sorted(own.keys() - {names.SUMS}), names.SUMS]:
        files.put_file(str(own[name]), f"{place}/{name}")
        if files.cat_file(f"{place}/{name}") != own[name].read_bytes():
            raise SdcError(f"output.upload = {url!r} changes {name}; find out what changes files there")


@contextmanager
def _written(url: str, release: Path) -> Iterator[None]:
    """Turn any error of a file system into one message that names the local release."""
    try:
        yield
    except SdcError:
        raise
    except Exception as error:
        cause: Any = cause_of(error)
        left = f"{url} ({type(cause).__name__}); the release is complete in {release}"
        if is_unreached(error):
            raise TemporaryError(f"output.upload cannot be reached: {left}, and the next run uploads it") from error
        raise SdcError(
            f"output.upload cannot be written: {left}; check that the bucket exists and that fsspec's "
            "configuration may write it, then run again"
        ) from error


IN_NO_LEDGER = "not in a ledger; judged only with the named earlier publications"


@dataclass(frozen=True, repr=False)
class PublishedFolder:
    """A folder of published tables, which `sdc.publish` returns. It can be used wherever a path is.

    Parameters
    ----------
    folder : Path
        The folder, absolute.
    tables : tuple of str
        The published tables, `age*sex`; of a release the frontier, and the suppressed and rounded tables.
    formats : tuple of str
        The formats of the files.
    ledger : str
        What the gate did not look at: the folder is in no ledger.

    Examples
    --------
    >>> found = sdc.find_release("czech_auto_workers.csv", min_width=6)
    >>> sdc.publish(found, "auto").tables[:2]
    ('A*B*C*D*E', 'A*B*D*E*F')
    """

    folder: Path
    tables: tuple[str, ...]
    formats: tuple[str, ...]
    ledger: str = IN_NO_LEDGER

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files in the folder, sorted."""
        return tuple(
            sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file())
        )

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        return f"{many(len(self.tables), 'table')} as {', '.join(self.formats)} in {self.folder}; {self.ledger}"


def publish_found(
    found: Found,
    folder: str | Path,
    about: Mapping[str, Any],
    labels: Mapping[str, Mapping[str, Any]] | None = None,
    table: Table | None = None,
) -> PublishedFolder:
    """Publishes a release that was found in a new folder, once the gate has cleared it; errors as `sdc.publish`.

    table   which it must have been found for; default that which it was found for
    about   what `publication` in a config has: title, formats, period, notes
    labels  by variable label, note, unit and categories, as `labels.variables` in a config has them
    """
    evaluation, out = found.evaluation, Path(folder).absolute()
    parts = found.suppressed_tables if isinstance(found, FoundRelease) else NO_SUPPRESSED_TABLES
    judged = evaluation.pool.table
    table = judged if table is None else table
    criteria, own_facts = evaluation.criteria, {*parts.facts}
    known = replace(evaluation.known, facts=tuple(fact for fact in evaluation.known.facts if fact not in own_facts))
    # before the gate, whose checks may take longer
    require_new(out)
    texts, title = _texts_of(table, about, labels or {}), about["title"]
    small_count, min_width = criteria.small_count, criteria.floor
    certificate = Certificate(judged.digest, known, evaluation.asked, small_count, min_width, evaluation.proof, parts)
    cleared = clear(table, known, certificate, criteria, Policy.REFUSE)
    with RunFolder(out.parent).writing(out.name, public=True) as into:
        write_publication(cleared, GateSubject(table.digest, criteria, Policy.REFUSE), title, into, texts=texts)
        check_publication(cleared, into, title, texts)
    return PublishedFolder(out, tuple(found.tables), texts.about.formats)


def _texts_of(table: Table, about: Mapping[str, Any], labels: Mapping[str, Any]) -> Texts:
    """Return the texts of a publication; InputError for invalid texts or labels."""
    require_names(about, tuple(PublicationConfig.model_fields), "a publication")
    section = "publication"
    try:
        texts = PublicationConfig.model_validate(about)
        section = "labels"
        named = LabelsConfig.model_validate({"variables": labels}).labels
    except ValidationError as error:
        raise InputError(faults_of(error, BuildConfig, section)) from error
    named.require(table.schema)
    return Texts(texts, named)


def rounded_table(table: Table, rounded: Rounded, title: str) -> CountTable:
    """Return the rounded table for the writers of formats, marked as rounded.

    It includes totals if all of its margins are rounded, so that readers do not add up cells.
    """
    cells = np.argwhere(rounded.counts > 0)
    found = Table.of(table.schema, cells, rounded.counts[rounded.counts > 0])
    listed = CountTable.of("rounded", title, found, Labels())
    if len(rounded.margins) == (1 << rounded.counts.ndim) - 1:
        listed = replace(listed, totals=True)
    if not rounded.counts.any():  # otherwise the file would name no category
        listed = replace(listed, zeros=True)
    return listed.rounded(found.counts, rounded.base)


def require_new(folder: Path, option: str = "") -> None:
    """Raise ConfigError if a folder, which an option may name, exists, or its parent does not."""
    if folder.exists():
        raise ConfigError(f"{option}{folder} exists already; name a folder that does not")
    if not folder.parent.is_dir():
        raise ConfigError(f"{option}{folder}: {folder.parent} is not a folder; name one in a folder that exists")
