"""The command line: thin commands over the verbs; one JSON document on standard output, the rest on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdc.model.errors import ConfigError, RunFolderError, as_command

if TYPE_CHECKING:
    from sdc.executor import Executor
    from sdc.model.table import Table
    from sdc.search.best import FoundRelease

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Decides which exact marginal tables may be published, proves it cell by cell, and publishes them.",
)

TablePath = Annotated[
    str, typer.Argument(metavar="TABLE", help="Parquet or CSV, a file or a folder of parts; or a URL.")
]
ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML file of a build, such as those in configs/.")]
RunFolderPath = Annotated[Path, typer.Argument(metavar="RUN_FOLDER", help="The folder of a build, with its manifest.")]
RunsPath = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where run folders are, output.folder of a config.")]
Variables = Annotated[str | None, typer.Option(help="The columns to use, separated by commas; all by default.")]
StructuralZeros = Annotated[
    Path | None, typer.Option(metavar="FILE", help="YAML list of patterns that everybody knows to be impossible.")
]
SmallCount = Annotated[int, typer.Option(min=1, max=1 << 53, help="Cells of 1 up to this count are at risk.")]
Workers = Annotated[int, typer.Option(min=1, max=1024, help="Worker processes; 1 works in this process.")]
BuildWorkers = Annotated[int | None, typer.Option(min=1, max=1024, help="Worker processes, instead of the config's.")]
Floor = Annotated[int, typer.Option(min=0, max=1 << 53, help="Only sub-tables whose critical width reaches it.")]
Json = Annotated[bool, typer.Option("--json", help="Exactly one JSON document on standard output.")]
ReleaseOption = Annotated[
    list[str], typer.Option("--release", help="A frontier sub-table such as age*sex; once for each.")
]
Data = Annotated[str | None, typer.Option(help="The table to read instead of the config's.")]
MinWidth = Annotated[int, typer.Option(min=1, help="Smallest width allowed of an at-risk cell's bounds.")]


def main() -> None:
    """Runs a command; 0 done, 1 a clean refusal in one message, 2 wrong usage."""
    try:
        with as_command():
            app()
    except SystemExit as exit_:
        if exit_.code == 130:  # what typer makes of an interrupt, without a word
            print("sdc: interrupted; nothing was published", file=sys.stderr)
        raise


@app.command()
def run(config: ConfigPath, data: Data = None, workers: BuildWorkers = None, as_json: Json = False) -> None:
    """The whole build, from microdata to a published release and its audit report."""
    from sdc.build.build import open_build
    from sdc.execution.cluster import check_cluster

    build = open_build(config, data, workers)
    build.check_source()  # refuse what is plainly wrong before a server starts
    check_cluster(build.config.execution)
    from flows.embedded import embedded_server

    with embedded_server() as await_server:
        from flows.release_build import release_build

        await_server()
        result = release_build(str(config), data, workers)
    if as_json:
        _print_json(result)
        return
    folder = result["run_folder"]
    _print_release(result["release"])
    print(f"to publish    {folder}/release")
    print(f"audit report  {folder}/confidential/report.html")


@app.command()
def plan(config: ConfigPath, data: Data = None, workers: BuildWorkers = None, as_json: Json = False) -> None:
    """What a build would run and need, from a short trial; writes nothing. Refuses what does not fit."""
    from sdc.build.build import open_build
    from sdc.build.plan import one_worker, plan_build
    from sdc.execution.cluster import open_executor

    build = open_build(config, data, workers)
    with open_executor(one_worker(build.config.execution)) as executor:
        result = plan_build(build, executor)
    if as_json:
        _print_json(result)
        return
    print(f"{'stage':14}{'status':10}{'units':>6}  {'way':10}{'a worker':>12}{'here':>12}{'disk':>12}{'seconds':>16}")
    for stage in result["stages"]:
        seconds = f"{'budget ' if stage['budgeted'] else ''}{stage['seconds']:.0f}"
        sizes = "".join(f"{stage[key]:8} MiB" for key in ("memory_mib", "here_mib", "disk_mib"))
        print(f"{stage['name']:14}{stage['status']:10}{stage['units']:6}  {stage['way']:10}{sizes}{seconds:>16}")
    for who, key in ("per worker", "memory"), ("here", "here"):
        needed, allowed = result[f"{key}_needed_mib"], result[f"{key}_allowed_mib"]
        print(f"memory        {needed} MiB needed {who}, {allowed} MiB allowed")
    print(f"disk          {result['disk_needed_mib']} MiB needed, {result['disk_free_mib']} MiB free")
    print(f"time          about {result['seconds']:.0f} s")


@app.command()
def widths(
    table: TablePath,
    floor: Floor = 0,
    out: Annotated[Path | None, typer.Option(help="Write them to this Parquet or CSV file as well.")] = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = 2,
    workers: Workers = 1,
    as_json: Json = False,
) -> None:
    """Critical widths of the sub-tables, most dangerous first."""
    from sdc.model import subtable as st
    from sdc.risk.critical_width import critical_widths

    _require_suffix(out)
    data = _read(table, variables, structural_zeros)
    with _executor(workers) as executor:
        found = critical_widths(data, small_count=small_count, floor=floor, executor=executor)
    pairs = list(zip(found.sub_tables.tolist(), found.widths.tolist(), strict=True))[::-1]
    if out is not None:
        _write_widths(out, [st.label(t, data.schema) for t, _ in pairs], [w for _, w in pairs])
    if as_json:
        _print_json(
            {
                "variables": list(data.schema.names),
                "records": data.total,
                "at_risk_cells": len(data.at_risk(small_count)),
                "widths": [{"sub_table": st.names(t, data.schema), "critical_width": w} for t, w in pairs],
            }
        )
        return
    print("critical_width  sub_table")
    for subtable, width in pairs:
        print(f"{width:14}  {st.label(subtable, data.schema)}")


@app.command()
def bounds(
    table: TablePath,
    release: ReleaseOption,
    cells: Annotated[str, typer.Option(help="at-risk or all")] = "at-risk",
    method: Annotated[str, typer.Option(help="auto, or the name of a method")] = "auto",
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = 2,
    workers: Workers = 1,
    as_json: Json = False,
) -> None:
    """Bounds of each cell, given a release."""
    from sdc import api
    from sdc.storage.results import cell_facts

    data = _read(table, variables, structural_zeros)
    with _executor(workers) as executor:
        found = api.cell_bounds(
            data,
            release,
            cells=cells,
            small_count=small_count,
            method=method,
            executor=executor,
        )
    rows = [
        {
            "cell": cell_facts(tuple(cell), data.schema),
            "count": count,
            "outer": outer,
            "inner": inner,
            "exact": exact,
        }
        for cell, count, outer, inner, exact in zip(
            found.cells.tolist(),
            found.counts.tolist(),
            found.outer.tolist(),
            found.inner.tolist(),
            found.exact.tolist(),
            strict=True,
        )
    ]
    if as_json:
        frontier = _frontier(api.release_of(data, release).frontier, data)
        _print_json({"release": frontier, "method": found.method, "cells": rows})
        return
    print(f"method {found.method}\n{'count':>9} {'outer':>17} {'inner':>17}  cell")
    for row in rows:
        ends = f"{row['count']:9} {row['outer']!s:>17} {row['inner']!s:>17}"
        print(f"{ends}  {' '.join(f'{name}={value}' for name, value in row['cell'].items())}")


@app.command()
def assess(
    table: TablePath,
    release: ReleaseOption,
    min_width: MinWidth,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = 2,
    workers: Workers = 1,
    as_json: Json = False,
) -> None:
    """Is a release safe, and which cells say so."""
    from sdc import api
    from sdc.storage.results import assessment_facts

    data = _read(table, variables, structural_zeros)
    with _executor(workers) as executor:
        answer = api.assess(data, release, min_width=min_width, small_count=small_count, executor=executor)
    facts = assessment_facts(answer, data.schema)
    if as_json:
        _print_json(facts)
        return
    print({True: "releasable", False: "not releasable", None: "undecided: treat as not releasable"}[answer.releasable])
    print(f"min width     {answer.min_width[0]} to {answer.min_width[1]}, required {min_width}")
    print(f"at-risk cells {answer.at_risk_cells}, undecided {answer.undecided_cells}")
    for witness in facts["witnesses"]:
        cell = " ".join(f"{name}={value}" for name, value in witness["cell"].items())
        print(f"witness       count {witness['count']} outer {list(witness['outer'])} {cell}")


@app.command()
def release(
    table: TablePath,
    method: Annotated[str, typer.Option(help="ordered, decomposable, or best: the better of both")],
    min_width: MinWidth,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the annealing; ordered needs none.")] = 0,
    chains: Annotated[int, typer.Option(min=1, max=1024, help="Annealing chains.")] = 4,
    steps: Annotated[int, typer.Option(min=1, help="Proposals of each annealing chain.")] = 200_000,
    start: Annotated[str | None, typer.Option(metavar="GRAPH", help="Anneal from this graph: '[a,b] [b,c]'.")] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=W", help="What a variable, or a sub-table a*b, counts instead of 1; once for each."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Publish the release in this new folder.")] = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = 2,
    workers: Workers = 1,
    as_json: Json = False,
) -> None:
    """Finds a release, and publishes it where a folder is given."""
    from sdc import api
    from sdc.build.describe import describe_round, say_step
    from sdc.search.best import require_method

    require_method(method)
    _require_new(out)
    weights = _weights(weight or [])
    data = _read(table, variables, structural_zeros)
    with _executor(workers) as executor:
        found = api.find_release(
            data,
            method,
            min_width=min_width,
            small_count=small_count,
            seed=seed,
            chains=chains,
            steps=steps,
            start=start,
            weights=weights,
            executor=executor,
            on_step=lambda step: say_step(step, lambda line: print(line, file=sys.stderr)),
            on_round=lambda state: print(describe_round(state), file=sys.stderr),
        )
    if out is not None:
        api.publish_release(data, found, out, title=Path(table).stem)
    facts = _release_facts(data, found, weights)
    if as_json:
        _print_json(facts)
        return
    _print_release(facts)
    print(f"min width     {found.assessment.min_width[0]} to {found.assessment.min_width[1]}, required {min_width}")
    print("utility       " + ", ".join(f"{name} {value}" for name, value in facts["utility"].items()))
    if found.reason is not None:
        print(f"reason        {found.reason}")


@app.command("enumerate")
def enumerate_command(
    table: TablePath,
    release: ReleaseOption,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop at so many tables.")] = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    as_json: Json = False,
) -> None:
    """Counts the integer tables that agree with a release."""
    from sdc import api

    found = api.enumerate_tables(_read(table, variables, structural_zeros), release, limit=limit)
    if as_json:
        _print_json({"feasible_tables": found.feasible_tables, "complete": found.complete})
        return
    print(f"{found.feasible_tables} feasible tables{'' if found.complete else ' and maybe more'}")


@app.command()
def verify(run_folder: RunFolderPath, as_json: Json = False) -> None:
    """Checks a build's claims from its table, its release and its certificate alone."""
    from sdc.verify import UnreadableError
    from sdc.verify import verify as verify_run

    try:
        found = verify_run(run_folder, lambda line: print(line, file=sys.stderr))
    except UnreadableError as error:
        raise RunFolderError(str(error)) from error
    if as_json:
        _print_json(
            {
                "run_folder": str(run_folder),
                "verified": found.verified,
                "at_risk_cells": found.at_risk_cells,
                "certified_cells": found.certified_cells,
                "differences": found.differences,
                "failures": found.failures,
                "uncertified": found.uncertified,
                "notes": found.notes,
            }
        )
    else:
        print(f"at-risk cells {found.at_risk_cells}, certified {found.certified_cells}")
        for line in (*found.uncertified, *found.notes):
            print(f"not certified {line}")
    if not found.verified:
        raise RunFolderError(f"{run_folder} is not verified: {_first(found.failures)}")


