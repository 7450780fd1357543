"""The commands about builds: the whole one and its plan, and what run folders tell."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from sdc.commands.options import (
    BuildWorkers,
    ConfigPath,
    Data,
    Json,
    RunFolderPath,
    RunsPath,
    Watch,
    WatchPort,
    first_of,
    print_json,
    print_release,
    status_of_release,
    write_page,
)
from sdc.commands.panels import BUILD, INSPECT, MAINTAIN, PUBLISH
from sdc.model.errors import ConfigError
from sdc.paths import checked_path
from sdc.refusal import NOT_RELEASABLE

builds = typer.Typer()

SIZES = {
    "records": "records",
    "full table": "full_table_cells",
    "non-zero cells": "cells",
    "at-risk cells": "at_risk_cells",
    "sub-tables": "sub_tables",
}


@builds.command(rich_help_panel=BUILD)
def run(
    config: ConfigPath,
    data: Data = None,
    workers: BuildWorkers = None,
    watch: Watch = False,
    watch_port: WatchPort = None,
    again: Annotated[
        bool, typer.Option("--again", help="Make a new build of a published config, in a new folder, judged beside it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Build a release and its audit report from a config.

    This is the whole build: it counts the microdata, searches, assesses and publishes. A build that was published is
    verified and not made again.
    """
    from flows.run import run as run_build

    built = run_build(config, data, workers=workers, watch=watch, watch_port=watch_port, again=again)
    if as_json:
        print_json(built.facts)
        raise typer.Exit(status_of_release(built.facts["release"]))
    print_release(built.facts["release"])
    if "cut" in built.facts:
        print(f"listed        {built.facts['cut']}")
    print(f"to publish    {built.to_publish}")
    print(f"audit report  {built.report}")
    if "uploaded" in built.facts:
        print(f"uploaded to   {built.facts['uploaded']}")
    raise typer.Exit(status_of_release(built.facts["release"]))


@builds.command(rich_help_panel=BUILD)
def sweep(
    config: ConfigPath,
    data: Data = None,
    workers: BuildWorkers = None,
    watch: Watch = False,
    watch_port: WatchPort = None,
    as_json: Json = False,
) -> None:
    """Compute only the critical widths of a config's table.

    A later `sdc run` of the same config reuses the table and the widths.
    """
    from flows.run import through_flow

    result = through_flow("width_sweep", config, data, workers, watch, watch_port)
    if as_json:
        print_json(result)
        return
    from sdc.stages.table import sweep_lines

    print("\n".join(sweep_lines(result)))


@builds.command(rich_help_panel=BUILD)
def plan(
    config: ConfigPath,
    data: Data = None,
    workers: BuildWorkers = None,
    quick: Annotated[bool, typer.Option("--quick", help="Try nothing: sizes and memory in seconds, no times.")] = False,
    as_json: Json = False,
) -> None:
    """Estimate the time, memory and disk that a build needs.

    Short trials measure the time. Nothing is written. A build that does not fit is refused.
    """
    from sdc.execution.cluster import open_executor
    from sdc.executor import IN_PROCESS
    from sdc.model.totals import warnings_of
    from sdc.stages.build import open_build
    from sdc.stages.plan import one_worker, plan_build
    from sdc.stages.table import check_before

    build = open_build(config, data, workers)
    check_before(build)
    with nullcontext(IN_PROCESS) if quick else open_executor(one_worker(build.config.execution)) as executor:
        result = plan_build(build, executor, quick=quick)
    for warning in warnings_of(result["sums"]):
        print(warning, file=sys.stderr)
    if as_json:
        print_json(result)
        return
    for name, key in SIZES.items():
        print(f"{name:20}{result[key]:,}")
    if result["floor"]:
        most = f", the widest {result['most_listed']:,} where they are more" if result["most_listed"] else ""
        print(f"of the sub-tables only those of critical width {result['floor']} or more are listed{most}")
    print(f"{'stage':14}{'status':10}{'units':>6}  {'way':10}{'a worker':>12}{'seconds':>16}")
    for stage in result["stages"]:
        size, seconds = f"{stage['memory_mib']:8} MiB", _span(stage)
        print(f"{stage['name']:14}{stage['status']:10}{stage['units']:6}  {stage['way']:10}{size}{seconds:>16}")
    for who, key in ("per worker", "memory"), ("here", "here"):
        needed, allowed = result[f"{key}_needed_mib"], result[f"{key}_allowed_mib"]
        print(f"memory        {needed} MiB needed {who}, {allowed} MiB allowed")
    print(
        f"reading       in a process of at most {result['reader_limit_mib']} MiB beside each worker, within its memory"
    )
    print(f"disk          {result['disk_needed_mib']} MiB needed, {result['disk_free_mib']} MiB free")
    print("time          not tried; leave out --quick" if quick else f"time          about {_span(result)} s")


