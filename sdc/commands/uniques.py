"""The command about sample uniques: how probably they are population uniques."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdc.commands.asked import read_subject
from sdc.commands.options import (
    Json,
    ReleaseOption,
    StructuralZeros,
    SubjectPath,
    Variables,
    print_json,
    require_columns_file,
    write_columns_file,
)
from sdc.commands.panels import INSPECT
from sdc.model.errors import ConfigError
from sdc.paths import checked_path

if TYPE_CHECKING:
    from sdc.stages.subject import Subject
    from sdc.utility.uniques import Uniques

of_samples = typer.Typer()


@of_samples.command("uniques", rich_help_panel=INSPECT)
def uniques_command(
    subject: SubjectPath,
    fraction: Annotated[
        float | None,
        typer.Option(
            help="The share of the population that is in the sample; default the config's, or by the records' weights "
            "where it names them."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="best, the decomposable log-linear model of lowest BIC and the default; released, whose terms are "
            "public; or one such as [a,b][b,c]."
        ),
    ] = None,
    release: ReleaseOption = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=checked_path, metavar="FILE", help="Write the cells to this Parquet or CSV file as well."),
    ] = None,
    variables: Variables = None,
    structural_zeros: StructuralZeros = None,
    as_json: Json = False,
) -> None:
    """Estimate which sample uniques are population uniques."""
    from sdc.utility.uniques import RELEASED, check_fraction, unique_cells, uniques_facts

    require_columns_file(out)
    if fraction is not None:
        check_fraction(fraction)
    if release and model != RELEASED:
        raise ConfigError(f"--release is for --model {RELEASED}; add that, or leave the release out")
    about = read_subject(subject, variables, structural_zeros, "uniques", named={"--release": release})
    found = _found(about, fraction, model, release)
    if out is not None:
        write_columns_file(out, found.columns(about.table.schema))
    facts = {**uniques_facts(found), "cells": unique_cells(found, about.table.schema)}
    if as_json:
        print_json(facts)
    else:
        _print(facts)


def _found(about: Subject, fraction: float | None, model: str | None, release: list[str] | None) -> Uniques:
    """As the options say, then the config's section, then by weights where there are some."""
    from sdc.utility.uniques import RELEASED, uniques_by

    asked = None if about.build is None else about.config.uniques
    share = fraction if fraction is not None or asked is None else asked.fraction
    if share is None and about.weights is None:
        raise ConfigError(
            f"{about.name} says nothing of the population; give --fraction, or a config with uniques.fraction or "
            "table.weight"
        )
    chosen = model if asked is None else model or asked.model
    known = about.public(release) if chosen == RELEASED else about.known
    return uniques_by(about.table, known, share, chosen, about.weights)


def _print(facts: dict[str, Any]) -> None:
    """All together, then each, most probably a population unique first."""
    number, model = facts["sample_uniques"], facts["model"]
    print(f"estimator     {facts['estimator']}{'' if model is None else f' {model}'}; fraction {facts['fraction']:.6g}")
    print(f"uniques       {number} in the sample, {facts['population_uniques']:.4f} expected in the population too")
    print(f"matches       {facts['matched']:.4f} expected to be right, one person a unique taken at random in its cell")
    print(
        f"right         {facts['right_matches']:.4f} of all persons in these cells; {facts['intrusion']:.4f} by data "
        f"intrusion simulation, without a model, from {number} ones and {facts['sample_twos']} twos"
    )
    print("{:>17} {:>11} {:>14}  {}".format("population unique", "match", "population", "cell"))
    for row in sorted(facts["cells"], key=lambda row: -row["population_unique"]):
        cell = " ".join(f"{name}={value}" for name, value in row["cell"].items())
        print(f"{row['population_unique']:17.4f} {row['match']:11.4f} {row['population']:14.2f}  {cell}")
