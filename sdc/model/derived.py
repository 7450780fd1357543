"""Variables that follow from others of a table: with the zeros that say so, they tell nothing that those do not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from sdc.model.errors import InputError
from sdc.model.schema import MAX_VARIABLES, Schema, Variable
from sdc.model.structural_zeros import Pattern, StructuralZeros
from sdc.model.table import Table


def with_derived(
    table: Table, of: Sequence[int], coding: npt.NDArray[np.integer], variable: Variable
) -> tuple[Table, StructuralZeros]:
    """The table with a variable that follows from others: `coding` has its code for each of their cells, in C order.

    And the structural zeros that say so. InputError where the table has as many variables as it can.
    """
    schema = table.schema
    if len(schema) >= MAX_VARIABLES:
        raise InputError(f"with what is added the table has more than {MAX_VARIABLES} variables; drop some")
    space = schema.space(of)
    column = coding[space.pack(schema.columns(table.codes, of))]
    # what follows from a cell changes neither the cells nor their order
    codes = np.concatenate([table.codes, column[:, None].astype(np.uint16)], axis=1)
    implied = _implied(of, space.sizes, coding, len(variable.categories), len(schema))
    return Table(Schema((*schema.variables, variable)), codes, table.counts), StructuralZeros(tuple(implied))


def free_name(name: str, taken: Sequence[str]) -> str:
    """The name, with a number where it is taken."""
    numbered = (name if number == 1 else f"{name} {number}" for number in range(1, MAX_VARIABLES + 2))
    return next(one for one in numbered if one not in taken)


def _implied(
    of: Sequence[int], sizes: Sequence[int], coding: npt.NDArray[np.integer], labels: int, new: int
) -> list[Pattern]:
    """What cannot be: a code of the new variable with cells of the others that have another."""
    found: list[Pattern] = []
    cells = coding.reshape(sizes)
    # the cells along the last variable at once: all that have another code, or, where codes are many, one by one
    for first in product(*map(range, sizes[:-1])):
        fixed = [(v, (c,)) for v, c in zip(of[:-1], first, strict=True)]
        if labels <= sizes[-1]:
            for code in range(labels):
                if len(others := np.flatnonzero(cells[first] != code)):
                    found.append((*fixed, (of[-1], tuple(others.tolist())), (new, (code,))))
            continue
        for last, code in enumerate(cells[first].tolist()):
            others = np.delete(np.arange(labels), code)
            if len(others):
                found.append((*fixed, (of[-1], (last,)), (new, tuple(others.tolist()))))
    return found
