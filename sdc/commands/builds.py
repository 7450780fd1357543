"""Commands about builds and their run folders."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from sdc.commands.options import (
    BUILD,
    CONFIG,
    INSPECT,
    MAINTAIN,
    PUBLISH,
    CommandResult,
    ConfigPath,
    RunFolderPath,
    RunsPath,
    Settings,
    Watch,
    WatchPort,
    command,
    file_option,
    first_of,
    report,
    run_path,
    say,
    status_of_release,
    write_page,
)
from sdc.model.errors import ConfigError, many
from sdc.refusal import ERROR, NOT_RELEASABLE

SIZES = {
    "records": "records",
    "full table": "full_table_cells",
    "non-zero cells": "cells",
    "at-risk cells": "at_risk_cells",
    "sub-tables": "sub_tables",
}


@command(BUILD, *CONFIG)
def run(
    config: ConfigPath,
    settings: Settings,
    watch: Watch = False,
    watch_port: WatchPort = None,
    again: Annotated[
        bool, Option("--again", help="Build a published config again in a new folder, judged together with it.")
    ] = False,
) -> CommandResult:
    """Build a release and its audit report from a config.

    The build counts the microdata, searches, assesses and publishes. A published build is verified and not made again.
    """
    from flows.run import run as run_build
    from sdc.commands.releases import print_release

    built = run_build(config, watch=watch, watch_port=watch_port, again=again, settings=settings)
    release = built.facts["release"]

    def show() -> None:
        print_release(release)
        report(
            ("listed", built.facts.get("cut")),
            ("to publish", built.to_publish),
            ("audit report", built.report),
            ("uploaded to", built.facts.get("uploaded")),
        )

    return CommandResult(built.facts, show, status_of_release(release))


@command(BUILD, *CONFIG)
def sweep(config: ConfigPath, settings: Settings, watch: Watch = False, watch_port: WatchPort = None) -> CommandResult:
    """Compute only the critical widths of a config's table.

    A later `sdc run` of the same config reuses the table and the widths.
    """
    from flows.run import through_flow
    from sdc.stages.table import sweep_lines

    result = through_flow("width_sweep", config, settings, watch, watch_port)
    return CommandResult(result, lambda: print("\n".join(sweep_lines(result))))


@command(BUILD, *CONFIG)
def plan(
    config: ConfigPath,
    settings: Settings,
    quick: Annotated[bool, Option("--quick", help="Sizes and memory only, within seconds; no times.")] = False,
    seconds: Annotated[
        float, Option(min=1, help="The most that the trial gives a stage; more estimates a long build better.")
    ] = 30.0,
) -> CommandResult:
    """Estimate the time, memory and disk of a build.

    A trial of the build measures the time: each stage runs for at most so many seconds, and nothing is kept or
    published. Earlier runs of the same name serve for stages that take longer. A build that does not fit is refused.
    """
    from sdc.model.totals import warnings_of
    from sdc.stages.build import open_build
    from sdc.stages.plan import plan_build
    from sdc.stages.table import check_before

    build = open_build(config, settings=settings)
    check_before(build)
    result = plan_build(build, say, quick=quick, seconds=seconds)
    for warning in warnings_of(result["sums"]):
        say(warning)
    if result["refused"]:
        say(f"the trial ended, as the build would: {result['refused']}")
    return CommandResult(result, lambda: _print_plan(result, quick))


def _print_plan(result: Mapping[str, Any], quick: bool) -> None:
    for name, key in SIZES.items():
        print(f"{name:20}{result[key]:,}")
    if result["floor"]:
        most = f", at most the widest {result['most_listed']:,}" if result["most_listed"] else ""
        print(f"only sub-tables of critical width {result['floor']} or more are listed{most}")
    print(f"{'stage':14}{'status':10}{'units':>6}  {'way':10}{'a worker':>12}{'seconds':>16}")
    for stage in result["stages"]:
        size, seconds = f"{stage['memory_mib']:8} MiB", _span(stage)
        print(f"{stage['name']:14}{stage['status']:10}{stage['units']:6}  {stage['way']:10}{size}{seconds:>16}")
    for who, key in ("per worker", "memory"), ("here", "here"):
        needed, allowed = result[f"{key}_needed_mib"], result[f"{key}_allowed_mib"]
        print(f"memory        {needed} MiB needed {who}, {allowed} MiB allowed")
    print(f"reading       in a process of at most {result['reader_limit_mib']} MiB per worker, within its memory")
    print(f"disk          {result['disk_needed_mib']} MiB needed, {result['disk_free_mib']} MiB free")
    print("time          not measured; omit --quick" if quick else f"time          about {_span(result)} s")


def _span(planned: Mapping[str, Any]) -> str:
    least, most = planned["seconds"], planned["seconds_at_most"]
    if least is None:
        return "not measured"
    if most is None:
        return f"{least:.0f} or more"
    return f"{least:.0f} to {most:.0f}" if round(most) > round(least) else f"{least:.0f}"


@command(PUBLISH)
def verify(
    folder: Annotated[
        Path, Argument(parser=run_path, metavar="RUN_FOLDER", help="A run folder or a published folder.")
    ],
    settings: Settings,
    published: Annotated[
        bool, Option("--published", help="Check a published folder, without the table, by --key.")
    ] = False,
    key: Annotated[
        Path | None, file_option("The signer's public key in PEM, not from the folder itself.", "--key")
    ] = None,
    config: Annotated[Path | None, file_option("The config of the build, with its settings.", "--config")] = None,
) -> CommandResult:
    """Verify a build or a published folder, for auditors and its readers.

    A build is checked by its table, release and certificate alone; then its published files are made again and
    compared, if the same versions wrote them. With --config, its settings, labels and texts must be those of that file.
    With --published, a published folder is checked by the public key of its signer. Earlier publications are read again
    if possible; otherwise the output says that they are taken from the run folder.
    """
    if published != (key is not None):
        raise ConfigError("--published and --key go together; give both for a published folder, neither for a build")
    if published and config is not None:
        raise ConfigError("--config is for a build; omit it, or omit --published and --key")
    if settings and config is None:
        raise ConfigError("--set changes the config of a build; give --config too")
    if key is None:
        return _verified_run(folder, config, settings)
    from sdc.stages.verified import verify_folder

    checks = dict(verify_folder(folder, key))
    facts = {"published": str(folder), "verified": True, "checks": checks}
    return CommandResult(facts, lambda: print("\n".join(f"{what:14}{result}" for what, result in checks.items())))


def _verified_run(run_folder: Path, config: Path | None, settings: Settings) -> CommandResult:
    from sdc.model.documents import picked
    from sdc.stages.verified import verify_run

    found = verify_run(run_folder, say, config, settings)
    counted = picked(found, "verified", "at_risk_cells", "certified_cells", "differences", "refutations")
    listed = picked(found, "failures", "uncertified", "notes")
    texts = {"known": found.known or None, "bytes": found.bytes or None}
    facts = {"run_folder": str(run_folder), **counted, **listed, **texts}

    def show() -> None:
        report(
            ("at-risk cells", f"{found.at_risk_cells}, certified {found.certified_cells}"),
            *(("not certified", line) for line in found.uncertified),
            *(("note", line) for line in found.notes),
            ("refused", found.refutations and f"{many(found.refutations, 'refutation')} checked again"),
            ("known before", found.known),
            ("bytes", found.bytes),
        )

    if not found.verified:
        say(f"sdc: {run_folder} is not verified: {first_of(found.failures)}")
        return CommandResult(facts, show, ERROR)
    return CommandResult(facts, show, NOT_RELEASABLE if found.uncertified else 0)


@command(INSPECT)
def status(run_folder: RunFolderPath) -> CommandResult:
    """Show the progress of a build, and why it ended."""
    from sdc.storage.runs import read_run

    facts = read_run(run_folder).status
    return CommandResult(facts, lambda: _print_status(facts))


def _print_status(facts: Mapping[str, Any]) -> None:
    print(f"{facts['name']} {facts['digest']}: {facts['state']}, started {facts['started']}")
    print(f"{'stage':14}{'status':8}{'seconds':>9}{'this process':>15}{'largest worker':>17}")
    for stage in facts["stages"]:
        seconds = "" if stage["seconds"] is None else f"{stage['seconds']:.1f}"
        memory = ["" if stage[key] is None else f"{stage[key]} MiB" for key in ("driver_mib", "worker_mib")]
        print(f"{stage['name']:14}{stage['status']:8}{seconds:>9}{memory[0]:>15}{memory[1]:>17}".rstrip())
    now = facts["running"]
    process = now and f"process {now['pid']} on {now['host']} since {now['since']}: {now['said'] or now['stage']}"
    report(*(("checkpoint", f"{name} can be continued") for name in facts["checkpoints"]), ("running", process))
    for warning in facts["warnings"]:
        print(warning)
    report(("ended with", facts["error"]))


@command(INSPECT)
def explore(
    run_folder: RunFolderPath,
    to: Annotated[Path | None, file_option("Write the page there and open no browser.", "--to")] = None,
) -> CommandResult:
    """Show the query space of a run in a browser.

    The page shows what is released, what could still be released, and what each sub-table would add or exclude.
    It is written to the run folder and is as confidential as the audit report.
    """
    from sdc.run_format import RELEASE
    from sdc.stages.finished import EXPLORER, space_of_run
    from sdc.storage.run_folder import RunFolder

    if to is not None and to.resolve().is_relative_to((run_folder / RELEASE).resolve()):
        raise ConfigError(f"--to {to} is in the folder to publish, and the page is confidential; name another folder")
    space = space_of_run(run_folder)
    if to is not None:
        write_page(to, space.page, "--to")
    else:
        RunFolder(run_folder).write_text(EXPLORER, space.page)
    written = to or run_folder / EXPLORER

    def show() -> None:
        print(f"explorer  {written}")
        has_browser = sys.platform in ("darwin", "win32") or {"BROWSER", "DISPLAY", "WAYLAND_DISPLAY"} & {*os.environ}
        if to is None and has_browser:
            webbrowser.open(written.resolve().as_uri())

    return CommandResult({"explorer": str(written), "bytes": written.stat().st_size}, show)


@command(INSPECT, name="list")
def list_command(folder: RunsPath = Path("runs")) -> CommandResult:
    """List the runs in a folder and their state."""
    from sdc.storage.runs import read_runs

    runs = [run.facts for run in read_runs(folder)]

    def show() -> None:
        print(f"{'name':24}{'digest':18}{'state':12}{'stages':>8}{'size':>12}  started")
        for run in runs:
            stages, size = f"{run['stages_done']} of {run['stages']}", _megabytes(run["size_bytes"])
            print(f"{run['name']:24}{run['digest']:18}{run['state']:12}{stages:>8}{size:>12}  {run['started']}")

    return CommandResult({"folder": str(folder), "runs": runs}, show)


@command(MAINTAIN)
def clean(
    folder: RunsPath = Path("runs"),
    keep: Annotated[
        int | None, Option(min=1, help="Keep this many newest runs with a release of each name; default: all.")
    ] = None,
    unfinished: Annotated[
        bool, Option("--unfinished", help="Also remove runs without a release that have no later run with one.")
    ] = False,
    older_than: Annotated[
        int | None,
        Option(
            min=1,
            max=36500,
            metavar="DAYS",
            help="Also remove older server logs and Prefect records of this user's runs.",
        ),
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Remove them; without it, only list them.")] = False,
) -> CommandResult:
    """List superseded runs, or remove them with --yes.

    A run is superseded if it ended without a release and a later run of the same name has one. A run with a ledger
    entry stays until its release is complete.
    """
    from sdc.storage.runs import finish_removals, read_runs, remove, superfluous

    chosen = superfluous(read_runs(folder), keep, unfinished)
    facts = [run.facts for run in chosen]
    for run, fact in zip(chosen, facts, strict=True):
        say(f"{'removing' if yes else 'would remove'} {fact['run_folder']}: {fact['state']}")
        if yes:
            remove(run)
    if yes:
        finish_removals(folder)
    size = sum(fact["size_bytes"] for fact in facts)
    older = {} if older_than is None else _clean_older(folder, older_than, yes)
    document = {"folder": str(folder), "removed": yes, "runs": facts, "size_bytes": size, **older}
    total = f"{many(len(facts), 'run')}, {_megabytes(size)}{'' if yes else '; --yes removes them'}"
    return CommandResult(document, lambda: print(total))


def _clean_older(folder: Path, days: int, yes: bool) -> dict[str, Any]:
    """Archive or remove old logs and delete old Prefect runs; return them as JSON values."""
    from datetime import UTC, datetime, timedelta

    from flows.retention import forget_flow_runs, old_flow_runs, own_database
    from sdc.storage.runs import old_logs

    logs, database = list(old_logs(folder, datetime.now(UTC) - timedelta(days=days))), own_database()
    facts = [log.facts for log in logs]
    for log in logs:
        does = "remove" if log.aside is None else "set aside"
        say(f"{'' if yes else 'would '}{does} {log.path}")
        if yes:
            log.clean()
    runs = 0 if database is None else old_flow_runs(database, days)
    if runs:
        say(f"{'' if yes else 'would '}forget {runs} flow runs in {database}")
    if database is not None and runs and yes:
        forget_flow_runs(database, days)
    return {"logs": facts, "flow_runs": runs}


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
