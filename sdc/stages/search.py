"""The search for a release, and what it says while it works."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sdc.checkpoint import Checkpoint, packed, unpacked
from sdc.config.build import BuildConfig
from sdc.config.capabilities import SETTINGS_OF
from sdc.config.release import ReleaseConfig
from sdc.events import EXECUTION, FAULTS, OUTLOOK, QUESTION, QUESTIONS, STEP, WARNING, EventText, heard, tell
from sdc.executor import Executor
from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.errors import CutShortError, NothingReleasableError
from sdc.model.parts import NO_PARTS, Parts
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.refusal import first_interrupt
from sdc.search.best import Begun, FoundRelease
from sdc.search.deadline import NEVER, Deadline
from sdc.search.decomposable import SearchState
from sdc.search.ordered import GROWING
from sdc.search.simulatable import SimulatedStep
from sdc.search.step import LATELY, SearchStep, outlook
from sdc.search.suppressed import suppressions
from sdc.stages.assemble import Watch, release_search
from sdc.stages.build import Build
from sdc.stages.checks import check_names
from sdc.stages.stage import Say, Stage, plain
from sdc.stages.table import TABLE
from sdc.stages.widths import WIDTHS
from sdc.storage.certificate import Certificate, write_certificate
from sdc.storage.refutations import write_refutations
from sdc.storage.results import write_search

FEW = 3  # questions, by which nobody knows yet how long others take


ANNEALING, BISECTION, GREEDY = "annealing", "bisection", "greedy search"
STEPS = {
    "ordered": (GREEDY,),
    "bisection": (BISECTION,),
    "decomposable": (ANNEALING,),
    "best": (ANNEALING, BISECTION, GREEDY),
    "simulatable": (),
}
"""The steps of each method, in the order in which they share the time; `best` compares what they find."""


def steps_of(config: BuildConfig) -> tuple[str, ...]:
    """The steps of the search that a config asks for."""
    return (GREEDY,) if config.release.only else STEPS[config.release.method]


class Search:
    """The search of a build, step by step; what is not done when `write` is called is done then.

    Annealing is kept round by round, and a growth as far as it is proven: a build that is killed goes on from there.
    """

    def __init__(self, build: Build, executor: Executor, say: Say) -> None:
        self._build, self._executor, self._say = build, executor, say
        self._key, self._stack = SEARCH.key(build), ExitStack()
        self._done, self._faults = dict[str, Any](), list[str]()

    def __enter__(self) -> Search:
        self._stack.enter_context(heard(EventText(self._faults.append, *FAULTS), EXECUTION))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def step(self, name: str) -> FoundRelease | None:
        """Run one step, unless it was run; what it found, None where that is no release."""
        try:
            return self._step(name)
        except NothingReleasableError as error:
            if self._faults and self._deadline.is_over:
                raise CutShortError(self._faults[-1]) from error
            raise

    def _step(self, name: str) -> FoundRelease | None:
        begun = self._begun
        if isinstance(begun, FoundRelease):
            return begun  # nothing is left to search for
        if name not in self._done:
            search, is_one_of = begun.search, len(steps_of(self._build.config)) > 1
            if not is_one_of:
                self._done[name] = search.by(self._build.config.release.method, self._state)
            elif name == ANNEALING:
                self._done[name] = search.annealed(self._state)
            elif name == BISECTION:
                self._done[name] = search.prefix()
            else:
                self.step(ANNEALING)
                self._done[name] = search.greedy(self._done[ANNEALING])
        found = self._done[name]
        first: FoundRelease | None = found[0] if isinstance(found, tuple) else found
        return first

    def found(self) -> FoundRelease:
        """The release: of several candidates the best."""
        names = steps_of(self._build.config)
        for name in names:
            self.step(name)
        begun = self._begun
        if isinstance(begun, FoundRelease):
            return begun
        if len(names) > 1:
            annealed, prefix, grown = (self._done[name] for name in names)
            return begun.finish(begun.search.best_of(prefix, annealed, *grown))
        return begun.finish(self._done[names[0]])

    def write(self, into: Path) -> None:
        """The release, each question, and the evidence; CutShortError where it is the total alone by a fault."""
        found, build, say = self.found(), self._build, self._say
        if self._faults and found.ended_after and not found.sub_tables:
            raise CutShortError(self._faults[-1])
        table = build.made.table
        for one in found.candidates:
            say(f"search: {one.text}")
        say(f"search: {found.sub_tables} sub-tables without the grand total")
        for part in found.parts.tables:
            if part.base:
                say(f"search: {part.label(table.schema)} rounded to multiples of {part.base}")
        suppressed = suppressions(found.judgement, found.parts, build.settings().wished(build.made.known).in_part)
        for told in suppressed:
            say(f"search: {told.sub_table} in part, {told.text}")
        for warning in filter(None, (told.warning for told in suppressed)):
            say(f"search: warning: {warning}")
        for growth, holds in found.resumed.items():
            if holds:
                say(f"search: resumed from a checkpoint ({growth}); the release is proven, and may be another one")
            else:
                say(f"search: the checkpoint ({growth}) does not hold for this search and is passed over")
        if found.ended_after:
            far = ", ".join(f"{part} {number}" for part, number in found.ended_after.items())
            say(f"search: ended early ({far}); the release is proven, another run may end elsewhere")
        write_search(found, table.schema, into, suppressed)
        write_refutations(found.refutations, table, build.criteria, into)
        certificate = certificate_of(build, found.release, found.proof, found.parts)
        write_certificate(certificate, table.schema, into)

    @cached_property
    def _begun(self) -> Begun | FoundRelease:
        """What is required was judged, or nothing is left to search for."""
        build, checkpoint = self._build, self._checkpoint
        table, known = build.made.table, build.made.known
        check_names(build, known, table)  # again: the table may be of a build with other settings
        for line in build.settings().found_before(known):
            self._say(f"search: {line}")
        for warning in build.config.release.warnings:
            self._say(f"search: warning: {warning}")
            tell(WARNING, warning)

        def keep(state: SearchState) -> None:
            checkpoint.write(ANNEALING, {"state": packed(SearchState, state)})
            self._say(describe_round(state))

        settings, told = build.settings(self._executor), partial(tell, STEP)
        watch = Watch(QuestionLines(told), keep, lambda step: told(describe_simulated(step, table.schema)))
        marker = build.folder.path / f"{SEARCH.name}.ending"
        self._deadline = self._stack.enter_context(interruptible(build.config.release, marker))
        search = release_search(table, known, settings, build.made.widths, watch, self._deadline, checkpoint)
        return search.begin(build.config.release.method)

    @property
    def _state(self) -> SearchState | None:
        kept = self._checkpoint.found.get(ANNEALING)
        state = unpacked(SearchState, kept, "state")
        if kept is not None and state is None:
            self._say("search: the checkpoint (annealing) is damaged and is passed over")
        return state

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        return Checkpoint.open(self._build.folder.parts(SEARCH.name), self._key, self._say)


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    with Search(build, executor, say) as search:
        search.write(into)


@contextmanager
def interruptible(release: ReleaseConfig, marker: Path) -> Iterator[Deadline]:
    """The deadline of a search that the first interrupt from the keyboard ends too, by the marker.

    Not where decisions are to tell nothing: how far they got would.
    """
    if release.method == "simulatable":
        yield NEVER
        return
    marker.unlink(missing_ok=True)  # of a build that was killed
    try:
        with first_interrupt(marker.touch, "the search ends with what is proven so far"):
            yield Deadline.of(release, marker)
    finally:
        marker.unlink(missing_ok=True)


def certificate_of(build: Build, release: Release, proof: Proof, parts: Parts = NO_PARTS) -> Certificate:
    """The evidence about a release under this build's table and risk criterion."""
    made, risk = build.made, build.config.risk
    digest = made.table.digest
    return Certificate(digest, made.known, release, risk.small_count, risk.min_width, proof, parts)