@app.command()
def status(run_folder: RunFolderPath, as_json: Json = False) -> None:
    """How far a build is: its stages, what is at work now, and why it ended."""
    from sdc.storage.runs import read_run

    facts = read_run(run_folder).status
    if as_json:
        _print_json(facts)
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
    if facts["error"]:
        print(f"ended with    {facts['error']}")


@app.command("list")
def list_command(folder: RunsPath = Path("runs"), as_json: Json = False) -> None:
    """The runs in a folder, by name, and what became of each."""
    from sdc.storage.runs import read_runs

    runs = [run.facts for run in read_runs(folder)]
    if as_json:
        _print_json({"folder": str(folder), "runs": runs})
        return
    print(f"{'name':24}{'digest':18}{'state':12}{'stages':>8}{'size':>12}  started")
    for run in runs:
        stages = f"{run['stages_done']} of {run['stages']}"
        size = _megabytes(run["size_bytes"])
        print(f"{run['name']:24}{run['digest']:18}{run['state']:12}{stages:>8}{size:>12}  {run['started']}")


@app.command()
def clean(
    folder: RunsPath = Path("runs"),
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="Of the runs with a release keep so many of each name, the newest; else all."),
    ] = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Remove runs without a release also where no later run has one.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it, only say which.")] = False,
    as_json: Json = False,
) -> None:
    """Removes runs without a release that a later release of the same name supersedes; says which, unless --yes."""
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
    if as_json:
        _print_json({"folder": str(folder), "removed": yes, "runs": facts, "size_bytes": size})
        return
    print(f"{len(facts)} runs, {_megabytes(size)}{'' if yes else '; --yes removes them'}")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _first(failures: tuple[str, ...], listed: int = 5) -> str:
    """The first of them, and how many more there are."""
    more = f"; and {len(failures) - listed} more" if len(failures) > listed else ""
    return f"{len(failures)} failed: {'; '.join(failures[:listed])}{more}"


