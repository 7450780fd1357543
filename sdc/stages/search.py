"""The search for a release, and the assessment of the found release."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sdc.checkpoint import packed, unpacked
from sdc.config.build import BuildConfig
from sdc.config.methods import SETTINGS_OF
from sdc.config.release import ReleaseConfig
from sdc.deadline import NEVER, Deadline
from sdc.events import EXECUTION, LOST, OUTLOOK, QUESTION, QUESTIONS, STEP, WARNING, EventText, emit, heard
from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.errors import CutShortError, NothingReleasableError
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES, SuppressedTables
from sdc.protect.summary import suppressions
from sdc.refusal import first_interrupt
from sdc.run_format import SEARCH
from sdc.search.best import ANNEALING, FoundRelease
from sdc.search.decomposable import SearchState
from sdc.search.ordered import GROWING
from sdc.search.simulatable import SimulatedStep
from sdc.search.step import LATELY, SearchStep, outlook
from sdc.stages.answers import keeping
from sdc.stages.assemble import Watch, release_search
from sdc.stages.build import Build, Say, Work
from sdc.stages.table import check_names
from sdc.storage.certificate import Certificate, write_certificate
from sdc.storage.proofs import write_refutations
from sdc.storage.results import write_assessment, write_search

FEW = 3  # evaluations: too few to estimate the remaining time


def search(work: Work, into: Path) -> None:
    """Find the release and write its evaluations and evidence.

    Checkpoints hold rounds of annealing and proven steps of greedy extension; a killed build continues from them.
    """
    build, say = work.build, work.say
    table, known, release = build.made.table, build.made.known, build.config.release
    check_names(build, known, table)  # again: the table may come from a build with other settings
    for line in build.settings().found_before(known):
        say(f"search: {line}")
    proofs = build.proofs(build.origin)
    for warning in (*release.warnings, *(proofs.lacking if proofs else ())):
        emit(WARNING, warning)
    checkpoint = work.checkpoint()

    def keep(state: SearchState) -> None:
        checkpoint.write(ANNEALING, {"state": packed(SearchState, state)})
        say(describe_round(state))

    def step(name: str, part: Callable[[], Any]) -> Any:
        found = work.step(name, part)
        first = found[0] if isinstance(found, tuple) else found
        say(f"search: {name}: {'no release' if first is None else f'{first.sub_tables:,} sub-tables'}")
        return found

    settings, emit_step, failures = build.settings(work.executor), partial(emit, STEP), list[str]()
    watch = Watch(QuestionLines(emit_step), keep, lambda step: emit_step(describe_simulated(step, table.schema)))
    listening = heard(EventText(failures.append, *LOST), EXECUTION)
    with listening, interruptible(release, ending_of(build)) as deadline:
        saved = checkpoint.found.get(ANNEALING)
        chains = unpacked(SearchState, saved, "state")
        if saved is not None and chains is None:
            say("search: the checkpoint (annealing) is corrupt and is skipped")
        own = release_search(table, known, settings, build.made.widths, watch, deadline, checkpoint)
        try:
            found = own.run(release.method, chains, step)
        except NothingReleasableError as error:
            if failures and deadline.is_over:
                raise CutShortError(failures[-1]) from error
            raise
        if failures and found.ended_after and not found.sub_tables:
            raise CutShortError(failures[-1])
        _write(found, build, into, say)


def _write(found: FoundRelease, build: Build, into: Path, say: Say) -> None:
    table = build.made.table
    for one in found.candidates:
        say(f"search: {one.text}")
    say(f"search: {found.sub_tables} sub-tables without the grand total")
    for part in found.suppressed_tables.tables:
        if part.base:
            say(f"search: {part.label(table.schema)} rounded to multiples of {part.base}")
    requests = build.settings().constraints(build.made.known).protect
    suppressed = suppressions(found.evaluation, found.suppressed_tables, requests)
    for each in suppressed:
        say(f"search: {each.sub_table} suppressed, {each.text}")
    for warning in filter(None, (each.warning for each in suppressed)):
        say(f"search: warning: {warning}")
    for phase, holds in found.resumed.items():
        if holds:
            say(f"search: resumed from a checkpoint ({phase}); the release is proven, but may differ")
        else:
            say(f"search: the checkpoint ({phase}) does not match this search and is skipped")
    if found.ended_after:
        far = ", ".join(f"{part} {number}" for part, number in found.ended_after.items())
        say(f"search: ended early ({far}); the release is proven, another run may end elsewhere")
    write_search(found, table.schema, into, suppressed)
    write_refutations(found.refutations, table, build.criteria, into)
    certificate = certificate_of(build, found.release, found.proof, found.suppressed_tables)
    write_certificate(certificate, table.schema, into)


def ending_of(build: Build) -> Path:
    """Return the file that ends the build's search with what is proven, once it is there."""
    return build.folder.path / f"{SEARCH}.ending"