def search_settings(config: BuildConfig) -> dict[str, Any]:
    """What the search depends on: each on settings of its own."""
    # what does not change a stage must not be in its key, or a rerun would do the work again
    unused = {name for name in ("annealing", "simulatable") if config.release.method not in SETTINGS_OF[name]}
    return config.release.model_dump(mode="json", exclude={*unused, "like", "at_least"})  # the one by what is in it


class QuestionLines:
    """Says a line about each question for the progress; none about sub-tables that cannot be added, there are too many.

    And tells of each question, and of what is left at most: questions, and seconds as the last ones took them. So both
    go to 0 with the work.
    """

    def __init__(self, say: Say = lambda text: None, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._told = list[tuple[SearchStep, float]]()

    def __call__(self, step: SearchStep) -> None:
        tell(QUESTION, logger=QUESTIONS)
        # one growth after another is told of
        self._told = [*(one for one in self._told[-LATELY:] if one[0].phase == step.phase), (step, self._clock())]
        if step.phase in GROWING:
            tell(OUTLOOK, self._outlook, logger=QUESTIONS)
        answer = {True: "releasable", False: "refuted", None: "undecided"}[step.answer]
        if step.phase in ("everything", "bisection"):
            what = "all" if step.phase == "everything" else "the first"
            self._say(f"search: {what} {step.length} of the list: {answer}")
        elif step.answer:
            left = f"; {self._outlook}" if step.phase in GROWING else ""
            self._say(f"search: {len(step.added)} more beside {step.length} sub-tables: {answer}{left}")

    @property
    def _outlook(self) -> str:
        steps, moments = zip(*self._told, strict=True)
        said = outlook(steps)
        if len(steps) <= FEW or not steps[-1].left:
            return said
        each = (moments[-1] - moments[0]) / (len(moments) - 1)
        return f"{said}, at most {steps[-1].left * each:.0f} s if each takes as long as these"


def describe_round(state: SearchState) -> str:
    """One line for the progress of the chains."""
    values = sorted((chain.best.value for chain in state.chains), reverse=True)
    agreed = f", agreed {state.agreed} rounds" if state.agreed else ""
    return f"search: annealing round {state.round}: best values {', '.join(f'{v:.12g}' for v in values[:8])}{agreed}"


def describe_simulated(step: SimulatedStep, schema: Schema) -> str:
    """One line for the progress of decisions that tell nothing."""
    answer = "accepted" if step.accepted else "refused"
    named = st.label(step.added, schema)
    return f"search: {named} beside {step.length} sub-tables: {answer}, {step.breaking} draws break the criterion"


SEARCH = Stage(
    "search",
    "finds a release",
    needs=(TABLE.name, WIDTHS.name),
    sections=lambda build: [
        plain(build.config.risk),
        search_settings(build.config),
        [one.digest for one in build.like],
        *([build.again] if build.again else []),
    ],
    make=_make,
    version=3,
)
