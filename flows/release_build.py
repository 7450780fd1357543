"""The release build as a Prefect flow: each step of a build is a task, and its units are Dask futures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from flows.command import run_as_command
from flows.tasks import Made, Steps, made_stage, opened, stage_facts, step
from sdc.refusal import NOT_RELEASABLE
from sdc.run_format import IN_PART, RELEASE
from sdc.stages.build import Build, open_build
from sdc.stages.search import ANNEALING, BISECTION, GREEDY
from sdc.stages.stage import beside_all
from sdc.stages.stages import ASKED
from sdc.stages.upload import check_upload, upload
from sdc.storage.documents import part_facts, release_facts
from sdc.storage.run_folder import StageRecord


@flow(name="release-build")
def release_build(
    config: str, data: str | None = None, workers: int | None = None, again: bool = False
) -> dict[str, Any]:
    """Build the release of a config file; stages that were made before with the same inputs are reused."""
    build = open_build(Path(config), data, workers, again)
    check_upload(build)
    build, records = beside_all(build, build_once, _say)
    create_markdown_artifact(key="released-frontier", markdown=_frontier(build))
    result = {"run_folder": str(build.folder.path), "release": _released(build), "stages": stage_facts(records)}
    cut = build.made.widths.cut(build.criteria.floor) if build.listing.most else ""
    more = {"cut": cut, "uploaded": upload_release(build) if build.config.output.upload else None}
    return result | {name: value for name, value in more.items() if value}


def build_once(build: Build) -> list[StageRecord]:
    """Run every step as a task; what a step takes from another is in its call, and in Prefect's graph."""
    with opened(build) as steps:
        table = count_table(steps)
        widths = critical_widths(steps, table)
        graph = annealing(steps, widths) if ANNEALING in steps.search else None
        prefix = bisection(steps, widths) if BISECTION in steps.search else None
        grown = greedy_search(steps, widths, graph) if GREEDY in steps.search else None
        release = choose_release(steps, graph, prefix, grown)
        bounds = sharp_bounds(steps, table, release)
        more = [made_stage(steps, stage.name, bounds) for stage in ASKED if stage.asked(build.config)]
        audit = report(steps, release, bounds, more)
        publish(steps, release, audit)
        return steps.records


@step("count table", "table")
def count_table(steps: Steps) -> Made:
    return steps.stage("table")


@step("critical widths", "widths")
def critical_widths(steps: Steps, table: Made) -> Made:
    return steps.stage("widths")


@step(ANNEALING)
def annealing(steps: Steps, widths: Made) -> Made:
    return steps.candidate(ANNEALING)


@step(BISECTION)
def bisection(steps: Steps, widths: Made) -> Made:
    return steps.candidate(BISECTION)


@step(GREEDY)
def greedy_search(steps: Steps, widths: Made, graph: Made | None) -> Made:
    return steps.candidate(GREEDY)


@step("choose release", "search")
def choose_release(steps: Steps, graph: Made | None, prefix: Made | None, grown: Made | None) -> Made:
    return steps.stage("search")


@step("sharp bounds", "assessment")
def sharp_bounds(steps: Steps, table: Made, release: Made) -> Made:
    return steps.stage("assessment")


@step("report", "confidential")
def report(steps: Steps, release: Made, bounds: Made, more: list[Made]) -> Made:
    return steps.stage("confidential")


@step("publish", "release")
def publish(steps: Steps, release: Made, audit: Made) -> Made:
    return steps.stage("release")


def upload_release(build: Build) -> str | None:
    """Copy the release to where readers are, when all else is whole."""

    # without parameters: Prefect would walk through a build and copy it
    @task(name="upload", cache_policy=NO_CACHE, persist_result=False)
    def run() -> str | None:
        return upload(build, _say)

    return run()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _released(build: Build) -> dict[str, Any]:
    made, parts, coarsened = build.made, build.made.found.parts, build.coarsened
    facts = release_facts(made.found.release, made.table.schema)
    if parts.facts or coarsened:
        to = build.folder.stage(RELEASE)
        facts[IN_PART] = part_facts(parts, coarsened, made.table, to, made.found.suppressed)
    return facts


def _frontier(build: Build) -> str:
    frontier = release_facts(build.made.found.release, build.made.table.schema)["frontier"]
    return "# Released frontier\n\n" + "\n".join(f"- {' * '.join(names) or '(total)'}" for names in frontier)


if __name__ == "__main__":
    run_as_command(release_build, lambda made: 0 if made["release"]["sub_tables"] else NOT_RELEASABLE)
