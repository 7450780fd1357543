"""The command about log-linear models: what a release makes its readers expect of each cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdc.commands.asked import read_subject
from sdc.commands.options import (
    Json,
    ReleaseOption,
    SmallCount,
    StructuralZeros,
    SubjectPath,
    Variables,
    print_json,
    require_columns_file,
    write_columns_file,
)
from sdc.commands.panels import INSPECT
from sdc.paths import checked_path

if TYPE_CHECKING:
    from sdc.model.table import Codes, Table

fits = typer.Typer()


@fits.command("fit", rich_help_panel=INSPECT)
def fit_command(
    subject: SubjectPath,
    release: ReleaseOption = None,
    search: Annotated[
        bool,
        typer.Option(
            "--search", help="Fit the decomposable model of lowest BIC: within what is public, or where nothing is any."
        ),
    ] = False,
    models: Annotated[int, typer.Option(min=1, max=1000, help="Of the best that a search lists.")] = 5,
    form: Annotated[
        str | None, typer.Option(help="Of IPF, sparse or dense; default the closed form where it holds, else sparse.")
    ] = None,
    sweeps: Annotated[int, typer.Option(min=1, help="Of IPF, at most.")] = 10_000,
    cells: Annotated[str, typer.Option(help="at-risk or all")] = "at-risk",
    out: Annotated[
        Path | None,
        typer.Option(parser=checked_path, metavar="FILE", help="Write all fitted counts to this Parquet or CSV file."),
    ] = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    small_count: SmallCount = None,
    as_json: Json = False,
) -> None:
    """Fit the log-linear model of a release.

    Shows fitted counts, deviance, degrees of freedom and terms. With --search, the decomposable model of lowest BIC.
    """
    from sdc import api
    from sdc.utility.loglinear import fit_facts
    from sdc.utility.model_search import models_facts

    require_columns_file(out)
    about = read_subject(subject, variables, structural_zeros, "fit", named={"--release": release})
    is_free = search and not release and about.released is None
    known = about.known if is_free else about.public(release)
    facts: dict[str, Any] = {}
    if search:
        found = api.decomposable_models(about.table, known, most=models)
        known = replace(known, release=found.release(about.table.schema))
        facts = {"search": models_facts(found, about.table.schema)}
    chosen: Any = form
    fitted = api.fit(about.table, known, form=chosen, max_sweeps=sweeps)
    facts |= fit_facts(fitted, _cells(about.table, cells, about.small_count(small_count)))
    if out is not None:
        write_columns_file(out, fitted.columns(about.table.schema))
    if as_json:
        print_json(facts)
    else:
        _print(facts)


def _cells(table: Table, which: str, small_count: int) -> Codes:
    """Those at risk, of which there may be none, or all."""
    from sdc.stages.answers import chosen_cells

    return table.codes[table.at_risk(small_count)] if which == "at-risk" else chosen_cells(table, which, small_count)


def _print(facts: dict[str, Any]) -> None:
    """The models of a search, how well the fit does, what can be estimated, and the cells asked for."""
    if "search" in facts:
        found = facts["search"]
        which = "all" if found["complete"] else "on the way down from independence"
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
    lost = "; in full all can be estimated but these:" if _lost(facts) else ""
    print(f"terms         {len(facts['terms']) or 'too many to list'}{lost}")
    for term in _lost(facts):
        name = "*".join(term["sub_table"])
        print(f"              {name}: {term['estimable']} of {term['parameters']} parameters can be estimated")
    if facts["facts_not_fitted"]:
        print(f"not fitted    {facts['facts_not_fitted']} tables that are public in part, or otherwise than whole")
    print("{:>9} {:>14}  {}".format("count", "fitted", "cell"))
    for row in facts["cells"]:
        cell = " ".join(f"{name}={value}" for name, value in row["cell"].items())
        print(f"{row['count']:9} {row['fitted']:14.4f}  {cell}")


def _freedom(facts: dict[str, Any]) -> str:
    """Degrees of freedom, and of what they are the difference."""
    cells, parameters = f"{facts['fitted_cells']} cells with a positive fit", f"{facts['parameters']} parameters"
    if facts["degrees_of_freedom"] is None:
        return f"not known, too many cells or parameters have to do with zeros: {cells}, {parameters}"
    return f"{facts['degrees_of_freedom']}: {cells}, less {facts['estimable']} of {parameters}, which can be estimated"


def _lost(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The terms of which not all parameters can be estimated."""
    known = (term for term in facts["terms"] if term["estimable"] is not None)
    return [term for term in known if term["estimable"] < term["parameters"]]
