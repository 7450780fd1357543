"""The stages of a build, without an engine: table, widths, search, assessment, report, publication.

A stage reads the folders of earlier stages and writes its own. Its key is the digest of all that
its outputs depend on, so that a rerun takes over whatever was made with the same key.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from sdc.config.build import BuildConfig
from sdc.config.capabilities import SETTINGS_OF
from sdc.config.table import FILES
from sdc.events import QUESTIONS, STARTED, STEP, WARNING, tell
from sdc.executor import Executor
from sdc.intruder.chains import Sampling
from sdc.intruder.measures import groups
from sdc.intruder.summary import Summary, laws_of, summaries
from sdc.memory import give_back
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError, NotReleasableError, ReleaseError, SdcError
from sdc.model.marginal import CellMarginals
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.model.weights import UNIT, WeightRanges
from sdc.progress import Measured
from sdc.publish.gate import clear
from sdc.publish.publication import Texts, check_publication, signing_key, write_publication
from sdc.record.ledger import MovedError
from sdc.record.ledger import record as record_publication
from sdc.refusal import file_detail
from sdc.risk.verdict import Policy
from sdc.run_format import BAD_RECORDS, METADATA, RELEASE, SHA256
from sdc.search.blockers import blockers
from sdc.search.curve import CurveSearch, LikelyCurve
from sdc.search.decomposable import SearchState
from sdc.search.growth import Grown
from sdc.search.ordered import SearchStep, ordered_list
from sdc.search.redesign import redesign
from sdc.search.remedies import remedies
from sdc.stages.assemble import SearchSettings, release_search, utility_of_release
from sdc.stages.bounded import keeping
from sdc.stages.build import Build
from sdc.stages.describe import (
    Say,
    describe_law,
    describe_likely_point,
    describe_point,
    describe_refusals,
    describe_remedy,
    describe_round,
    describe_simulated,
    say_step,
)
from sdc.stages.refusals import refusals
from sdc.storage import results
from sdc.storage.certificate import read_certificate, write_certificate
from sdc.storage.kept_parts import KeptParts
from sdc.storage.known import write_known
from sdc.storage.parquet import PartedTable, open_parts, place_of, write_table
from sdc.storage.run_folder import StageRecord, code_digest, digest_of, folder_digest, read_json, write_json
from sdc.storage.runs import last_finished
from sdc.storage.weighted import read_weighted, write_weighted, write_weights
from sdc.verify.run_folder import verify_release
from sdc.weighted.choice import choose

REDESIGNS, UTILITY = "redesigns.json", "utility.json"
MOST_REDESIGNED = 10  # sub-tables
MOST_RUNS = 3  # of one build, where others publish meanwhile
Made = TypeVar("Made")
MEASURED = ("status", "seconds", "driver_mib", "worker_mib")


@dataclass(frozen=True)
class Stage:
    """`needs` names the earlier stages and `sections` the parts of the config that its outputs depend on.

    fault    what is wrong with outputs that were found, or made just now; nothing where they are right
    enter    what is noted or said elsewhere before outputs have their place; where that fails they have none
    require  refuses a table that does not fit, before anything is made of it
    """

    name: str
    does: str
    needs: tuple[str, ...]
    sections: Callable[[Build], Any]
    make: Callable[[Build, Path, Executor, Say], None]
    fault: Callable[[Build, Path, bool], str] = lambda build, folder, made: ""
    enter: Callable[[Build, Path, Say], None] = lambda build, folder, say: None
    require: Callable[[Build, Table], None] = Build.require_memory

    def key(self, build: Build, outputs: Mapping[str, str]) -> str:
        """Digest of all that its outputs depend on, given the digests of earlier stages' outputs."""
        # outputs, not keys: a stage that came out the same by other code or settings is the same to what follows. The
        # first has the data for its input
        inputs = {name: outputs[name] for name in self.needs} or build.digests["data"]
        return digest_of([self.name, code_digest(), self.sections(build), inputs])


