"""Commands that ask of a table: critical widths, bounds, feasible tables, what is likely."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdc.commands.options import (
    INSPECT,
    TABLE,
    Answer,
    ReleaseOption,
    Settings,
    SubjectPath,
    command,
    file_option,
    named,
    require_columns_file,
    say,
    write_columns_file,
)
from sdc.commands.subject import executor_of, read_subject, read_subject_or_incomplete
from sdc.config.capabilities import MODEL, is_model
from sdc.model.errors import ConfigError
from sdc.refusal import first_interrupt

if TYPE_CHECKING:
    from sdc.bounds.enumeration import Enumeration

UNASKED_STEPS = 1 << 27  # of an enumeration without a limit: some seconds


@command(INSPECT, *TABLE, "widths.threshold")
def widths(
    subject: SubjectPath,
    settings: Settings,
    out: Annotated[Path | None, file_option("Write them to this Parquet or CSV file as well.", "--out")] = None,
) -> Answer:
    """List critical widths, the most dangerous sub-table first.

    Of a table with more than 20 variables, only the widest sub-tables are listed.
    """
    from sdc.model import subtable as st
    from sdc.risk.critical_width import critical_widths
    from sdc.stages.assemble import Listing

    require_columns_file(out)
    about = read_subject(subject, settings, "widths")
    data, small, floor = about.table, about.small_count, about.config.widths.threshold or 0
    with executor_of(about) as executor:
        most = Listing.of(about.config.widths, len(data.schema), floor).most
        found = critical_widths(data, small_count=small, floor=floor, most=most, executor=executor)
    cut = found.cut(1)
    pairs = list(found.by_sub_table().items())[::-1]
    labels, values = [st.label(t, data.schema) for t, _ in pairs], [w for _, w in pairs]
    write_columns_file(out, lambda: {"sub_table": labels, "critical_width": values})
    facts = {
        "variables": list(data.schema.names),
        "records": data.total,
        "at_risk_cells": len(data.at_risk(small)),
        **({"cut": cut} if cut else {}),
        "widths": [{"sub_table": st.names(t, data.schema), "critical_width": w} for t, w in pairs],
    }

    def show() -> None:
        if cut:
            say(cut)
        print("critical_width  sub_table")
        for label, width in zip(labels, values, strict=True):
            print(f"{width:14}  {label}")

    return Answer(facts, show)


@command(INSPECT, *TABLE, "sharp_seconds")
def bounds(
    subject: SubjectPath,
    settings: Settings,
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
) -> Answer:
    """Compute bounds of cells, or of sums of cells, given a release."""
    from sdc.bounds.super_cells import FRACTIONAL
    from sdc.model.sharpness import SHARP_SECONDS, bounds_facts
    from sdc.model.super_cell import super_cell_facts
    from sdc.public.incomplete import Incomplete
    from sdc.stages.answers import bounded, super_cells

    if sharp and method is not None:
        raise ConfigError(f"--sharp with --method {method}: sharp bounds are by all methods; leave one out")
    if "sharp_seconds" in settings and not sharp:
        raise ConfigError("--seconds is for sharp bounds; add --sharp, or leave it out")
    if "sharp_seconds" in settings:
        settings = {"assessment": "sharp", **settings}
    which = _asked_cells(cells)
    if fractional or isinstance(which, list):
        _check_of_sums(sharp, fractional, method)
    about = read_subject_or_incomplete(subject, settings, release, "bounds")
    if isinstance(about, Incomplete):
        if sharp or method is not None:
            raise ConfigError("bounds of a table whose counts are not all told are by one solver; leave out the method")
        told = about.bounds(which, small_count=settings.get("risk.small_count", 2), fractional=fractional)
        facts = super_cell_facts(None, told, about.schema)
    else:
        held, small = about.public(release), about.small_count
        budget = about.config.sharp_seconds or SHARP_SECONDS if sharp else None
        with executor_of(about) as executor:
            if fractional or isinstance(which, list):
                sums = super_cells(about.table, held, which, small, FRACTIONAL if fractional else method, executor)
                facts = super_cell_facts(held.release, sums, about.table.schema)
            else:
                how: dict[str, Any] = {"method": method or "auto", "seconds": budget}
                found = bounded(about, held, which, small, **how, executor=executor, say=say)
                facts = bounds_facts(held.release, *found, about.table.schema)
    return Answer(facts, lambda: _print_bounds(facts))


@command(INSPECT, "table.variables", name="enumerate")
def enumerate_command(
    subject: SubjectPath,
    settings: Settings,
    release: ReleaseOption = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Stop at so many tables, default after some seconds.")
    ] = None,
) -> Answer:
    """Count the integer tables that agree with a release.

    After an interrupt, the command reports what it has counted so far.
    """
    from sdc import api
    from sdc.progress import Nodes
    from sdc.public.incomplete import Incomplete

    steps = UNASKED_STEPS if limit is None else None
    about = read_subject_or_incomplete(subject, settings, release, "enumerate")
    search: Callable[..., Enumeration] = (
        about.tables
        if isinstance(about, Incomplete)
        else partial(api.enumerate_tables, about.table, about.public(release))
    )
    ended = threading.Event()
    with first_interrupt(ended.set, "the search ends with what is known so far"):
        watch = Nodes(say, ended)
        found = search(limit=limit, max_steps=steps, watch=watch)
    if ended.is_set():
        say("interrupted: this is what is known so far")
    elif limit is None and not found.complete:
        say("the search was left after some seconds; give --limit to have it go on")
    said = f"{found.feasible_tables} feasible tables{'' if found.complete else ' and maybe more'}"
    return Answer({"feasible_tables": found.feasible_tables, "complete": found.complete}, lambda: print(said))


@command(INSPECT, *TABLE, name="posterior")
def posterior_command(
    subject: SubjectPath,
    settings: Settings,
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
    cells: Annotated[str, typer.Option(help="at-risk or all")] = "at-risk",
) -> Answer:
    """Compute what an intruder holds likely, given a release.

    How, and from what probability on a cell counts as identified, is as `posterior` of a config says, or --set.
    """
    from sdc import api
    from sdc.config.analysis import PosteriorConfig
    from sdc.intruder.posterior import posterior_facts

    priors = _numbers_by_name(prior or [])
    asked = [MODEL] * any(map(is_model, [law, *priors]))
    about = read_subject(subject, settings, "posterior", *asked, named={"--release": release})
    data, small = about.table, about.small_count
    how = about.config.posterior or PosteriorConfig()
    with executor_of(about) as executor:
        found = api.posterior(
            data,
            about.public(release),
            law=law,
            alpha=alpha,
            priors=priors,
            cells=cells,
            small_count=small,
            draws=how.draws,
            chains=how.chains,
            seed=how.seed,
            error=how.error,
            most=max(how.draws, how.most_draws),
            share=how.share,
            executor=executor,
        )
        bounded = api.cell_bounds(data, about.public(release), cells=cells, small_count=small, executor=executor)
    facts = posterior_facts(found, bounded, data.schema, how.threshold, about.losses)
    return Answer(facts, lambda: _print_posterior(facts))


def _numbers_by_name(given: list[str]) -> dict[str, float]:
    """`saturated=0.5` by name; ConfigError for what is not written so, or given twice."""
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.partition("=")
        if not name or name in found:
            raise ConfigError(f"--prior {text}: give a name and a number, such as saturated=0.5, and each name once")
        try:
            found[name] = float(number)
        except ValueError as error:
            raise ConfigError(f"--prior {text}: {number!r} is no number; give one such as saturated=0.5") from error
    return found


def _once(option: str, given: list[str] | None, default: str) -> str:
    """What is given, or the default; ConfigError where it is given twice."""
    if len(given or ()) > 1:
        raise ConfigError(f"{option} is given {len(given or ())} times: {', '.join(given or ())}; give it once")
    return (given or [default])[0]


def _asked_cells(given: list[str] | None) -> str | list[str]:
    """At-risk cells, the default, or all; or a list, where super-cells are among them; ConfigError as `_once`."""
    from sdc.model.super_cell import is_written

    return given if given and any(map(is_written, given)) else _once("--cells", given, "at-risk")


def _check_of_sums(sharp: bool, fractional: bool, method: str | None) -> None:
    """ConfigError where options do not fit bounds of super-cells, or over tables of fractions."""
    if sharp:
        raise ConfigError("--sharp is of whole counts of single cells; leave it out, or --fractional and super-cells")
    if fractional and method is not None:
        raise ConfigError(f"--fractional with --method {method}: they are by a linear program; leave one out")


def _print_bounds(facts: dict[str, Any]) -> None:
    """A cell a line, and where it is known by which methods the ends are, with these; then how many are sharp."""
    by = any("outer_by" in row for row in facts["cells"])
    methods = f"  {'bounds':9}  {'lower by':32}  {'upper by':32}" * by
    print(f"method {facts['method']}\n{'count':>9} {'outer':>17} {'inner':>17}{methods}  cell")
    for row in facts["cells"]:
        within, reached = (f"[{', '.join(map(str, row[kind]))}]" for kind in ("outer", "inner"))
        count = "" if row["count"] is None else row["count"]
        ends = f"{count:9} {within:>17} {reached:>17}{_ends_by(row) if by else ''}"
        print(f"{ends}  {named({name: _one_of(own) for name, own in row['cell'].items()}) or '(total)'}")
    if "text" in facts.get("sharpness", {}):
        print(f"{facts['sharpness']['text']}")


def _one_of(categories: str | list[str]) -> str:
    return categories if isinstance(categories, str) else " or ".join(categories)


def _ends_by(row: dict[str, Any]) -> str:
    """Of each end the method that gave the outer one, and that by which the inner one is reached."""
    ends = (f"{outer}, {inner}" for outer, inner in zip(row["outer_by"], row["inner_by"], strict=True))
    return f"  {'sharp' if row['exact'] else 'bracketed':9}  " + "  ".join(f"{end:32}" for end in ends)


def _print_posterior(facts: dict[str, Any]) -> None:
    """Most probable to be known first, whatever their bounds."""
    from sdc.intruder.chains import written_error, written_r_hat

    tables, same = facts["feasible_tables"], facts["equals_released"] and facts["law"] != "released"
    print(f"law           {facts['law']}{', which is released here: all that it says is public' if same else ''}")
    if tables == 1:
        print("              one table alone agrees with the release: it is known, and the posterior is a point")
    exact = "exact" if facts["exact"] else "sampled"
    print(f"engine        {facts['engine']}, {exact}" + (f"; {tables} feasible tables" if tables is not None else ""))
    if facts["exact"]:
        uniform = facts["log_probability_if_uniform"]
        alike = "" if uniform is None else f"; of each table, were they all alike, {uniform:.4f}"
        print(f"true table    log probability {facts['log_probability_of_true_table']:.4f}{alike}")
    else:
        told = facts["diagnostics"]
        print(
            f"chains        {told['chains']} of {told['draws']} draws; R-hat {written_r_hat(told['r_hat'])}, effective "
            f"sample size from {told['effective_sample_size']:.0f}; connectivity {told['connectivity']}"
        )
        print(f"errors        {written_error(told['error'], told['wanted'])}")
    for model in facts["models"]:
        error = "" if model["standard_error"] is None else f", standard error {model['standard_error']:.4f}"
        print(f"model         {model['law']}: prior {model['prior']:g}, posterior {model['posterior']:.4f}{error}")
    identified = facts["identified"]
    if facts["models"]:
        print(
            "              each weighed by its prior and how probable it makes the release: see the theory in sdc docs"
        )
    least = f"{identified['threshold']:g}"
    print(
        f"identified    {identified['fraction']:.4f} of the cells: the true count is the most probable, above {least}"
    )
    print(
        f"above         {facts['above']['fraction']:.4f} of the cells have a true count of a probability above {least}"
    )
    bounds = facts["bounds"]
    print(
        f"bounds        {bounds['known']} cells have one count left, total width {bounds['total_width']}"
        f"{'' if bounds['sharp'] else ', by outer bounds'}"
    )
    if facts["entropy"] is not None:
        print(f"entropy       {facts['entropy']:.4f} of the law of the tables")
    if (losses := facts["losses"]) is not None:
        claims = losses["claims"]
        print(
            f"losses        an intruder's {claims['right']} right and {claims['wrong']} wrong claims cost "
            f"{losses['disclosure_risk']:.4f} a cell"
        )
    held = facts["attribute_disclosure"]
    print(
        f"groups        {held['above_threshold']} cells hold {_share(held['share'])} of a released one, above "
        f"{least}; {held['certain']} certainly do, {held['impossible']} cannot"
    )
    names = "count", "probability", "most likely", "probability", "bounds", "of group", "group", "cell"
    print("{:>9} {:>11} {:>11} {:>11} {:>17} {:>11}  {}  {}".format(*names))
    rows = [_told(row) for row in facts["cells"]]
    for row in sorted(rows, key=lambda row: -row[1]):
        print("{:9} {:11.4f} {:11} {:11.4f} {!s:>17} {:11.4f}  {}  {}".format(*row))


def _share(share: float) -> str:
    return "all" if share == 1 else f"at least {share:g}"


def _told(row: dict[str, Any]) -> tuple[int, float, int, float, list[int], float, str, str]:
    found, first = row["probabilities"], row["from"]
    highest = max(range(len(found)), key=found.__getitem__)
    at_truth = found[row["count"] - first] if 0 <= row["count"] - first < len(found) else 0.0
    held, group = row["group"]["probability"], "*".join(row["group"]["sub_table"]) or "(total)"
    return row["count"], at_truth, first + highest, found[highest], row["outer"], held, group, named(row["cell"])