def _read(path: str, variables: str | None, structural_zeros: Path | None) -> Table:
    from sdc.ingest.reading import read_table

    chosen = [name.strip() for name in variables.split(",")] if variables is not None else None
    table = read_table(path, variables=chosen, structural_zeros=structural_zeros)
    print(f"{path}: {table.total} records, {len(table)} non-zero of {table.schema.cells} cells", file=sys.stderr)
    return table


@contextmanager
def _executor(workers: int) -> Iterator[Executor]:
    from sdc.config import ExecutionConfig
    from sdc.execution.cluster import open_executor
    from sdc.progress import Progress, Watched

    execution = ExecutionConfig(cluster="in-process" if workers == 1 else "local", workers=workers)
    with Progress() as progress, open_executor(execution) as executor:
        yield Watched(executor, progress)


def _write_widths(path: Path, labels: list[str], values: list[int]) -> None:
    from sdc.storage.parquet import write_columns, write_csv

    columns: dict[str, list[Any]] = {"sub_table": labels, "critical_width": values}
    writers = {".parquet": write_columns, ".csv": write_csv}
    try:
        writers[path.suffix](path, columns)
    except OSError as error:
        raise ConfigError(f"--out {path} cannot be written: {error.strerror}; name another file") from error


def _require_suffix(out: Path | None) -> None:
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise ConfigError(f"--out {out}: the name must end in .parquet or .csv")