def run_stage(stage: Stage, build: Build, executor: Executor, say: Say) -> StageRecord:
    """Takes the stage over from a build that made it with the same key, or makes it; notes it in the manifest."""
    folder, measured = build.folder, Measured(executor)
    key = stage.key(build, {name: record.output for name, record in folder.records().items()})

    def note(text: str) -> None:
        say(text)
        tell("note", text)

    def record(output: str, status: str) -> StageRecord:
        seconds, memory = measured.seconds, (measured.driver_mib, measured.worker_mib)
        found = StageRecord(stage.name, key, output, status, seconds, *memory)
        folder.record(found)
        return found

    def holds(found: Path) -> bool:
        fault = stage.fault(build, found, False)
        if fault:
            note(f"{stage.name}: what was found is not taken over, {fault}")
        if not fault:
            stage.enter(build, found, say)
        return not fault

    with _told(stage, build):
        # looked for before memory is asked for: what is there needs none
        output = folder.adopt(stage.name, key, holds)
        if output is not None:
            found = record(output, "reused")
        else:
            say(f"{stage.name}: {stage.does}")
            if "table" in stage.needs:
                stage.require(build, build.table)
            with folder.writing(stage.name, public=stage.name == RELEASE) as into:
                stage.make(build, into, measured, note)
                give_back()  # what is looked at now is read anew
                if fault := stage.fault(build, into, True):
                    raise ReleaseError(f"{stage.name}: {fault}; nothing is released")
                stage.enter(build, into, say)
                found = record(folder_digest(into), "done")  # known before it is there: what is there is always known
    # after the record: killed between, a build finds the stage and no longer needs the checkpoint
    folder.checkpoint(stage.name).unlink(missing_ok=True)
    shutil.rmtree(folder.parts(stage.name), ignore_errors=True)
    say(f"{stage.name}: {found.status} in {found.seconds:.1f} s")
    _tell_finished(found, measured.units)
    return found


def _tell_finished(record: StageRecord, units: int) -> None:
    facts = asdict(record)
    tell("stage finished", stage=record.name, units=units, **{fact: facts[fact] for fact in MEASURED})


@contextmanager
def _told(stage: Stage, build: Build) -> Iterator[None]:
    """Tells of a stage that begins, and of one that fails."""
    tell(STARTED, f"{stage.name}: {stage.does}", stage=stage.name)
    try:
        yield
    except BaseException as error:
        if isinstance(error, SdcError):
            file_detail(error, build.folder.path)
        tell("stage failed", str(error), stage=stage.name, error=type(error).__name__)
        raise


def run_all(build: Build, executor: Executor, say: Say = lambda text: None) -> list[StageRecord]:
    """The whole build in this process, without Prefect."""
    stages = stages_of(build.config)

    def run(build: Build) -> list[StageRecord]:
        with build.started([stage.name for stage in stages]):
            return [run_stage(stage, build, executor, say) for stage in stages]

    return beside_all(build, run, say)[1]


def beside_all(build: Build, run: Callable[[Build], Made], say: Say) -> tuple[Build, Made]:
    """Runs a build, anew and beside all that is public where others have published meanwhile; and which build ran.

    What was judged without them has no place in the ledger, and stays unpublished. MovedError where they publish
    during each of so many runs.
    """
    for _ in range(MOST_RUNS - 1):
        try:
            return build, run(build)
        except MovedError as error:
            say(f"{error}; it is run again now")
            build = replace(build)  # nothing that was read is kept
    return build, run(build)


def _make_table(build: Build, into: Path, executor: Executor, say: Say) -> None:
    counted = build.counted(executor)
    table, known, origin = build.with_earlier(counted)
    for source in origin.sources:
        say(f"table: published before, and judged together with all else: {source}")
    # as soon as there is a schema, though only the search will use them: hours earlier
    replace(build, given=origin).check_names(known)
    non_zero = f"{len(table)} non-zero of {table.schema.cells} cells"
    say(f"table: {table.total} records, {len(table.schema)} variables, {non_zero}")
    for (variable, fault), records in counted.set_aside.items():
        say(f"table: {records} records set aside: {variable}: {fault.value}")
    for variable, named in counted.unmet.items():
        say(f"table: of what the config names of {variable!r} no record has {len(named)}; the audit report lists them")
    write_table(table, into, parts=build.config.table.partitions)
    write_known(known, into, **origin.facts)
    if counted.weights is not None:
        WeightRanges.of(table, counted.weights).require_several(build.config.table.weight or "")
        write_weights(counted.weights, into)
    write_json(into / BAD_RECORDS, counted.facts)


