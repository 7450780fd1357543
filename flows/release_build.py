"""The release build as a Prefect flow: each stage is a task, its units are Dask futures."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows.embedded import run_as_command
from flows.tasks import run_as_task, run_as_tasks
from sdc.model.release import release_facts
from sdc.protect.summary import old_facts, suppressed_table_facts
from sdc.refusal import NOT_RELEASABLE
from sdc.run_format import IN_PART, RELEASE
from sdc.stages.build import open_build
from sdc.stages.release import check_upload, upload
from sdc.stages.stages import beside_all

_print = partial(print, file=sys.stderr, flush=True)


@flow(name="release-build")
def release_build(
    config: str,
    data: str | None = None,
    workers: int | None = None,
    again: bool = False,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the release of a config file; stages with unchanged inputs are reused."""
    build = open_build(Path(config), data, workers, again, settings)
    check_upload(build)
    build, stages = beside_all(build, run_as_tasks, _print)
    made, table = build.made, build.made.table
    released = release_facts(made.found.release, table.schema)
    frontier = [" * ".join(names) or "(total)" for names in released["frontier"]]
    page = "# Released frontier\n\n" + "\n".join(f"- {names}" for names in frontier)
    create_markdown_artifact(key="released-frontier", markdown=page)
    suppressed, recoded = made.found.suppressed_tables, build.coarsened
    if suppressed.facts or recoded:
        to = build.folder.stage(RELEASE)
        facts = suppressed_table_facts(suppressed, recoded, table, to, made.found.suppressed)
        released |= {"suppressed_tables": facts, IN_PART: old_facts(facts)}
    result: dict[str, Any] = {"run_folder": str(build.folder.path), "release": released, "stages": stages}
    if build.listing.most and (cut := made.widths.cut(build.criteria.floor)):
        result["cut"] = cut
    if build.config.output.upload:
        result["uploaded"] = run_as_task("upload", partial(upload, build, _print))
    return result


if __name__ == "__main__":
    run_as_command(release_build, lambda made: 0 if made["release"]["sub_tables"] else NOT_RELEASABLE)
