"""Structural zeros from a YAML file: a list of patterns such as `{age: under 15, employed: [yes, partly]}`.

A pattern maps variables to one or several categories; cells with one of these for every named variable are impossible.
Scalars are read as written, so categories such as no and 01 need no quotes.
"""

from __future__ import annotations

import hashlib
import reprlib
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from sdc.config.file import TextLoader, load_yaml
from sdc.model.errors import InputError, nearest
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.paths import checked_path

LEAST_EXPECTED = 5.0  # records: an empty cell with fewer expected ones is unremarkable


def read_structural_zeros(path: str | Path, schema: Schema) -> StructuralZeros:
    """The patterns of the file in the codes of the schema.

    Raises InputError if the file cannot be read, is not a list of mappings, or names something unknown.
    """
    path = Path(path)
    # as text: YAML would turn the category no into False
    patterns = load_yaml(path, "structural zeros", InputError, TextLoader)
    if not isinstance(patterns, list):
        what = "is empty" if not patterns else f"is a {type(patterns).__name__}"
        raise InputError(f"structural zeros {path} {what}, not a list; give one such as - {{age: under 15, work: yes}}")
    zeros = (_pattern(pattern, schema, f"{path}: pattern {n}") for n, pattern in enumerate(patterns, start=1))
    return StructuralZeros(tuple(zeros))


def zeros_digest(path: str | Path) -> str:
    try:
        return hashlib.sha256(checked_path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"structural zeros {path} cannot be read: {error.strerror}; give a YAML file") from error


def _pattern(pattern: Any, schema: Schema, where: str) -> tuple[tuple[int, tuple[int, ...]], ...]:
    if not isinstance(pattern, dict) or not pattern:
        raise InputError(
            f"{where} is {reprlib.repr(pattern)}; give a mapping from variables to categories with at least one "
            "variable"
        )
    for name in pattern:
        if name not in schema.names:
            raise InputError(
                f"{where} names {name!r}, which is not a variable of the table; {nearest(name, schema.names)}: "
                "correct the "
                "name, add the variable, or take the pattern out"
            )
    chosen = {schema.index(name): categories for name, categories in pattern.items()}
    return tuple((v, _codes(categories, schema.variables[v], where)) for v, categories in chosen.items())


def _codes(categories: Any, variable: Variable, where: str) -> tuple[int, ...]:
    listed = [categories] if isinstance(categories, str) else categories
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{where}: {variable.name} = {reprlib.repr(categories)}; give a category, or a list of them")
    for category in listed:
        if category not in variable.categories:
            raise InputError(
                f"{where}: {variable.name} has no category {category!r}; correct it, or list it under `categories`",
                f"{variable.name} has the categories {', '.join(variable.categories)}",
            )
    return tuple(variable.categories.index(category) for category in listed)


def empty_cells(table: Table) -> Iterator[tuple[dict[str, str], float]]:
    """Empty two-way cells with their expected number of records under independence."""
    one_way = table.one_way()
    for u, v in combinations(range(len(table.schema)), 2):
        two_way = table.marginal(1 << u | 1 << v)
        dense = np.zeros(two_way.schema.sizes, np.int64)
        dense[tuple(two_way.codes.T)] = two_way.counts
        expected = np.outer(one_way[u], one_way[v]) / table.total
        for i, j in np.argwhere((dense == 0) & (expected >= LEAST_EXPECTED)).tolist():
            yield two_way.schema.named((i, j)), float(expected[i, j])
