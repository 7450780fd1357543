"""The command line: thin commands over the verbs; one JSON document on standard output, the rest on standard error."""

from __future__ import annotations

import math
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdc import __version__
from sdc.cli_builds import builds
from sdc.cli_config import configs
from sdc.cli_options import (
    NOT_RELEASABLE,
    Floor,
    Json,
    MaxAbove,
    MaxProbability,
    MinWidth,
    ReleaseOption,
    SmallCount,
    StructuralZeros,
    SubjectPath,
    Threshold,
    Variables,
    Workers,
    posterior_limit,
    print_bounds,
    print_json,
    print_posterior,
    print_release,
    print_required,
    status_of_release,
)
from sdc.cli_papers import papers
from sdc.cli_publication import publications
from sdc.cli_rules import rules
from sdc.cli_server import served
from sdc.cli_simulation import simulations
from sdc.model.errors import ConfigError
from sdc.paths import checked_path
from sdc.refusal import as_command
from sdc.search.capabilities import FORBID, LIMIT, MODEL, REQUIRE, is_model

if TYPE_CHECKING:
    from sdc.build.subject import Subject
    from sdc.executor import Executor
    from sdc.model.table import Table
    from sdc.search.best import FoundRelease

VERDICTS = {True: "releasable", False: "not releasable", None: "undecided: treat as not releasable"}
UNASKED_STEPS = 1 << 27  # of an enumeration without a limit: some seconds

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # which would take [a,b] for markup, and print nothing of it
    help="Decides which exact marginal tables may be published, proves it cell by cell, and publishes them.",
)
app.add_typer(builds)
app.add_typer(configs)
app.add_typer(papers)
app.add_typer(publications)
app.add_typer(rules)
app.add_typer(served)
app.add_typer(simulations)


def main() -> None:
    """Runs a command; 0 done, 1 refused or failed, 2 wrong usage, 3 nothing that may be released, 130 interrupted."""
    with as_command("--json" in sys.argv):
        app()


@app.callback()
def _common(version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False) -> None:
    if version:
        print(f"sdc {__version__}")
        raise typer.Exit


