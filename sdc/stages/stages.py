"""The stages of a build in order, and a whole build in this process."""

from __future__ import annotations

from dataclasses import replace

from sdc.config.build import BuildConfig
from sdc.executor import Executor
from sdc.stages.assessment import ASSESSMENT
from sdc.stages.attack import ATTACK
from sdc.stages.build import Build
from sdc.stages.curve import CURVE
from sdc.stages.posterior import POSTERIOR
from sdc.stages.release import RELEASE
from sdc.stages.remedies import REMEDIES
from sdc.stages.report import REPORT
from sdc.stages.search import SEARCH
from sdc.stages.stage import Say, Stage, beside_all, run_stage
from sdc.stages.table import TABLE
from sdc.stages.uniques import UNIQUES
from sdc.stages.weighted import WEIGHTED
from sdc.stages.widths import WIDTHS
from sdc.storage.run_folder import StageRecord

STAGES = (TABLE, WIDTHS, SEARCH, ASSESSMENT, REPORT, RELEASE)  # of every build
ASKED = (CURVE, REMEDIES, POSTERIOR, UNIQUES, ATTACK, WEIGHTED)  # that only some configs ask for
SWEEP = (TABLE, WIDTHS)


def stages_of(config: BuildConfig) -> tuple[Stage, ...]:
    """The stages of a build; those that only some configs ask for come before the report, which shows them."""
    *first, report, release = STAGES
    stages = [*first, *(stage for stage in ASKED if stage.asked(config)), report, release]
    names = {stage.name for stage in stages}
    return tuple(replace(stage, needs=tuple(name for name in stage.needs if name in names)) for stage in stages)


def run_all(build: Build, executor: Executor, say: Say = lambda text: None) -> list[StageRecord]:
    """The whole build in this process, without Prefect."""
    stages = stages_of(build.config)

    def run(build: Build) -> list[StageRecord]:
        with build.started([stage.name for stage in stages]):
            return [run_stage(stage, build, executor, say) for stage in stages]

    return beside_all(build, run, say)[1]
