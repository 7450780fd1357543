"""Commands that ask of a table: critical widths, bounds, feasible tables, what is likely."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdc.commands.asked import executor_of, losses_of, numbers_by_name, read_subject, read_subject_or_incomplete
from sdc.commands.options import (
    Floor,
    Json,
    LossOption,
    ReleaseOption,
    SmallCount,
    StructuralZeros,
    SubjectPath,
    Variables,
    Workers,
    print_bounds,
    print_json,
    print_posterior,
    require_columns_file,
    write_columns_file,
)
from sdc.commands.panels import INSPECT
from sdc.config.capabilities import MODEL, is_model
from sdc.model.errors import ConfigError
from sdc.paths import checked_path
from sdc.refusal import first_interrupt

if TYPE_CHECKING:
    from sdc.bounds.enumeration import Enumeration

tables = typer.Typer()
UNASKED_STEPS = 1 << 27  # of an enumeration without a limit: some seconds


@tables.command(rich_help_panel=INSPECT)
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
    """List critical widths, the most dangerous sub-table first.

    Of a table with more than 20 variables, only the widest sub-tables are listed.
    """
    from sdc.config.analysis import WidthsConfig
    from sdc.model import subtable as st
    from sdc.risk.critical_width import critical_widths
    from sdc.stages.assemble import Listing

    require_columns_file(out)
    about = read_subject(subject, variables, structural_zeros, "widths")
    data, small_count = about.table, about.small_count(small_count)
    with executor_of(subject, workers) as executor:
        most = Listing.of(WidthsConfig(floor=floor or None), len(data.schema), floor).most
        found = critical_widths(data, small_count=small_count, floor=floor, most=most, executor=executor)
    cut = found.cut(1)
    pairs = list(found.by_sub_table().items())[::-1]
    if out is not None:
        labels, values = [st.label(t, data.schema) for t, _ in pairs], [w for _, w in pairs]
        write_columns_file(out, {"sub_table": labels, "critical_width": values})
    if as_json:
        print_json(
            {
                "variables": list(data.schema.names),
                "records": data.total,
                "at_risk_cells": len(data.at_risk(small_count)),
                **({"cut": cut} if cut else {}),
                "widths": [{"sub_table": st.names(t, data.schema), "critical_width": w} for t, w in pairs],
            }
        )
        return
    if cut:
        print(cut, file=sys.stderr)
    print("critical_width  sub_table")
    for subtable, width in pairs:
        print(f"{width:14}  {st.label(subtable, data.schema)}")


@tables.command(rich_help_panel=INSPECT)
def bounds(
    subject: SubjectPath,
    release: ReleaseOption = None,
    cells: Annotated[
        list[str] | None,
        typer.Option(
            help="at-risk, the default, or all; or a super-cell, the sum of several, such as 'age in (young, old), "
            "sex=f'; once for each."
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="auto, the default, with what a run's certificate shows; or a method")
    ] = None,
    fractional: Annotated[
        bool, typer.Option("--fractional", help="Bounds over tables of fractions, which linear programs have.")
    ] = False,
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
    """Compute bounds of cells, or of sums of cells, given a release."""
    from sdc.bounds.super_cells import FRACTIONAL
    from sdc.model.sharpness import bounds_facts
    from sdc.model.super_cell import super_cell_facts
    from sdc.public.incomplete import Incomplete
    from sdc.stages.answers import bounded, super_cells

    _check_sharp(sharp, seconds, method)
    which = _asked_cells(cells)
    if fractional or isinstance(which, list):
        _check_of_sums(sharp, fractional, method)
    about = read_subject_or_incomplete(subject, variables, structural_zeros, release, "bounds")
    if isinstance(about, Incomplete):
        if sharp or method is not None:
            raise ConfigError("bounds of a table whose counts are not all told are by one solver; leave out the method")
        told = about.bounds(which, small_count=small_count or 2, fractional=fractional)
        facts = super_cell_facts(None, told, about.schema)
    else:
        held, small = about.public(release), about.small_count(small_count)
        budget = about.seconds_to_sharpen(seconds) if sharp else None
        with executor_of(subject, workers) as executor:
            if fractional or isinstance(which, list):
                sums = super_cells(about.table, held, which, small, FRACTIONAL if fractional else method, executor)
                facts = super_cell_facts(held.release, sums, about.table.schema)
            else:
                found = bounded(
                    about, held, which, small, method=method or "auto", seconds=budget, executor=executor, say=_say
                )
                facts = bounds_facts(held.release, *found, about.table.schema)
    if as_json:
        print_json(facts)
    else:
        print_bounds(facts)


@tables.command("enumerate", rich_help_panel=INSPECT)
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
    """Count the integer tables that agree with a release.

    After an interrupt, the command reports what it has counted so far.
    """
    from sdc import api
    from sdc.progress import Nodes
    from sdc.public.incomplete import Incomplete

    steps = UNASKED_STEPS if limit is None else None
    about = read_subject_or_incomplete(subject, variables, structural_zeros, release, "enumerate")
    search: Callable[..., Enumeration] = (
        about.tables
        if isinstance(about, Incomplete)
        else partial(api.enumerate_tables, about.table, about.public(release))
    )
    ended = threading.Event()
    with first_interrupt(ended.set, "the search ends with what is known so far"):
        watch = Nodes(lambda text: print(text, file=sys.stderr, flush=True), ended)
        found = search(limit=limit, max_steps=steps, watch=watch)
    if ended.is_set():
        print("interrupted: this is what is known so far", file=sys.stderr)
    elif limit is None and not found.complete:
        print("the search was left after some seconds; give --limit to have it go on", file=sys.stderr)
    if as_json:
        print_json({"feasible_tables": found.feasible_tables, "complete": found.complete})
        return
    print(f"{found.feasible_tables} feasible tables{'' if found.complete else ' and maybe more'}")


@tables.command("posterior", rich_help_panel=INSPECT)
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
    loss: LossOption = None,
    share: Annotated[
        float, typer.Option(help="Of a released group: a cell with as much discloses its categories; 1 is all.")
    ] = 1.0,
    cells: Annotated[str, typer.Option(help="at-risk or all")] = "at-risk",
    draws: Annotated[int, typer.Option(help="Draws of each chain, where there is no exact law.")] = 1000,
    chains: Annotated[int, typer.Option(help="Markov chains, where there is no exact law.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the chains.")] = 0,
    error: Annotated[
        float, typer.Option(help="Longer chains are made until no probability has a larger standard error than this.")
    ] = 0.005,
    most_draws: Annotated[
        int, typer.Option(min=1, help="Draws of each chain at most, where it is made longer.")
    ] = 64_000,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Compute what an intruder holds likely, given a release."""
    from sdc import api
    from sdc.intruder.measures import check_share, check_threshold
    from sdc.intruder.posterior import posterior_facts

    check_threshold(threshold)
    check_share(share)
    losses = losses_of(loss)
    priors = numbers_by_name(prior or [], "--prior", "saturated=0.5")
    asked = [MODEL] * any(map(is_model, [law, *priors]))
    about = read_subject(subject, variables, structural_zeros, "posterior", *asked, named={"--release": release})
    data, small_count = about.table, about.small_count(small_count)
    with executor_of(subject, workers) as executor:
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
            error=error,
            most=max(draws, most_draws),
            share=share,
            executor=executor,
        )
        bounded = api.cell_bounds(data, about.public(release), cells=cells, small_count=small_count, executor=executor)
    facts = posterior_facts(found, bounded, data.schema, threshold, losses or about.losses)
    if as_json:
        print_json(facts)
        return
    print_posterior(facts)


