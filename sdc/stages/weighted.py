"""Totals of weights: which may go out beside the counts, and what shows it."""

from __future__ import annotations

from pathlib import Path

from sdc.executor import Executor
from sdc.model.weights import UNIT
from sdc.stages.assessment import ASSESSMENT
from sdc.stages.build import Build
from sdc.stages.stage import Say, Stage, given, plain
from sdc.stages.table import TABLE
from sdc.storage.weighted import write_weighted
from sdc.weighted.choice import choose


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    asked, made = given(build.config.totals, "table.weight"), build.made
    certificate, base = made.certificate(ASSESSMENT.name), asked.round * UNIT
    known, proof = certificate.knowledge, certificate.proof
    chosen = choose(made.table, made.weights, known, build.criteria, proof, base, executor, asked.programs)
    say(f"weighted: {len(chosen.totals)} tables of totals go out, {len(chosen.withheld)} of the frontier withheld")
    write_weighted(chosen, made.table.schema, into)


WEIGHTED = Stage(
    "weighted",
    "judges totals of weights beside the counts",
    needs=(TABLE.name, ASSESSMENT.name),
    sections=lambda build: [
        plain(build.config.risk),
        build.config.totals and build.config.totals.model_dump(exclude={"publish"}),
    ],
    make=_make,
    asked=lambda config: config.totals is not None,
)
