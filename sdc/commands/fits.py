"""Commands about models of a table: log-linear fits, and the rarity of sample uniques."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from sdc.commands.input import read_input
from sdc.commands.options import (
    INSPECT,
    CommandResult,
    InputPath,
    ReleaseOption,
    Settings,
    command,
    file_option,
    named,
    require_columns_file,
    write_columns_file,
)
from sdc.model.errors import ConfigError

if TYPE_CHECKING:
    from sdc.model.table import Codes, Table


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
    lost = "; all parameters can be estimated except in:" if _lost(facts) else ""
    print(f"terms         {len(facts['terms']) or 'too many to list'}{lost}")
    for term in _lost(facts):
        name = "*".join(term["sub_table"])
        print(f"              {name}: {term['estimable']} of {term['parameters']} parameters can be estimated")
    if facts["facts_not_fitted"]:
        print(f"not fitted    {facts['facts_not_fitted']} suppressed or rounded tables")
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
