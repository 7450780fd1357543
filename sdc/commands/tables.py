"""Commands about a table: critical widths, bounds, feasible tables, posterior, models of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from sdc.commands.options import (
    INSPECT,
    TABLE,
    CommandResult,
    InputPath,
    ReleaseOption,
    Settings,
    command,
    executor_of,
    file_option,
    named,
    read_input,
    read_input_or_incomplete,
    report,
    require_columns_file,
    say,
    write_columns_file,
)
from sdc.config.features import MODEL, is_model
from sdc.model.errors import ConfigError, many
from sdc.refusal import first_interrupt

if TYPE_CHECKING:
    from sdc.bounds.enumeration import Enumeration
    from sdc.model.table import Codes, Table

DEFAULT_STEPS = 1 << 27  # without a limit: some seconds
LISTED = 10  # decimal digits of a number of tables that can be counted one by one, in a day


@command(INSPECT, *TABLE, "widths.threshold")
def widths(
    path: InputPath,
    settings: Settings,
    out: Annotated[Path | None, file_option("Also write them to this Parquet or CSV file.", "--out")] = None,
) -> CommandResult:
    """List critical widths, the most dangerous sub-table first.

    For a table with more than 20 variables, only the widest sub-tables are listed. If counts are missing, those of all
    sub-tables whose counts are known are listed.
    """
    from sdc.executor import IN_PROCESS
    from sdc.model import subtable as st
    from sdc.model.table import missing_words
    from sdc.public.incomplete import Incomplete
    from sdc.risk.critical_width import critical_widths
    from sdc.stages.assemble import Listing

    require_columns_file(out)
    source = read_input_or_incomplete(path, settings, None, "widths")
    if isinstance(source, Incomplete):
        data, small, threshold, most = source.table(), settings.get("risk.small_count", 2), 0, 0
    else:
        data, small, threshold = source.table, source.small_count, source.config.widths.threshold or 0
        most = Listing.of(source.config.widths, len(data.schema), threshold).most
    with nullcontext(IN_PROCESS) if isinstance(source, Incomplete) else executor_of(source) as executor:
        found = critical_widths(data, small_count=small, floor=threshold, most=most, executor=executor)
    cut = found.cut(1)
    pairs = list(found.by_sub_table().items())[::-1]
    labels, values = [st.label(t, data.schema) for t, _ in pairs], [w for _, w in pairs]
    write_columns_file(out, lambda: {"sub_table": labels, "critical_width": values})
    facts = {
        "variables": list(data.schema.names),
        "records": data.total,
        "at_risk_cells": len(data.at_risk(small)),
        **({"cut": cut} if cut else {}),
        **({} if data.missing is None else {"unknown": [st.names(t, data.schema) for t in data.missing.unknown]}),
        "widths": [{"sub_table": st.names(t, data.schema), "critical_width": w} for t, w in pairs],
    }

    def show() -> None:
        if cut:
            say(cut)
        for text in missing_words(data):
            say(text)
        print("critical_width  sub_table")
        for label, width in zip(labels, values, strict=True):
            print(f"{width:14}  {label}")

    return CommandResult(facts, show)


@command(INSPECT, *TABLE, "sharp_seconds")
def bounds(
    path: InputPath,
    settings: Settings,
    release: ReleaseOption = None,
    cells: Annotated[
        list[str] | None,
        Option(
            help="at-risk (default) or all; or a super-cell (a sum of cells) such as 'age in (young, old), "
            "sex=f'; repeatable."
        ),
    ] = None,
    method: Annotated[str | None, Option(help="auto (default): all methods, within the budget; or a method")] = None,
    fractional: Annotated[
        bool, Option("--fractional", help="Bounds over tables of real numbers, by linear programs.")
    ] = False,
    sharp: Annotated[bool, Option("--sharp", help="Tighten both ends for 600 seconds by default, not for 10.")] = False,
) -> CommandResult:
    """Compute bounds of cells, or of sums of cells, given a release."""
    from sdc.bounds.super_cells import FRACTIONAL
    from sdc.model.sharpness import SHARP_SECONDS, bounds_facts
    from sdc.model.super_cell import super_cell_facts
    from sdc.public.incomplete import Incomplete
    from sdc.stages.answers import bounded, super_cells

    if sharp and method is not None:
        raise ConfigError(f"--sharp with --method {method}: sharp bounds use all methods; omit one")
    which, is_budget = _chosen_cells(cells or ["at-risk"]), "sharp_seconds" in settings
    if is_budget and (fractional or isinstance(which, list) or method not in (None, "auto")):
        raise ConfigError("--seconds is for sharp bounds of single cells by all methods; omit it, or the other options")
    if is_budget:
        settings = {"assessment": "sharp", **settings}
    if sharp and (fractional or isinstance(which, list)):
        raise ConfigError(
            "--sharp is for integer counts of single cells; omit it, or omit --fractional and super-cells"
        )
    if fractional and method is not None:
        raise ConfigError(f"--fractional with --method {method}: these use a linear program; omit one")
    source = read_input_or_incomplete(path, settings, release, "bounds")
    if isinstance(source, Incomplete):
        if sharp or is_budget or method is not None:
            raise ConfigError("bounds of a table with suppressed counts have one method; omit --sharp and --method")
        sums = source.bounds(which, small_count=settings.get("risk.small_count", 2), fractional=fractional)
        facts = super_cell_facts(None, sums, source.schema)
    else:
        held, small = source.public(release), source.small_count
        budget = source.config.sharp_seconds or SHARP_SECONDS if sharp or is_budget else None
        with executor_of(source) as executor:
            if fractional or isinstance(which, list):
                sums = super_cells(source.table, held, which, small, FRACTIONAL if fractional else method, executor)
                facts = super_cell_facts(held.release, sums, source.table.schema)
            else:
                how: dict[str, Any] = {"method": method or "auto", "seconds": budget}
                found = bounded(source, held, which, small, **how, executor=executor, say=say)
                facts = bounds_facts(held.release, *found, source.table.schema)
    return CommandResult(facts, lambda: _print_bounds(facts))


@command(INSPECT, "table.variables", name="enumerate")
def enumerate_command(
    path: InputPath,
    settings: Settings,
    release: ReleaseOption = None,
    limit: Annotated[int | None, Option(min=1, help="Stop at this many tables; default: after some seconds.")] = None,
) -> CommandResult:
    """Count the integer tables that agree with a release.

    After an interrupt, the command reports the count so far.
    """
    from sdc import api
    from sdc.progress import Nodes
    from sdc.public.incomplete import Incomplete

    steps = DEFAULT_STEPS if limit is None else None
    source = read_input_or_incomplete(path, settings, release, "enumerate")
    search: Callable[..., Enumeration] = (
        source.tables
        if isinstance(source, Incomplete)
        else partial(api.enumerate_tables, source.table, source.public(release))
    )
    ended = threading.Event()
    with first_interrupt(ended.set, "the search ends with the count so far"):
        watch = Nodes(say, ended)
        found = search(limit=limit, max_steps=steps, watch=watch)
    if ended.is_set():
        say("interrupted: this is the count so far")
    elif limit is None and not found.complete:
        say("the search ended after some seconds; give --limit to continue")
    if found.log10_estimate is not None and found.log10_estimate > LISTED:
        say(f"an estimated 10^{found.log10_estimate:.0f} tables agree: a count one by one will not end; release more")
    text = f"{many(found.feasible_tables, 'feasible table')}{'' if found.complete else ' and maybe more'}"
    return CommandResult({"feasible_tables": found.feasible_tables, "complete": found.complete}, lambda: print(text))


@command(INSPECT, *TABLE, name="posterior")
def posterior_command(
    path: InputPath,
    settings: Settings,
    release: ReleaseOption = None,
    law: Annotated[
        str,
        Option(
            help="released, uniform, saturated, a model such as [a,b][b,c], or average: the laws of --prior by "
            "prior and likelihood; average-over-draws weighs them as [DFT] (8) to (10) do."
        ),
    ] = "released",
    alpha: Annotated[float, Option(help="Prior parameter of each cell of the full table.")] = 0.5,
    prior: Annotated[
        list[str] | None, Option(metavar="LAW=P", help="A law of an average and its prior probability; repeatable.")
    ] = None,
    cells: Annotated[str, Option(help="at-risk or all")] = "at-risk",
) -> CommandResult:
    """Compute the intruder's posterior probabilities, given a release.

    The settings of `posterior` in a config apply; set them with --set.
    """
    from sdc import api
    from sdc.config.analysis import PosteriorConfig
    from sdc.intruder.posterior import posterior_facts

    priors = _numbers_by_name(prior or [])
    features = [MODEL] * any(map(is_model, [law, *priors]))
    source = read_input(path, settings, "posterior", *features, named={"--release": release})
    data, known, how = source.table, source.public(release), source.config.posterior or PosteriorConfig()
    with executor_of(source) as executor:
        of: dict[str, Any] = {"cells": cells, "small_count": source.small_count, "executor": executor}
        found = api.posterior(data, known, law=law, alpha=alpha, priors=priors, share=how.share, **how.sampling, **of)
        bounded = api.cell_bounds(data, known, **of)
    facts = posterior_facts(found, bounded, data.schema, how.threshold, source.losses)
    return CommandResult(facts, lambda: _print_posterior(facts))


def _numbers_by_name(given: list[str]) -> dict[str, float]:
    """Parse `saturated=0.5`; ConfigError for another form, or a name given twice."""
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.partition("=")
        if not name or name in found:
            raise ConfigError(f"--prior {text}: give a name and a number, such as saturated=0.5, and each name once")
        try:
            found[name] = float(number)
        except ValueError as error:
            raise ConfigError(f"--prior {text}: {number!r} is not a number; give one such as saturated=0.5") from error
    return found


def _chosen_cells(given: list[str]) -> str | list[str]:
    """Return at-risk, all, or a list with super-cells; ConfigError if a word is given twice."""
    from sdc.model.super_cell import is_written

    if any(map(is_written, given)):
        return given
    if len(given) > 1:
        raise ConfigError(f"--cells is given {len(given)} times: {', '.join(given)}; give it once")
    return given[0]


def _print_bounds(facts: dict[str, Any]) -> None:
    """Print one line per cell, with the method of each end if known, and the number of sharp cells."""
    by = any("outer_by" in row for row in facts["cells"])
    methods = f"  {'bounds':9}  {'lower by':32}  {'upper by':32}" * by
    print(f"method {facts['method']}\n{'count':>9} {'outer':>17} {'inner':>17}{methods}  cell")
    for row in facts["cells"]:
        within, reached = (f"[{', '.join(map(str, row[kind]))}]" for kind in ("outer", "inner"))
        count = "" if row["count"] is None else row["count"]
        ends = f"{count:9} {within:>17} {reached:>17}{_ends_by(row) if by else ''}"
        cell = {name: own if isinstance(own, str) else " or ".join(own) for name, own in row["cell"].items()}
        print(f"{ends}  {named(cell) or '(total)'}")
    if "text" in facts.get("sharpness", {}):
        print(f"{facts['sharpness']['text']}")


def _ends_by(row: dict[str, Any]) -> str:
    """Format whether bounds are sharp, and the outer and inner method of each end."""
    ends = (f"{outer}, {inner}" for outer, inner in zip(row["outer_by"], row["inner_by"], strict=True))
    return f"  {'sharp' if row['exact'] else 'bracketed':9}  " + "  ".join(f"{end:32}" for end in ends)


def _print_posterior(facts: dict[str, Any]) -> None:
    """Print the posterior; the cells most likely to be known come first."""
    from sdc.intruder.chains import written_error, written_r_hat

    tables, same = facts["feasible_tables"], facts["equals_released"] and facts["law"] != "released"
    number = "" if tables is None else f"; {many(tables, 'feasible table')}"
    report(
        ("law", f"{facts['law']}{', equal to released: it uses only public numbers' if same else ''}"),
        ("", tables == 1 and "only one table agrees with the release, so it is known exactly"),
        ("engine", f"{facts['engine']}, {'exact' if facts['exact'] else 'sampled'}{number}"),
    )
    if facts["exact"]:
        uniform = facts["log_probability_if_uniform"]
        alike = "" if uniform is None else f"; {uniform:.4f} if all tables were equally likely"
        report(("true table", f"log probability {facts['log_probability_of_true_table']:.4f}{alike}"))
    else:
        of = facts["diagnostics"]
        size = f"effective sample size from {of['effective_sample_size']:.0f}; connectivity {of['connectivity']}"
        report(
            ("chains", f"{of['chains']} of {of['draws']} draws; R-hat {written_r_hat(of['r_hat'])}, {size}"),
            ("errors", written_error(of["error"], of["wanted"])),
        )
    for model in facts["models"]:
        error = "" if model["standard_error"] is None else f", standard error {model['standard_error']:.4f}"
        report(("model", f"{model['law']}: prior {model['prior']:g}, posterior {model['posterior']:.4f}{error}"))
    identified, bounds, losses = facts["identified"], facts["bounds"], facts["losses"]
    least, held, entropy = f"{identified['threshold']:g}", facts["attribute_disclosure"], facts["entropy"]
    share = "all" if held["share"] == 1 else f"at least {held['share']:g}"
    outer = "" if bounds["sharp"] else ", from outer bounds"
    cost = losses and "an intruder's {right} right and {wrong} wrong claims cost ".format(**losses["claims"])
    report(
        ("", facts["models"] and "each weighted by its prior and its likelihood: see the theory in sdc docs"),
        ("identified", f"{identified['fraction']:.4f} of the cells: the true count is the most likely, above {least}"),
        ("above", f"{facts['above']['fraction']:.4f} of the cells have a true count with probability above {least}"),
        ("bounds", f"{bounds['known']} cells have one count left, total width {bounds['total_width']}{outer}"),
        ("entropy", entropy is not None and f"{entropy:.4f} of the law of the tables"),
        ("losses", losses and f"{cost}{losses['disclosure_risk']:.4f} a cell"),
        (
            "groups",
            f"{held['above_threshold']} cells have {share} of a released cell, with probability above {least}; "
            f"{held['certain']} certainly, {held['impossible']} impossible",
        ),
    )
    names = "count", "probability", "most likely", "probability", "bounds", "of group", "group", "cell"
    print("{:>9} {:>11} {:>11} {:>11} {:>17} {:>11}  {}  {}".format(*names))
    rows = [_cell_row(row) for row in facts["cells"]]
    for row in sorted(rows, key=lambda row: -row[1]):
        print("{:9} {:11.4f} {:11} {:11.4f} {!s:>17} {:11.4f}  {}  {}".format(*row))


def _cell_row(row: dict[str, Any]) -> tuple[int, float, int, float, list[int], float, str, str]:
    found, first = row["probabilities"], row["from"]
    highest = max(range(len(found)), key=found.__getitem__)
    at_truth = found[row["count"] - first] if 0 <= row["count"] - first < len(found) else 0.0
    held, group = row["group"]["probability"], "*".join(row["group"]["sub_table"]) or "(total)"
    return row["count"], at_truth, first + highest, found[highest], row["outer"], held, group, named(row["cell"])


@command(INSPECT, "table.variables", "risk.small_count", name="fit")
def fit_command(
    path: InputPath,
    settings: Settings,
    release: ReleaseOption = None,
    search: Annotated[
        bool, Option("--search", help="Fit the decomposable model of lowest BIC: within the public sub-tables, if any.")
    ] = False,
    models: Annotated[int, Option(min=1, max=1000, help="Number of best models to list.")] = 5,
    form: Annotated[
        str | None, Option(help="IPF form: sparse or dense. Default: closed form if possible, else sparse.")
    ] = None,
    support: Annotated[
        str, Option(help="Cells that are fitted: possible, or non-zero for those of the table ([DKS] 3.2).")
    ] = "possible",
    sweeps: Annotated[int, Option(min=1, help="Maximum number of IPF sweeps.")] = 10_000,
    cells: Annotated[str, Option(help="at-risk or all")] = "at-risk",
    out: Annotated[Path | None, file_option("Write all fitted counts to this Parquet or CSV file.", "--out")] = None,
) -> CommandResult:
    """Fit the log-linear model of a release.

    Shows fitted counts, deviance, degrees of freedom and terms. With --search, the decomposable model of lowest BIC.
    """
    from sdc import api
    from sdc.utility.loglinear import fit_facts
    from sdc.utility.model_search import models_facts

    require_columns_file(out)
    source = read_input(path, settings, "fit", named={"--release": release})
    is_free = search and not release and source.released is None
    known = source.known if is_free else source.public(release)
    facts: dict[str, Any] = {}
    if search:
        found = api.decomposable_models(source.table, known, most=models)
        known = replace(known, release=found.release(source.table.schema))
        facts = {"search": models_facts(found, source.table.schema)}
    how: dict[str, Any] = {"form": form, "support": support}
    fitted = api.fit(source.table, known, **how, max_sweeps=sweeps)
    facts |= fit_facts(fitted, _cells(source.table, cells, source.small_count))
    write_columns_file(out, lambda: fitted.columns(source.table.schema))
    return CommandResult(facts, lambda: _print_fit(facts))


def _cells(table: Table, which: str, small_count: int) -> Codes:
    from sdc.stages.answers import chosen_cells

    return table.codes[table.at_risk(small_count)] if which == "at-risk" else chosen_cells(table, which, small_count)


def _print_fit(facts: dict[str, Any]) -> None:
    if "search" in facts:
        found = facts["search"]
        which = "all" if found["complete"] else "found on the way from independence"
        print(f"searched      {found['looked_at']} decomposable models, {which}; lowest BIC first")
        print("{:>14} {:>12} {:>10} {:>8}  {}".format("bic", "deviance", "parameters", "weight", "model"))
        for row in found["models"]:
            print("{bic:14.4f} {deviance:12.4f} {parameters:10} {weight:8.4f}  {model}".format(**row))
    print(f"model         {' '.join('*'.join(names) or '(total)' for names in facts['frontier'])}")
    how = f", {facts['sweeps']} sweeps; largest deviation of a marginal {facts['deviation']:.1e}" * bool(
        facts["sweeps"]
    )
    print(f"method        {facts['method']}{how}")
    print(f"deviance      {facts['deviance']:.4f}, Pearson {facts['pearson']:.4f}")
    print(f"freedom       {_freedom(facts)}")
    lost = [(f"{'*'.join(one['sub_table'])}: {one['estimable']} of {one['parameters']}") for one in _lost(facts)]
    but = "; all parameters can be estimated except in:" if lost else ""
    missed = facts["facts_not_fitted"]
    report(
        ("terms", f"{len(facts['terms']) or 'too many to list'}{but}"),
        *(("", f"{one} parameters can be estimated") for one in lost),
        ("not fitted", missed and f"{missed} suppressed or rounded tables"),
    )
    print("{:>9} {:>14}  {}".format("count", "fitted", "cell"))
    for row in facts["cells"]:
        print(f"{row['count']:9} {row['fitted']:14.4f}  {named(row['cell'])}")


def _freedom(facts: dict[str, Any]) -> str:
    cells, parameters = f"{facts['fitted_cells']} cells with a positive fit", f"{facts['parameters']} parameters"
    if facts["degrees_of_freedom"] is None:
        return f"not known, because too many cells or parameters involve zeros: {cells}, {parameters}"
    return f"{facts['degrees_of_freedom']}: {cells}, less {facts['estimable']} of {parameters}, which can be estimated"


def _lost(facts: dict[str, Any]) -> list[dict[str, Any]]:
    known = (term for term in facts["terms"] if term["estimable"] is not None)
    return [term for term in known if term["estimable"] < term["parameters"]]


@command(INSPECT, "table.variables", "uniques.fraction", "uniques.model", name="uniques")
def uniques_command(
    path: InputPath,
    settings: Settings,
    release: ReleaseOption = None,
    out: Annotated[Path | None, file_option("Write the cells to this Parquet or CSV file as well.", "--out")] = None,
) -> CommandResult:
    """Estimate which sample uniques are population uniques."""
    from sdc.utility.uniques import RELEASED, unique_cells, uniques_by, uniques_facts

    require_columns_file(out)
    if release and settings.get("uniques.model") != RELEASED:
        raise ConfigError(f"--release is for --model {RELEASED}; add that, or omit --release")
    source = read_input(path, settings, "uniques", named={"--release": release})
    settings_ = source.config.uniques
    if settings_ is None and source.weights is None:
        raise ConfigError(
            f"{source.name} does not describe the population; give --fraction, or a config with uniques.fraction or "
            "table.weight"
        )
    share, model = (None, None) if settings_ is None else (settings_.fraction, settings_.model)
    known = source.public(release) if model == RELEASED else source.known
    found = uniques_by(source.table, known, share, model, source.weights)
    write_columns_file(out, lambda: found.columns(source.table.schema))
    facts = {**uniques_facts(found), "cells": unique_cells(found, source.table.schema)}
    return CommandResult(facts, lambda: _print_uniques(facts))


def _print_uniques(facts: dict[str, Any]) -> None:
    number, model = facts["sample_uniques"], facts["model"]
    print(f"estimator     {facts['estimator']}{'' if model is None else f' {model}'}; fraction {facts['fraction']:.6g}")
    print(f"uniques       {number} in the sample, {facts['population_uniques']:.4f} expected in the population too")
    print(f"matches       {facts['matched']:.4f} expected correct matches, one random person per unique")
    print(
        f"right         {facts['right_matches']:.4f} of all persons in these cells are correct matches; "
        f"{facts['intrusion']:.4f} by data "
        f"intrusion simulation, without a model, from {number} ones and {facts['sample_twos']} twos"
    )
    print("{:>17} {:>11} {:>14}  {}".format("population unique", "match", "population", "cell"))
    for row in sorted(facts["cells"], key=lambda row: -row["population_unique"]):
        print(f"{row['population_unique']:17.4f} {row['match']:11.4f} {row['population']:14.2f}  {named(row['cell'])}")