def _warn_of_loss(build: Build, folder: Path, say: Say) -> None:
    """Says where there are a fifth fewer records than in the last finished run of that name: a part may be missing."""
    last = last_finished(build.folder)
    if last is None or not (last.stage("table") / BAD_RECORDS).is_file():
        return
    records, before = (read_json(of / BAD_RECORDS)["records"] for of in (folder, last.stage("table")))
    if 5 * records <= 4 * before:
        warning = (
            f"warning: {records} records, {100 * (1 - records / before):.0f} % less than the {before} of the last "
            f"finished run, {last.path}; if a part is missing, stop, and say in table.expect what must be there"
        )
        say(warning)
        tell(WARNING, warning)


def _make_widths(build: Build, into: Path, executor: Executor, say: Say) -> None:
    memory, apart = build.sweep_memory(build.table)
    parts = _parts_of(build) if apart else None
    if parts is not None:
        say(f"widths: the table does not fit a worker, which reads it in parts, {len(parts.place.parts)} of them")
    widths = build.settings(executor).widths(build.table, memory, parts)
    say(f"widths: {len(widths)} sub-tables listed, {widths.visited} visited")
    results.write_widths(widths, build.table.schema, into)


def _parts_of(build: Build) -> PartedTable:
    """The table's parts as its stage has written them, and as workers must find them."""
    folder = build.folder.stage("table")
    place = place_of(folder)
    if folder_digest(folder) != build.folder.records()["table"].output:
        raise InputError(f"{folder} was changed since it was written; run again, and the table is counted anew")
    return open_parts(place)