def _span(planned: Mapping[str, Any]) -> str:
    """From what the trials took to what the budget allows."""
    least, most = planned["seconds"], planned["seconds_at_most"]
    if least is None:
        return "not tried"
    return f"{least:.0f} to {most:.0f}" if round(most) > round(least) else f"{least:.0f}"


@builds.command(rich_help_panel=PUBLISH)
def verify(
    folder: Annotated[
        Path,
        typer.Argument(parser=checked_path, metavar="RUN_FOLDER", help="A build, or what was published."),
    ],
    published: Annotated[
        bool, typer.Option("--published", help="FOLDER is what was published, without the table: check it by --key.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            parser=checked_path, metavar="FILE", help="The signer's public key in PEM, from elsewhere than FOLDER."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(parser=checked_path, metavar="FILE", help="The config that the build claims to be of."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify a build or a published folder, independently of its search.

    A build is checked by its table, release and certificate alone; then its published files are made again and
    compared, if the same versions wrote them. With --config, its settings, labels and texts must be those of that file.
    With --published, a published folder is checked by the public key of its signer. Earlier publications are read again
    if possible; otherwise the output says that they are taken from the run folder.
    """
    if published != (key is not None):
        raise ConfigError("--published and --key go together; give both for what was published, neither for a build")
    if published and config is not None:
        raise ConfigError("--config is of a build; leave it out, or leave out --published and --key")
    if key is not None:
        _verify_published(folder, key, as_json)
    else:
        _verify_run(folder, config, as_json)


def _verify_published(folder: Path, key: Path, as_json: bool) -> None:
    from sdc.stages.verified import verify_folder

    found = dict(verify_folder(folder, key))
    if as_json:
        print_json({"published": str(folder), "verified": True, "checks": found})
        return
    for what, said in found.items():
        print(f"{what:14}{said}")


def _verify_run(run_folder: Path, config: Path | None, as_json: bool) -> None:
    from sdc.stages.verified import verify_run

    found = verify_run(run_folder, lambda line: print(line, file=sys.stderr), config)
    if as_json:
        print_json(
            {
                "run_folder": str(run_folder),
                "verified": found.verified,
                "at_risk_cells": found.at_risk_cells,
                "certified_cells": found.certified_cells,
                "differences": found.differences,
                "refutations": found.refutations,
                "failures": found.failures,
                "uncertified": found.uncertified,
                "notes": found.notes,
                "known": found.known or None,
                "bytes": found.bytes or None,
            }
        )
    else:
        print(f"at-risk cells {found.at_risk_cells}, certified {found.certified_cells}")
        for line in (*found.uncertified, *found.notes):
            print(f"not certified {line}")
        if found.refutations:
            print(f"refused       {found.refutations} refutation{'s' * (found.refutations != 1)} worked out again")
        if found.known:
            print(f"known before  {found.known}")
        if found.bytes:
            print(f"bytes         {found.bytes}")
    if not found.verified:
        print(f"sdc: {run_folder} is not verified: {first_of(found.failures)}", file=sys.stderr)
        raise typer.Exit(1)
    raise typer.Exit(NOT_RELEASABLE if found.uncertified else 0)


@builds.command(rich_help_panel=INSPECT)
def status(run_folder: RunFolderPath, as_json: Json = False) -> None:
    """Show how far a build is, and why it ended."""
    from sdc.storage.runs import read_run

    facts = read_run(run_folder).status
    if as_json:
        print_json(facts)
        return
    print(f"{facts['name']} {facts['digest']}: {facts['state']}, started {facts['started']}")
    print(f"{'stage':14}{'status':8}{'seconds':>9}{'this process':>15}{'largest worker':>17}")
    for stage in facts["stages"]:
        seconds = "" if stage["seconds"] is None else f"{stage['seconds']:.1f}"
        memory = ["" if stage[key] is None else f"{stage[key]} MiB" for key in ("driver_mib", "worker_mib")]
        print(f"{stage['name']:14}{stage['status']:8}{seconds:>9}{memory[0]:>15}{memory[1]:>17}".rstrip())
    for name in facts["checkpoints"]:
        print(f"checkpoint    {name} goes on from where it was")
    if (now := facts["running"]) is not None:
        work = now["said"] or now["stage"]
        print(f"running       process {now['pid']} on {now['host']} since {now['since']}: {work}")
    for warning in facts["warnings"]:
        print(warning)
    if facts["error"]:
        print(f"ended with    {facts['error']}")


@builds.command(rich_help_panel=INSPECT)
def explore(
    run_folder: RunFolderPath,
    to: Annotated[
        Path | None,
        typer.Option("--to", parser=checked_path, metavar="FILE", help="Write the page there, and open no browser."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the query space of a run in a browser.

    The page shows what is released, what could still be released, and what each sub-table would add or exclude.
    It is written to the run folder and is as confidential as the audit report.
    """
    from sdc.run_format import RELEASE
    from sdc.stages.finished import EXPLORER, space_of_run
    from sdc.storage.run_folder import RunFolder

    if to is not None and to.resolve().is_relative_to((run_folder / RELEASE).resolve()):
        raise ConfigError(f"--to {to} is in what is to be published, and the page is confidential; name another folder")
    space = space_of_run(run_folder)
    if to is not None:
        write_page(to, space.page, "--to")
    else:
        RunFolder(run_folder).write_text(EXPLORER, space.page)
    written = to or run_folder / EXPLORER
    if as_json:
        print_json({"explorer": str(written), "bytes": written.stat().st_size})
    else:
        print(f"explorer  {written}")
    if to is None and not as_json:
        _open_in_browser(written)


def _open_in_browser(page: Path) -> None:
    """Where this machine has a screen, or says which browser there is."""
    if sys.platform in ("darwin", "win32") or {"BROWSER", "DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        webbrowser.open(page.resolve().as_uri())


@builds.command("list", rich_help_panel=INSPECT)
def list_command(folder: RunsPath = Path("runs"), as_json: Json = False) -> None:
    """List the runs in a folder and their state."""
    from sdc.storage.runs import read_runs

    runs = [run.facts for run in read_runs(folder)]
    if as_json:
        print_json({"folder": str(folder), "runs": runs})
        return
    print(f"{'name':24}{'digest':18}{'state':12}{'stages':>8}{'size':>12}  started")
    for run in runs:
        stages = f"{run['stages_done']} of {run['stages']}"
        size = _megabytes(run["size_bytes"])
        print(f"{run['name']:24}{run['digest']:18}{run['state']:12}{stages:>8}{size:>12}  {run['started']}")


@builds.command(rich_help_panel=MAINTAIN)
def clean(
    folder: RunsPath = Path("runs"),
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="Of the runs with a release keep so many of each name, the newest; else all."),
    ] = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Remove runs without a release also where no later run has one.")
    ] = False,
    older_than: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=36500,
            metavar="DAYS",
            help="Also logs of servers, and what Prefect keeps of runs of this user, that are older.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it, only say which.")] = False,
    as_json: Json = False,
) -> None:
    """List superseded runs, or remove them with --yes.

    These are runs that ended without a release, if a later run of the same name has one. A run that its ledger has an
    entry of is kept until its release is there.
    """
    from sdc.storage.runs import finish_removals, read_runs, remove, superfluous

    chosen = superfluous(read_runs(folder), keep, unfinished)
    facts = [run.facts for run in chosen]
    for run, fact in zip(chosen, facts, strict=True):
        print(f"{'removing' if yes else 'would remove'} {fact['run_folder']}: {fact['state']}", file=sys.stderr)
        if yes:
            remove(run)
    if yes:
        finish_removals(folder)
    size = sum(fact["size_bytes"] for fact in facts)
    older = {} if older_than is None else _clean_older(folder, older_than, yes)
    if as_json:
        print_json({"folder": str(folder), "removed": yes, "runs": facts, "size_bytes": size, **older})
        return
    print(f"{len(facts)} runs, {_megabytes(size)}{'' if yes else '; --yes removes them'}")


def _clean_older(folder: Path, days: int, yes: bool) -> dict[str, Any]:
    """Sets aside or removes old logs, and has Prefect forget old flow runs; what they are as JSON values."""
    from datetime import UTC, datetime, timedelta

    from flows.retention import forget_flow_runs, old_flow_runs, own_database
    from sdc.storage.runs import old_logs

    logs, database = list(old_logs(folder, datetime.now(UTC) - timedelta(days=days))), own_database()
    facts = [log.facts for log in logs]
    for log in logs:
        does = "remove" if log.aside is None else "set aside"
        print(f"{'' if yes else 'would '}{does} {log.path}", file=sys.stderr)
        if yes:
            log.clean()
    runs = 0 if database is None else old_flow_runs(database, days)
    if runs:
        print(f"{'' if yes else 'would '}forget {runs} flow runs in {database}", file=sys.stderr)
    if database is not None and runs and yes:
        forget_flow_runs(database, days)
    return {"logs": facts, "flow_runs": runs}


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