def _require_new(out: Path | None) -> None:
    """Before the work, what publication will ask after it."""
    from sdc.api import require_new

    if out is not None:
        try:
            require_new(out.absolute())
        except ConfigError as error:
            raise ConfigError(f"--out {error}") from error


def _weights(given: list[str]) -> dict[str, float]:
    """`age=2` by name; ConfigError for what is not written so, or given twice."""
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.partition("=")
        if not name or name in found:
            raise ConfigError(f"--weight {text}: give a name and a number, such as age=2, and each name once")
        try:
            found[name] = float(number)
        except ValueError as error:
            raise ConfigError(f"--weight {text}: {number!r} is no number; give one such as age=2") from error
    return found


def _release_facts(table: Table, found: FoundRelease, weights: dict[str, float]) -> dict[str, Any]:
    from sdc.api import weights_of
    from sdc.build.assemble import utility_of_release
    from sdc.storage.results import assessment_facts, graph_facts, release_facts

    graph = {} if found.graph is None else {"graph": graph_facts(found.graph, table.schema)}
    return {
        "method": found.method,
        **release_facts(found.release, table.schema),
        **({} if found.reason is None else {"reason": found.reason}),
        **graph,
        "utility": utility_of_release(table, found.release, weights_of(table, weights)).facts,
        "assessment": assessment_facts(found.assessment, table.schema),
    }


def _frontier(frontier: tuple[int, ...], table: Table) -> list[list[str]]:
    from sdc.model import subtable as st

    return [st.names(element, table.schema) for element in frontier]


def _print_release(facts: dict[str, Any]) -> None:
    print(f"released      {facts['sub_tables']} sub-tables and the grand total, all within:")
    for names in facts["frontier"]:
        print(f"              {'*'.join(names) or '(total)'}")


def _print_json(content: Any) -> None:
    print(json.dumps(content))


if __name__ == "__main__":
    main()
