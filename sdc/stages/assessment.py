"""The assessment: every at-risk cell bounded under the release that was found, and what proves it."""

from __future__ import annotations

from pathlib import Path

from sdc.checkpoint import Checkpoint
from sdc.executor import Executor
from sdc.stages.bounded import keeping
from sdc.stages.build import Build
from sdc.stages.search import SEARCH, certificate_of
from sdc.stages.stage import Say, Stage, effort_settings, plain
from sdc.stages.table import TABLE
from sdc.storage.certificate import write_certificate
from sdc.storage.results import write_assessment


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """What the search proved is proven again from its certificate; then every cell is bounded as far as can be."""
    made = build.made
    in_part = made.found.parts
    inquiry = build.settings(executor).inquiry(made.table, made.beside, in_part.before(made.known))
    release, schema = made.found.release, made.table.schema
    # from the files: what is published rests on what was written, not on what the search remembers
    inquiry.learn(made.certificate(SEARCH.name).proof, release)
    judgement, bounds = inquiry.examine(release)
    by = None
    if (seconds := build.config.seconds_to_sharpen) is not None:
        # part by part: a build that is killed goes on without those that are done
        checkpoint = Checkpoint.open(build.folder.parts(ASSESSMENT.name), ASSESSMENT.key(build), say)
        judgement, bounds, by = inquiry.sharpen(judgement, bounds, seconds, checkpoint.found, keeping(checkpoint))
    low, high = judgement.margin
    say(f"assessment: min width {low} to {high}, {judgement.assessment.open_cells} cells undecided")
    if judgement.assessment.sharpness is not None:
        say(f"assessment: {judgement.assessment.sharpness.told('at-risk cell', seconds)}")
    write_assessment(judgement.assessment, bounds, schema, into, by)
    write_certificate(certificate_of(build, release, judgement.proof, in_part), schema, into)


ASSESSMENT = Stage(
    "assessment",
    "bounds every at-risk cell under the release",
    needs=(TABLE.name, SEARCH.name),
    sections=lambda build: [plain(build.config.risk), effort_settings(build.config), build.config.seconds_to_sharpen],
    make=_make,
)
