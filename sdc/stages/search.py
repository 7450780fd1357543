"""The search for a release, and what it says while it works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sdc.config.build import BuildConfig
from sdc.config.capabilities import SETTINGS_OF
from sdc.events import QUESTIONS, STEP, tell
from sdc.executor import Executor
from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.search.decomposable import SearchState
from sdc.search.ordered import SearchStep
from sdc.search.simulatable import SimulatedStep
from sdc.stages.assemble import Watch, release_search
from sdc.stages.build import Build
from sdc.stages.checks import check_names
from sdc.stages.stage import Say, Stage, plain
from sdc.stages.table import TABLE
from sdc.stages.widths import WIDTHS
from sdc.storage.certificate import Certificate, write_certificate
from sdc.storage.results import read_checkpoint, write_checkpoint, write_search


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """Annealing is kept round by round: a build that is killed goes on from its last whole round."""
    path, key = build.folder.checkpoint(SEARCH.name), SEARCH.key(build)
    table, known = build.made.table, build.made.known
    check_names(build, known)  # again: the table may be of a build with other settings

    def keep(state: SearchState) -> None:
        write_checkpoint(state, key, path)
        say(describe_round(state))

    settings = build.settings(executor)
    watch = Watch(_tell_step, keep, lambda step: tell(STEP, describe_simulated(step, table.schema)))
    search = release_search(table, known, settings, build.made.widths, watch)
    found = search.run(build.config.release.method, read_checkpoint(path, key))
    say(f"search: {found.sub_tables} sub-tables without the grand total")
    write_search(found, table.schema, into)
    write_certificate(certificate_of(build, found.release, found.proof), table.schema, into)


def certificate_of(build: Build, release: Release, proof: Proof) -> Certificate:
    """The evidence about a release under this build's table and risk criterion."""
    made, risk = build.made, build.config.risk
    return Certificate(made.table.digest, made.known, release, risk.small_count, risk.min_width, proof)


def search_settings(config: BuildConfig) -> dict[str, Any]:
    """What the search depends on: each on settings of its own."""
    # what does not change a stage must not be in its key, or a rerun would do the work again
    unused = {name for name in ("annealing", "simulatable") if config.release.method not in SETTINGS_OF[name]}
    return config.release.model_dump(mode="json", exclude=unused)


def _tell_step(step: SearchStep) -> None:
    tell("question", logger=QUESTIONS)
    say_step(step, lambda text: tell(STEP, text))


def say_step(step: SearchStep, say: Say) -> None:
    """One line for the progress; none for sub-tables that cannot be added, there are too many."""
    answer = {True: "releasable", False: "refuted", None: "undecided"}[step.answer]
    if step.phase in ("everything", "bisection"):
        say(f"search: {'all' if step.phase == 'everything' else 'the first'} {step.length} of the list: {answer}")
    elif step.answer:
        say(f"search: {len(step.added)} more beside {step.length} sub-tables: {answer}")


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
    sections=lambda build: [plain(build.config.risk), search_settings(build.config)],
    make=_make,
)