@contextmanager
def interruptible(release: ReleaseConfig, marker: Path) -> Iterator[Deadline]:
    """Yield a deadline that the first interrupt from the keyboard also ends, by the marker.

    `simulatable` has none: the point reached depends on the data and could reveal something about them.
    """
    if release.method == "simulatable":
        yield NEVER
        return
    marker.unlink(missing_ok=True)  # of a killed build
    try:
        with first_interrupt(marker.touch, "the search ends with the release proven so far"):
            yield Deadline.of(release, marker)
    finally:
        marker.unlink(missing_ok=True)


def certificate_of(
    build: Build, release: Release, proof: Proof, parts: SuppressedTables = NO_SUPPRESSED_TABLES
) -> Certificate:
    """Return the evidence about a release under this build's table and criterion."""
    made, risk = build.made, build.config.risk
    digest = made.table.digest
    return Certificate(digest, made.known, release, risk.small_count, risk.min_width, proof, parts)


def search_settings(config: BuildConfig) -> dict[str, Any]:
    """Return the settings of the search; other methods' settings do not count."""
    # settings without effect must not change the key
    unused = {name for name in ("annealing", "simulatable") if config.release.method not in SETTINGS_OF[name]}
    return config.release.recorded(exclude={*unused, "previous_pattern", "at_least"})  # like counts by its content


class QuestionLines:
    """Prints a line for each successful evaluation, and sends progress events.

    Failed ones are too many to print. The events have the remaining evaluations and seconds, which both go to 0.
    """

    def __init__(self, say: Say = lambda text: None, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._recent = list[tuple[SearchStep, float]]()

    def __call__(self, step: SearchStep) -> None:
        emit(QUESTION, logger=QUESTIONS)
        # only the current phase counts
        self._recent = [*(one for one in self._recent[-LATELY:] if one[0].phase == step.phase), (step, self._clock())]
        if step.phase in GROWING:
            emit(OUTLOOK, self._outlook, logger=QUESTIONS, seconds=self._seconds_left)
        answer = {True: "releasable", False: "refuted", None: "undecided"}[step.answer]
        if step.phase in ("everything", "bisection"):
            what = "all" if step.phase == "everything" else "the first"
            self._say(f"search: {what} {step.length} of the list: {answer}")
        elif step.answer:
            left = f"; {self._outlook}" if step.phase in GROWING else ""
            self._say(f"search: {len(step.added)} more beside {step.length} sub-tables: {answer}{left}")

    @property
    def _outlook(self) -> str:
        ahead, left = outlook([step for step, _ in self._recent]), self._seconds_left
        return ahead if left is None else f"{ahead}, at most {left:.0f} s if each takes as long as these"

    @property
    def _seconds_left(self) -> float | None:
        """The most that is left at the latest speed; None if it is too early, or nothing is left."""
        (step, now), begun = self._recent[-1], self._recent[0][1]
        if len(self._recent) <= FEW or not step.left:
            return None
        return step.left * (now - begun) / (len(self._recent) - 1)


def describe_round(state: SearchState) -> str:
    values = sorted((chain.best.value for chain in state.chains), reverse=True)
    agreed = f", agreed {state.agreed} rounds" if state.agreed else ""
    return f"search: annealing round {state.round}: best values {', '.join(f'{v:.12g}' for v in values[:8])}{agreed}"


def describe_simulated(step: SimulatedStep, schema: Schema) -> str:
    answer = "accepted" if step.accepted else "refused"
    named = st.label(step.added, schema)
    return f"search: {named} beside {step.length} sub-tables: {answer}, {step.breaking} draws break the criterion"


def assess(work: Work, into: Path) -> None:
    """Prove the release again from its certificate, and bound every at-risk cell."""
    build, made = work.build, work.build.made
    parts = made.found.suppressed_tables
    evaluator = build.settings(work.executor).evaluator(made.table, made.beside, parts.before(made.known))
    release, schema = made.found.release, made.table.schema
    # from the files: publication relies on them, not on the memory of the search
    evaluator.learn(made.certificate(SEARCH).proof, release)
    evaluation, bounds = evaluator.examine(release)
    by = None
    if (seconds := build.config.seconds_to_sharpen) is not None:
        # by parts: a killed build continues after the finished ones
        checkpoint = work.checkpoint()
        evaluation, bounds, by = evaluator.sharpen(evaluation, bounds, seconds, checkpoint.found, keeping(checkpoint))
    low, high = evaluation.margin
    work.say(f"assessment: min width {low} to {high}, {evaluation.assessment.open_cells} cells undecided")
    if evaluation.assessment.sharpness is not None:
        work.say(f"assessment: {evaluation.assessment.sharpness.described('at-risk cell', seconds)}")
    write_assessment(evaluation.assessment, bounds, schema, into, by)
    write_certificate(certificate_of(build, release, evaluation.proof, parts), schema, into)