def _once(option: str, given: list[str] | None, default: str) -> str:
    """What is given, or the default; ConfigError where it is given twice."""
    if len(given or ()) > 1:
        raise ConfigError(f"{option} is given {len(given or ())} times: {', '.join(given or ())}; give it once")
    return (given or [default])[0]


def _asked_cells(given: list[str] | None) -> str | list[str]:
    """At-risk cells, the default, or all; or a list, where super-cells are among them; ConfigError as `_once`."""
    from sdc.model.super_cell import is_written

    return given if given and any(map(is_written, given)) else _once("--cells", given, "at-risk")


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _check_of_sums(sharp: bool, fractional: bool, method: str | None) -> None:
    """ConfigError where options do not fit bounds of super-cells, or over tables of fractions."""
    if sharp:
        raise ConfigError("--sharp is of whole counts of single cells; leave it out, or --fractional and super-cells")
    if fractional and method is not None:
        raise ConfigError(f"--fractional with --method {method}: they are by a linear program; leave one out")


def _check_sharp(sharp: bool, seconds: float | None, method: str | None) -> None:
    """ConfigError where options for sharp bounds do not fit each other."""
    if sharp and method is not None:
        raise ConfigError(f"--sharp with --method {method}: sharp bounds are by all methods; leave one out")
    if seconds is not None and not sharp:
        raise ConfigError(f"--seconds {seconds:g} is for sharp bounds; add --sharp, or leave it out")
    if seconds is not None and not 0 < seconds < math.inf:
        raise ConfigError(f"--seconds {seconds:g}: sharp bounds have a budget; give a number of seconds above 0")