@app.command()
def widths(
    subject: SubjectPath,
    floor: Floor = 0,
    out: Annotated[
        Path | None,
        typer.Option(parser=checked_path, metavar="FILE", help="Write them to this Parquet or CSV file as well."),
    ] = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Critical widths of the sub-tables, most dangerous first."""
    from sdc.model import subtable as st
    from sdc.risk.critical_width import critical_widths

    _require_suffix(out)
    about = _read(subject, variables, structural_zeros, "widths")
    data, small_count = about.table, about.small_count(small_count)
    with _executor(subject, workers) as executor:
        found = critical_widths(data, small_count=small_count, floor=floor, executor=executor)
    pairs = list(found.by_sub_table().items())[::-1]
    if out is not None:
        _write_widths(out, [st.label(t, data.schema) for t, _ in pairs], [w for _, w in pairs])
    if as_json:
        print_json(
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
    subject: SubjectPath,
    release: ReleaseOption = None,
    cells: Annotated[list[str] | None, typer.Option(help="at-risk, the default, or all")] = None,
    method: Annotated[
        str | None, typer.Option(help="auto, the default, with what a run's certificate shows; or a method")
    ] = None,
    sharp: Annotated[
        bool,
        typer.Option("--sharp", help="Outer and inner ends brought together by all methods, from what a run shows on."),
    ] = False,
    seconds: Annotated[
        float | None, typer.Option(help="Of a reference core, for --sharp; default the config's, or 600.")
    ] = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Bounds of each cell, given a release."""
    from sdc.build.bounded import bounded
    from sdc.storage.results import bounds_facts

    which = _once("--cells", cells, "at-risk")
    _check_sharp(sharp, seconds, method)
    about = _read(subject, variables, structural_zeros, "bounds")
    held = about.public(release)
    with _executor(subject, workers) as executor:
        found, by = bounded(
            about,
            held,
            which,
            about.small_count(small_count),
            method=method or "auto",
            seconds=about.seconds_to_sharpen(seconds) if sharp else None,
            executor=executor,
            say=lambda line: print(line, file=sys.stderr),
        )
    facts = bounds_facts(held.release, found, by, about.table.schema)
    if as_json:
        print_json(facts)
    else:
        print_bounds(facts)


@app.command()
def assess(
    subject: SubjectPath,
    release: ReleaseOption = None,
    min_width: MinWidth = None,
    law: Annotated[str, typer.Option(help="Of the limits: released, uniform, saturated, or [a,b][b,c].")] = "released",
    threshold: Threshold = 0.5,
    max_above: MaxAbove = None,
    max_probability: MaxProbability = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Is a release safe, and which cells say so."""
    from sdc import api
    from sdc.model.sharpness import Sharpness
    from sdc.storage.results import assessment_facts

    limit = posterior_limit(law, threshold, max_above, max_probability)
    about = _read(subject, variables, structural_zeros, "assess", *((LIMIT,) if limit else ()))
    min_width, limit = about.min_width(min_width), about.limit(limit)
    data, small_count = about.table, about.small_count(small_count)
    with _executor(subject, workers) as executor:
        answer = api.assess(
            data,
            about.public(release),
            min_width=min_width,
            small_count=small_count,
            posterior_limit=limit,
            executor=executor,
        )
    if not release and (own := about.assessed(small_count)) is not None:
        answer = replace(answer, sharpness=Sharpness.of(*own))
    facts = assessment_facts(answer, data.schema)
    if as_json:
        print_json(facts)
        raise typer.Exit(0 if answer.releasable else NOT_RELEASABLE)
    print(VERDICTS[answer.releasable])
    print(f"min width     {answer.min_width[0]} to {answer.min_width[1]}, required {min_width}")
    print(f"at-risk cells {answer.at_risk_cells}, undecided {answer.undecided_cells}")
    if answer.sharpness is not None:
        print(f"sharp bounds  of the run: {answer.sharpness.text}")
    if answer.likely is not None:
        print(f"likely        {answer.likely.text}")
    for witness in facts["witnesses"]:
        cell = " ".join(f"{name}={value}" for name, value in witness["cell"].items())
        print(f"witness       count {witness['count']} outer {list(witness['outer'])} {cell}")
    raise typer.Exit(0 if answer.releasable else NOT_RELEASABLE)


@app.command("why")
def why_command(
    subject: SubjectPath,
    sub_table: Annotated[str, typer.Argument(metavar="SUB_TABLE", help="Such as 'age*race'.")],
    release: ReleaseOption = None,
    min_width: MinWidth = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    redesign: Annotated[
        bool, typer.Option("--redesign", help="Where it is not: at which coarser levels of hierarchies it may be.")
    ] = False,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Why a sub-table is released or not. Of a table or config without --release, beside the one-way sub-tables."""
    from sdc import api
    from sdc.storage.results import reason_facts

    about = _read(subject, variables, structural_zeros, "redesign" if redesign else "why")
    min_width, limit, count = about.min_width(min_width), about.limit(None), about.small_count(small_count)
    held = about.public(release) if release or about.released is not None else about.one_way
    if held == about.one_way:
        print("judged beside the one-way sub-tables; no release was searched", file=sys.stderr)
    with _executor(subject, workers) as executor:
        found = api.why(
            about.table,
            held,
            sub_table,
            min_width=min_width,
            small_count=count,
            posterior_limit=limit,
            forbid=about.forbid,
            executor=executor,
        )
        instead = None
        if redesign and not found.released:
            instead = api.redesign(
                about.table, held, sub_table, min_width=min_width, small_count=count, executor=executor
            )
    facts = reason_facts(found, about.table.schema)
    if redesign:
        facts["redesign"] = None if instead is None else instead.facts(about.table.schema)
    if as_json:
        print_json(facts)
        return
    print(facts["text"])
    print(f"critical width {facts['critical_width']}, required {min_width}")
    for what in ("alone", "one_way", "together"):
        answer = facts[what]
        print(f"{what:14} {VERDICTS[answer['releasable']]}, min width {list(answer['min_width'])}")
    if (witness := found.witness) is not None:
        cell = " ".join(f"{name}={value}" for name, value in about.table.schema.named(witness.cell).items())
        print(f"witness        count {witness.count} outer {list(witness.outer)} {cell}")
    if instead is not None:
        told = instead.facts(about.table.schema)
        print(f"instead        {'*'.join(told['sub_table'])}, {told['cells']} cells, {told['lost']} fewer")
        print(f"to be pasted   {told['config']}")
    elif redesign and not found.released:
        print("instead        nothing coarser may go out either; declare hierarchies under table, or merge categories")


@app.command()
def release(
    subject: SubjectPath,
    method: Annotated[
        str | None,
        typer.Option(help="ordered, bisection, decomposable, best of two, or simulatable: refusals tell nothing"),
    ] = None,
    min_width: MinWidth = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of annealing and draws.")] = None,
    chains: Annotated[int | None, typer.Option(min=1, max=1024, help="Annealing chains.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Proposals of each annealing chain.")] = None,
    start: Annotated[str | None, typer.Option(metavar="GRAPH", help="Anneal from this graph: '[a,b] [b,c]'.")] = None,
    draws: Annotated[int | None, typer.Option(min=1, help="Tables drawn for each decision of simulatable.")] = None,
    share: Annotated[float | None, typer.Option(help="Of these draws, how many may break the criterion.")] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=W", help="What a variable, or a sub-table a*b, counts instead of 1; once for each."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="SUB_TABLE", help="What the release must have: a*b, all:2, or a*b*c:2; once for each."),
    ] = None,
    forbid: Annotated[
        list[str] | None, typer.Option(metavar="SUB_TABLE", help="What it must not have, nor what contains it.")
    ] = None,
    best_subset: Annotated[
        bool, typer.Option("--best-subset", help="Where the required do not fit together, those worth most.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(parser=checked_path, metavar="FOLDER", help="Publish the release in this new folder.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Of what is published; the folder's name by default.")] = None,
    threshold: Threshold = 0.5,
    max_above: MaxAbove = None,
    max_probability: MaxProbability = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Finds a release, and publishes it where a folder is given."""
    from sdc import api
    from sdc.build.describe import describe_round, describe_simulated, say_step
    from sdc.search.best import require_method

    if method is not None:
        require_method(method)
    _require_new(out)
    weights = _numbers(weight or [], "--weight", "age=2")
    limit = posterior_limit("released", threshold, max_above, max_probability)
    wished = {LIMIT: limit, REQUIRE: require, FORBID: forbid}
    asked = [*([] if method is None else [method]), *(name for name, value in wished.items() if value)]
    about = _read(subject, variables, structural_zeros, "release" if out is None else "publish", *asked)
    method, min_width, limit = about.method(method), about.min_width(min_width), about.limit(limit)
    given = {"seed": seed, "chains": chains, "steps": steps, "start": start, "draws": draws, "share": share}
    named = {"require": require, "forbid": forbid, "best_subset": best_subset or None}
    settings = about.search(method, {**given, **named}, weights)
    data, small_count = about.table, about.small_count(small_count)
    if out is not None and about.build is not None:
        about.build.check_names(about.known)
    with _executor(subject, workers) as executor:
        found = api.find_release(
            data,
            about.known,
            method,
            min_width=min_width,
            small_count=small_count,
            posterior_limit=limit,
            **settings,
            executor=executor,
            on_step=lambda step: say_step(step, lambda line: print(line, file=sys.stderr)),
            on_round=lambda state: print(describe_round(state), file=sys.stderr),
            on_simulated=lambda step: print(describe_simulated(step, data.schema), file=sys.stderr),
        )
    facts = _release_facts(data, found, settings["weights"])
    if out is not None:
        own = {"title": out.absolute().name, **about.publication, **({"title": title} if title else {})}
        facts["published"] = api.publish_release(data, found, out, **own)
    if as_json:
        print_json(facts)
        raise typer.Exit(status_of_release(facts))
    print_release(facts)
    print(f"min width     {found.assessment.min_width[0]} to {found.assessment.min_width[1]}, required {min_width}")
    if found.assessment.likely is not None:
        print(f"likely        {found.assessment.likely.text}")
    print("utility       " + ", ".join(f"{name} {value}" for name, value in facts["utility"].items()))
    if found.reason is not None:
        print(f"reason        {found.reason}")
    if found.required is not None:
        print_required(facts["required"])
    if out is not None:
        print(f"published     {out}, {facts['published']}")
    raise typer.Exit(status_of_release(facts))


@app.command("enumerate")
def enumerate_command(
    subject: SubjectPath,
    release: ReleaseOption = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Stop at so many tables, default after some seconds.")
    ] = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    as_json: Json = False,
) -> None:
    """Counts the integer tables that agree with a release. An interrupt ends it with what is known."""
    from sdc import api
    from sdc.progress import Nodes

    steps, about = UNASKED_STEPS if limit is None else None, _read(subject, variables, structural_zeros, "enumerate")
    with _ended_by_interrupt() as ended:
        watch = Nodes(lambda text: print(text, file=sys.stderr, flush=True), ended)
        held = about.public(release)
        found = api.enumerate_tables(about.table, held, limit=limit, max_steps=steps, watch=watch)
    if ended.is_set():
        print("interrupted: this is what is known so far", file=sys.stderr)
    elif limit is None and not found.complete:
        print("the search was left after some seconds; give --limit to have it go on", file=sys.stderr)
    if as_json:
        print_json({"feasible_tables": found.feasible_tables, "complete": found.complete})
        return
    print(f"{found.feasible_tables} feasible tables{'' if found.complete else ' and maybe more'}")


@contextmanager
def _ended_by_interrupt() -> Iterator[threading.Event]:
    """An event that the first interrupt sets; the second one is an interrupt like any other."""
    ended, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def end(number: int, frame: Any) -> None:
        ended.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, end)
    try:
        yield ended
    finally:
        signal.signal(signal.SIGINT, before)


@app.command("posterior")
def posterior_command(
    subject: SubjectPath,
    release: ReleaseOption = None,
    law: Annotated[
        str,
        typer.Option(
            help="released, uniform, saturated, a model such as [a,b][b,c], or average: of the laws under --prior, by "
            "their prior and how probable each makes the release."
        ),
    ] = "released",
    alpha: Annotated[float, typer.Option(help="Of the prior, for each cell of the full table.")] = 0.5,
    prior: Annotated[
        list[str] | None,
        typer.Option(metavar="LAW=P", help="A law of an average, with its prior probability; once for each."),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="A cell is identified where its true count is its most probable one, and above this.")
    ] = 0.9,
    share: Annotated[
        float, typer.Option(help="Of a released group: a cell with as much discloses its categories; 1 is all.")
    ] = 1.0,
    cells: Annotated[str, typer.Option(help="at-risk or all")] = "at-risk",
    draws: Annotated[int, typer.Option(help="Draws of each chain, where there is no exact law.")] = 1000,
    chains: Annotated[int, typer.Option(help="Markov chains, where there is no exact law.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the chains.")] = 0,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """What a release makes likely, beside what it leaves possible."""
    from sdc import api
    from sdc.intruder.measures import check_share, check_threshold
    from sdc.storage.results import posterior_facts

    check_threshold(threshold)
    check_share(share)
    priors = _numbers(prior or [], "--prior", "saturated=0.5")
    about = _read(
        subject, variables, structural_zeros, "posterior", *((MODEL,) if any(map(is_model, [law, *priors])) else ())
    )
    data, small_count = about.table, about.small_count(small_count)
    with _executor(subject, workers) as executor:
        found = api.posterior(
            data,
            about.public(release),
            law=law,
            alpha=alpha,
            priors=priors,
            cells=cells,
            small_count=small_count,
            draws=draws,
            chains=chains,
            seed=seed,
            share=share,
            executor=executor,
        )
        bounded = api.cell_bounds(data, about.public(release), cells=cells, small_count=small_count, executor=executor)
    facts = posterior_facts(found, bounded, data.schema, threshold)
    if as_json:
        print_json(facts)
        return
    print_posterior(facts)


def _read(path: str, variables: str | None, structural_zeros: Path | None, *asked: str) -> Subject:
    from sdc.build.subject import Subject

    chosen = [name.strip() for name in variables.split(",")] if variables is not None else None
    subject = Subject.open(path, chosen, structural_zeros, asked=asked)
    table = subject.table
    print(f"{path}: {table.total} records, {len(table)} non-zero of {table.schema.cells} cells", file=sys.stderr)
    return subject


@contextmanager
def _executor(path: str, workers: int | None) -> Iterator[Executor]:
    """Who works on what a command is about: the cluster of a config, unless so many workers here are asked for."""
    from sdc.config import ExecutionConfig
    from sdc.config_file import read_config
    from sdc.execution.cluster import open_executor
    from sdc.progress import Progress, Watched

    if workers is None and path.endswith((".yaml", ".yml")):
        execution = read_config(path).execution
    else:
        execution = ExecutionConfig(cluster="in-process" if workers in (None, 1) else "local", workers=workers or 1)
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


def _once(option: str, given: list[str] | None, default: str) -> str:
    """What is given, or the default; ConfigError where it is given twice."""
    if len(given or ()) > 1:
        raise ConfigError(f"{option} is given {len(given or ())} times: {', '.join(given or ())}; give it once")
    return (given or [default])[0]


def _check_sharp(sharp: bool, seconds: float | None, method: str | None) -> None:
    """ConfigError where options for sharp bounds do not fit each other."""
    if sharp and method is not None:
        raise ConfigError(f"--sharp with --method {method}: sharp bounds are by all methods; leave one out")
    if seconds is not None and not sharp:
        raise ConfigError(f"--seconds {seconds:g} is for sharp bounds; add --sharp, or leave it out")
    if seconds is not None and not 0 < seconds < math.inf:
        raise ConfigError(f"--seconds {seconds:g}: sharp bounds have a budget; give a number of seconds above 0")


def _numbers(given: list[str], option: str, example: str) -> dict[str, float]:
    """`age=2` by name; ConfigError for what is not written so, or given twice."""
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.partition("=")
        if not name or name in found:
            raise ConfigError(f"{option} {text}: give a name and a number, such as {example}, and each name once")
        try:
            found[name] = float(number)
        except ValueError as error:
            raise ConfigError(f"{option} {text}: {number!r} is no number; give one such as {example}") from error
    return found


def _release_facts(table: Table, found: FoundRelease, weights: dict[str, float]) -> dict[str, Any]:
    from sdc.api import weights_of
    from sdc.build.assemble import utility_of_release
    from sdc.storage.results import assessment_facts, graph_facts, release_facts, required_facts

    graph = {} if found.graph is None else {"graph": graph_facts(found.graph, table.schema)}
    return {
        "method": found.method,
        **release_facts(found.release, table.schema),
        **({} if found.reason is None else {"reason": found.reason}),
        **({} if found.required is None else {"required": required_facts(found.required, table.schema)}),
        **graph,
        "utility": utility_of_release(table, found.judgement.knowledge, weights_of(table, weights)).facts,
        "assessment": assessment_facts(found.assessment, table.schema),
    }


if __name__ == "__main__":
    main()
