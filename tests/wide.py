"""Tables of many variables that depend on each other: latent classes, each of which has its own laws."""

import numpy as np

from sdc.model.schema import Schema, Variable
from sdc.model.table import Table

SIZES, CLASSES = (2, 2, 2, 3, 3, 4, 5, 6, 8), 12


def wide_table(number: int, records: int, seed: int) -> Table:
    """So many records, most of them alone in their cell."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice(SIZES, number).tolist()
    latent = rng.choice(CLASSES, records, p=rng.dirichlet(np.ones(CLASSES)))
    codes = np.empty((records, number), np.int64)
    for v, size in enumerate(sizes):
        ends = rng.dirichlet(np.full(size, 0.7), CLASSES).cumsum(axis=1)
        codes[:, v] = (rng.random(records)[:, None] > ends[latent, :-1]).sum(axis=1)
    return Table.of(
        Schema(tuple(Variable(f"v{v}", tuple(map(str, range(size)))) for v, size in enumerate(sizes))), codes
    )


def copies(variables: int, records: int) -> Table:
    """One variable of two categories, again and again, and one that tells a record apart: all widths are alike."""
    half = np.arange(records) % 2
    alone = np.zeros(records, np.int64)
    alone[0] = 1
    schema = Schema(tuple(Variable(f"v{v}", ("a", "b")) for v in range(variables + 1)))
    return Table.of(schema, np.stack([half] * variables + [alone], axis=1))
