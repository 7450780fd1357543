"""What a release is worth, and how well the full table is reconstructed from it."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from sdc.report.chains import amount

Utility = Mapping[str, int | float | str | bool]
MEASURES = {
    "sub_tables": "sub-tables without the grand total",
    "sub_tables_with_total": "sub-tables with the grand total",
    "cells": "cells of all sub-tables together",
    "degrees_of_freedom": "degrees of freedom: free parameters of the log-linear model besides the total",
    "weighted": "weighted value: the sum of the sub-tables' weights",
    "halvings": "value by reconstruction: halvings of the mean squared error of what is known without the release",
    "mean_squared_error": "mean squared error of a cell of the reconstructed full table, in records squared",
}


def measures(utility: Utility) -> list[tuple[str, str]]:
    """Name and value of each measure that is there."""
    return [(name, amount(float(utility[key]))) for key, name in MEASURES.items() if key in utility]


def reconstruction(utility: Utility) -> str:
    """How the full table was reconstructed and how far off it is; empty where it was not."""
    if "reconstruction_method" not in utility and "mean_squared_error" not in utility:
        return ""
    method = str(utility.get("reconstruction_method", "ipf"))
    if method == "closed form":
        how = "in closed form on the junction tree, which is exact and needs no iteration"
    else:
        sweeps = f" in {int(utility['sweeps']):,} sweeps" if "sweeps" in utility else ""
        how = f"by {'iterative proportional fitting (IPF)' if method == 'ipf' else method}{sweeps}"
    return f"From the release alone the full table was reconstructed {how}.{_error(utility)}{_deviation(utility)}"


def unconverged(utility: Utility) -> bool:
    """Whether the reconstruction is known not to have converged."""
    return utility.get("converged") is False


def _error(utility: Utility) -> str:
    if "mean_squared_error" not in utility:
        return ""
    return f" A cell is off by {sqrt(float(utility['mean_squared_error'])):,.3g} records (root mean square)."


def _deviation(utility: Utility) -> str:
    said = ""
    if "deviation" in utility:
        said = f" The largest deviation from a released count is {float(utility['deviation']):,.3g} records."
    if utility.get("converged") is True and utility.get("reconstruction_method") != "closed form":
        said += " The iteration converged."
    return said