def _make_search(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """Annealing is kept round by round: a build that is killed goes on from its last whole round."""
    path, key, table = build.folder.checkpoint("search"), _key_of("search", build), build.table
    build.check_names(build.known)  # again: the table may be of a build with other settings

    def keep(state: SearchState) -> None:
        results.write_checkpoint(state, key, path)
        say(describe_round(state))

    settings = build.settings(executor)
    search = release_search(
        table,
        build.known,
        settings,
        build.widths,
        _tell_step,
        keep,
        lambda step: tell(STEP, describe_simulated(step, table.schema)),
    )
    found = search.run(build.config.release.method, results.read_checkpoint(path, key))
    say(f"search: {found.sub_tables} sub-tables without the grand total")
    results.write_search(found, table.schema, into)
    write_certificate(build.certificate(found.release, found.proof), table.schema, into)


def _tell_step(step: SearchStep) -> None:
    tell("question", logger=QUESTIONS)
    say_step(step, lambda text: tell(STEP, text))


def _key_of(name: str, build: Build) -> str:
    """The key of a stage whose needs are done."""
    stage = next(stage for stage in stages_of(build.config) if stage.name == name)
    return stage.key(build, {name: record.output for name, record in build.folder.records().items()})


def _make_assessment(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """What the search proved is proven again from its certificate; then every cell is bounded as far as can be."""
    inquiry = build.settings(executor).inquiry(build.table, build.known)
    release, schema = build.found.release, build.table.schema
    # from the files: what is published rests on what was written, not on what the search remembers
    inquiry.learn(read_certificate(build.folder.stage("search"), schema).proof, release)
    judgement, bounds = inquiry.examine(release)
    by = None
    if (seconds := build.config.seconds_to_sharpen) is not None:
        # part by part: a build that is killed goes on without those that are done
        parts = KeptParts(build.folder.parts("assessment"), _key_of("assessment", build))
        judgement, bounds, by = inquiry.sharpen(judgement, bounds, seconds, parts.read(), keeping(parts))
    low, high = judgement.margin
    say(f"assessment: min width {low} to {high}, {judgement.assessment.undecided_cells} cells undecided")
    if judgement.assessment.sharpness is not None:
        say(f"assessment: {judgement.assessment.sharpness.text}")
    results.write_assessment(judgement.assessment, bounds, schema, into, by)
    write_certificate(build.certificate(release, judgement.proof), schema, into)


def _make_curve(build: Build, into: Path, executor: Executor, say: Say) -> None:
    settings = build.config.curve
    if settings is None:
        raise ConfigError("curve is missing; give the section with a min_width at least")
    curve = CurveSearch(
        release_search(build.table, build.known, build.settings(executor), build.widths),
        settings.min_width,
        settings.small_count or (build.config.risk.small_count,),
        settings.methods,
        on_point=lambda point: say(describe_point(point)),
    )
    results.write_curve(curve.run(), into)
    if settings.max_above:
        chains = release_search(build.table, build.known, build.settings(executor), build.widths).decomposable
        likely = LikelyCurve(
            chains, settings.threshold, settings.max_above, lambda point: say(describe_likely_point(point))
        )
        results.write_likely_curve(likely.run(), into)


def _make_remedies(build: Build, into: Path, executor: Executor, say: Say) -> None:
    settings, found, schema = build.config.remedies, build.found, build.table.schema
    if settings is None:
        raise ConfigError("remedies is missing; give the section, which may be empty: remedies: {}")
    proof = read_certificate(build.folder.stage("search"), schema).proof
    start = Grown(found.release, proof, found.steps)
    inquiry = build.settings(executor).inquiry(build.table, build.known)
    tried = remedies(start, inquiry, settings.variables, lambda remedy: say(describe_remedy(remedy)))
    results.write_remedies(tried, schema, into)
    write_json(into / REDESIGNS, {"redesigns": _redesigns(build, executor)})


def _redesigns(build: Build, executor: Executor) -> list[dict[str, Any]]:
    """Of required sub-tables that were refused, then of others, what coarser ones may go out instead."""
    found, table = build.found, build.table
    required = () if found.required is None else found.required.refused
    stopped = [t for _, sub_tables in blockers(found.steps) for t in sub_tables]
    leveled = st.of(v for v, own in enumerate(table.schema.of_axis) if own != 1 << v)
    asked = [t for t in dict.fromkeys([*required, *stopped]) if t & leveled][:MOST_REDESIGNED]
    inquiry = build.settings(executor).inquiry(table, build.known) if asked else None
    rows = []
    for t in asked:
        assert inquiry is not None
        instead = redesign(inquiry, found.release, t)
        rows.append(
            {
                "sub_table": st.names(t, table.schema),
                "instead": None if instead is None else instead.facts(table.schema),
            }
        )
    return rows


def _make_posterior(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """Laws are kept one by one: a build that is killed goes on after its last whole one."""
    asked, table = build.config.posterior, build.table
    if asked is None:
        raise ConfigError("posterior is missing; give the section, which may be empty: posterior: {}")
    cells = table.codes[table.at_risk(build.criterion.small_count)]
    known, laws = build.known.plus(build.found.release), laws_of(asked.laws, asked.alpha, table.schema)
    held = groups(CellMarginals(table, cells), known, asked.share)
    sampling = Sampling(asked.draws, asked.chains, asked.seed)

    path, key = build.folder.checkpoint("posterior"), _key_of("posterior", build)
    kept = list(results.read_kept_posteriors(path, key))

    def tell_of(found: Summary) -> None:
        kept.append(found)
        results.write_kept_posteriors(kept, key, path)
        say(describe_law(found, asked.threshold))

    told = summaries(table, known, cells, laws, held, sampling, executor, tell_of, tuple(kept))
    results.write_posteriors(told, held, table.schema, into)
    if asked.refusals:
        settings, method = build.settings(executor), build.config.release.method
        again = refusals(table, build.known, settings, method, build.found.release, asked.refusals)
        say(describe_refusals(again))
        results.write_refusals(again, into)


def _make_weighted(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """Which totals of weights may go out beside the counts, and what shows it."""
    asked, table = build.config.totals, build.table
    if asked is None:
        raise ConfigError("table.weight names no column; name it, or leave weighted out")
    base, certificate = asked.round * UNIT, read_certificate(build.folder.stage("assessment"), table.schema)
    known, proof = certificate.knowledge, certificate.proof
    chosen = choose(table, build.weights, known, build.criterion, proof, base, executor, asked.programs)
    say(f"weighted: {len(chosen.totals)} tables of totals go out, {len(chosen.withheld)} of the frontier withheld")
    write_weighted(chosen, table.schema, into)


def _make_report(build: Build, into: Path, executor: Executor, say: Say) -> None:
    from sdc.report.audit import Audit, render

    config, found, assessed = build.config, build.found, build.folder.stage("assessment")
    wanted, schema = build.settings(executor), build.table.schema
    public = build.known.plus(found.release)
    utility = utility_of_release(build.table, public, wanted.weights(schema), wanted.requests(schema))
    write_json(into / UTILITY, utility.facts)
    assessment, bounds = results.read_assessment(assessed, build.table, config.risk.small_count)
    settings = config.model_dump(mode="json", exclude=_NOT_REPORTED)
    settings["assessment"] = {key: settings.pop(key) for key in ("assessment", "sharp_seconds")}
    if published := build.origin.sources:
        settings["published before"] = {f"{number}": source for number, source in enumerate(published, start=1)}
    audit = Audit(
        name=config.name,
        digests=build.digests,
        settings={name: section for name, section in settings.items() if section is not None},
        table=build.table,
        criterion=build.criterion,
        policy=build.policy,
        method=config.release.method,
        widths=build.widths,
        release=found.release,
        search_steps=found.steps,
        assessment=assessment,
        bounds=bounds,
        graph=found.graph,
        trace=found.trace,
        best_reason=found.reason,
        listed=_listed(build, wanted),
        simulated=found.simulated,
        utility=utility.facts,
        curve=results.read_curve(build.folder.stage("curve")) if config.curve else (),
        likely_curve=results.read_likely_curve(build.folder.stage("curve")) if _limits(config) else (),
        remedies=results.read_remedies(build.folder.stage("remedies"), build.table.schema) if config.remedies else None,
        redesigns=_read_redesigns(build),
        posteriors=results.read_posteriors(build.folder.stage("posterior")) if config.posterior else (),
        groups=results.read_groups(build.folder.stage("posterior")) if config.posterior else None,
        threshold=config.posterior.threshold if config.posterior else 0.0,
        refusals=results.read_refusals(build.folder.stage("posterior")) if _asks_again(config) else None,
        bad_records=read_json(build.folder.stage("table") / BAD_RECORDS),
        known=build.known,
        hidden=build.hidden,
        sources=build.origin.sources,
        required=found.required,
        weighted=read_weighted(build.folder.stage("weighted"), build.table.schema) if config.totals else None,
        totals=config.totals,
        about=config.report,
        publication=config.publication,
        labels=config.labels,
        declared=build.origin.declared,
    )
    (into / "report.html").write_text(render(audit), encoding="utf-8")


def _listed(build: Build, wanted: SearchSettings) -> tuple[st.SubTable, ...]:
    """The list that a bisection asked about."""
    if build.config.release.method != "bisection":
        return ()
    return ordered_list(build.widths, build.criterion.min_width, wanted.wished(build.known))


def _read_redesigns(build: Build) -> list[dict[str, Any]]:
    path = build.folder.stage("remedies") / REDESIGNS
    found: list[dict[str, Any]] = read_json(path)["redesigns"] if build.config.remedies is not None else []
    return found


def _limits(config: BuildConfig) -> bool:
    return config.curve is not None and bool(config.curve.max_above)


def _asks_again(config: BuildConfig) -> bool:
    return config.posterior is not None and config.posterior.refusals > 0


def _make_release(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """Clears the release by its certificate, writes the files, and reads them back."""
    # nothing but this file speaks for the release: the gate checks all of it again
    certificate = read_certificate(build.folder.stage("assessment"), build.table.schema)
    if certificate.asked != build.found.release:
        raise ReleaseError("the certificate is of another release than was found; nothing is released, run again")
    _require_not_refuted(build)
    effort = build.settings(executor).effort
    weighted, asked = None, build.config.totals
    if asked is not None:
        weighted = build.weights, read_weighted(build.folder.stage("weighted"), build.table.schema)
        if weighted[1].base != asked.round * UNIT:
            raise ReleaseError(f"the totals were judged for another rounding than {asked.round}; run again")
    try:
        cleared = clear(
            build.table,
            build.known,
            certificate,
            build.criterion,
            build.policy,
            effort,
            weighted,
            hidden=build.hidden,
        )
    except ReleaseError as error:
        raise ReleaseError(f"{error}, see {build.folder.stage('confidential') / 'report.html'}") from error
    if cleared.unproven_cells:
        say(f"release: {cleared.unproven_cells} cells are not proven, let through by undecided: {build.policy.value}")
    shown = "beside" if asked is None else asked.publish
    name, texts = build.config.name, Texts(build.config.publication, build.labels, shown)
    write_publication(cleared, build.subject, name, into, texts=texts)
    # from the files as they will be published, still under their temporary name
    check_publication(cleared, into, name, texts)


def _require_not_refuted(build: Build) -> None:
    """NotReleasableError where sharp bounds prove a cell too narrow, which bounds of the gate alone might not see."""
    if build.config.seconds_to_sharpen is None:
        return
    small, schema = build.config.risk.small_count, build.table.schema
    assessment, bounds = results.read_assessment(build.folder.stage("assessment"), build.table, small)
    narrow, (low, high) = ~build.criterion.is_wide(bounds.outer_width), assessment.min_width
    if narrow.any():
        named = [" ".join(f"{v}={c}" for v, c in schema.named(w.cell).items()) for w in assessment.witnesses]
        raise NotReleasableError(
            f"the release found is refuted: by sharp bounds {narrow.sum()} of {len(bounds)} at-risk cells are too "
            f"narrow (min width between {low} and {high}, required {build.config.risk.min_width}); nothing is "
            f"published, see {build.folder.stage('confidential') / 'report.html'}",
            "\n".join(named),
        )


def _unverified(build: Build, folder: Path, made: bool) -> str:
    """Why a release may not be public: by the table, the certificate, and the config's publications as they are now.

    Cells without proof, which the policy "outer" may let through, were judged for a release that was made just now.
    """
    risk = build.config.risk
    limit = risk.posterior.model_dump() if risk.posterior else None
    try:
        build.require_known()
    except SdcError as error:
        return str(error)
    found = verify_release(build.folder.path, folder, risk.small_count, risk.min_width, limit)
    unproven = found.at_risk_cells - found.certified_cells
    if not found.failures and unproven and (build.policy is Policy.REFUSE or not made):
        return f"{unproven} of {found.at_risk_cells} cells are not proven"
    return "; ".join(found.failures)


def _enter_ledger(build: Build, folder: Path, say: Say) -> None:
    """Notes what is about to be public; a release that is not in its ledger has no place."""
    ledger = build.publications.ledger
    if ledger is None:
        return
    about, hidden = build.config.publication, build.hidden
    public = Release.of(element & ~hidden for element in build.found.release.frontier)
    content = {
        "name": build.config.name,
        "table": ledger.keyed(build.origin.table),
        "build": build.base,
        "sub_tables": [st.names(element, build.table.schema) for element in public.frontier if element],
        "known": build.origin.entered(build.known, ledger),
        "universe": {key: text for key, text in about.facts.items() if key in ("Population", "Reference period")},
        "folder": str(build.folder.stage(RELEASE).absolute()),
        "metadata": SHA256 + hashlib.sha256((folder / METADATA).read_bytes()).hexdigest(),
    }
    record_publication(content, ledger)


def _public_key(config: BuildConfig) -> str:
    key = signing_key(config.publication)
    return "" if key is None else key.public


def _plain(section: BaseModel) -> dict[str, Any]:
    return section.model_dump(mode="json")


# where the data lie and how a build is executed is not part of what is built; the name heads the report
_ELSEWHERE: dict[str, Any] = {"table": FILES, "execution": True, "output": True, "earlier": True, "ledger": True}
_ELSEWHERE["publication"] = {"signing_key"}
_NOT_REPORTED: dict[str, Any] = {**_ELSEWHERE, "name": True}


def _search_settings(config: BuildConfig) -> dict[str, Any]:
    """What the search depends on: each on settings of its own."""
    # what does not change a stage must not be in its key, or a rerun would do the work again
    unused = {name for name in ("annealing", "simulatable") if config.release.method not in SETTINGS_OF[name]}
    return config.release.model_dump(mode="json", exclude=unused)


def _posterior_settings(build: Build) -> list[Any]:
    """What a posterior depends on: on the search only where that is done again, and not on the report's threshold."""
    config, asked = build.config, build.config.posterior
    again = [config.risk.model_dump(mode="json"), _search_settings(config), build.floor]
    own = asked and asked.model_dump(mode="json", exclude={"threshold"})
    return [config.risk.small_count, own, again if asked and asked.refusals else None]


def _published_sections(config: BuildConfig) -> tuple[BaseModel, ...]:
    sections = config.risk, config.publication, config.labels
    return sections if config.totals is None else (*sections, config.totals)


def _effort_settings(config: BuildConfig) -> dict[str, Any]:
    """What a judgement may cost."""
    names = {"refute_cells", "seconds_per_cell", "seconds", "cells_per_slice"}
    return config.release.model_dump(mode="json", include=names)


STAGES = (
    Stage(
        "table",
        "counts the records",
        (),
        lambda b: b.config.table.model_dump(mode="json", exclude=FILES),
        _make_table,
        enter=_warn_of_loss,
    ),
    Stage(
        "widths",
        "critical widths of the sub-tables",
        ("table",),
        lambda b: [b.config.risk.small_count, b.floor],
        _make_widths,
    ),
    Stage(
        "search",
        "finds a release",
        ("table", "widths"),
        lambda b: [b.config.risk.model_dump(mode="json"), _search_settings(b.config)],
        _make_search,
    ),
    Stage(
        "assessment",
        "bounds every at-risk cell under the release",
        ("table", "search"),
        lambda b: [b.config.risk.model_dump(mode="json"), _effort_settings(b.config), b.config.seconds_to_sharpen],
        _make_assessment,
    ),
    Stage(
        "confidential",
        "writes the audit report",
        ("table", "widths", "search", "assessment"),
        lambda b: b.config.model_dump(mode="json", exclude=_ELSEWHERE),
        _make_report,
    ),
    Stage(
        "release",
        "publishes, checking the files once more",
        ("table", "search", "assessment"),
        lambda b: [
            b.config.name,
            *map(_plain, _published_sections(b.config)),
            _effort_settings(b.config),
            _public_key(b.config),
        ],
        _make_release,
        _unverified,
        _enter_ledger,
    ),
)

CURVE = Stage(
    "curve",
    "finds the releases of other risk criteria",
    ("table", "widths"),
    lambda b: [part and part.model_dump(mode="json") for part in (b.config.curve, b.config.risk, b.config.release)],
    _make_curve,
)


REMEDIES = Stage(
    "remedies",
    "tries recodes on what stopped the release",
    ("table", "search"),
    lambda b: [
        *(part and _plain(part) for part in (b.config.risk, b.config.remedies)),
        _effort_settings(b.config),
        {name: list(levels) for name, levels in b.config.table.hierarchies.items()},
    ],
    _make_remedies,
)


POSTERIOR = Stage(
    "posterior",
    "says what an intruder may hold likely",
    ("table", "search"),
    _posterior_settings,
    _make_posterior,
)


WEIGHTED = Stage(
    "weighted",
    "judges totals of weights beside the counts",
    ("table", "assessment"),
    lambda b: [_plain(b.config.risk), b.config.totals and b.config.totals.model_dump(exclude={"publish"})],
    _make_weighted,
)


def stages_of(config: BuildConfig) -> tuple[Stage, ...]:
    """The stages of a build in order; those that only some configs have come before the report, which shows them."""
    asked = (
        (CURVE, config.curve),
        (REMEDIES, config.remedies),
        (POSTERIOR, config.posterior),
        (WEIGHTED, config.totals),
    )
    some = [stage for stage, section in asked if section is not None]
    report = next(i for i, stage in enumerate(STAGES) if stage.name == "confidential")
    shows = replace(STAGES[report], needs=(*STAGES[report].needs, *(stage.name for stage in some)))
    rest = STAGES[report + 1 :]
    if WEIGHTED in some:
        rest = tuple(replace(stage, needs=(*stage.needs, WEIGHTED.name)) for stage in rest)
    return (*STAGES[:report], *some, shows, *rest)


SWEEP = STAGES[:2]
