"""Exact laws by listing all tables, and how far sampled ones are from them."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from sdc.executor import IN_PROCESS
from sdc.intruder.cell_laws import CellLaws
from sdc.intruder.chains import Sampled, Sampling, sampled, standard_errors
from sdc.intruder.laws import Law, law_of
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.table import Counts, Table
from tests import reference
from tests.reference import TooManyTablesError
from tests.strategies import every_cell, listed


def log_weights(tables: Iterable[Counts], law: Law, sizes: tuple[int, ...]) -> list[float]:
    """Of each table, by the formula of the law."""
    model = ([], []) if law.model is None else (law.model.cliques, law.model.separators)
    of, less = ([st.members(subtable) for subtable in some] for some in model)
    return [reference.log_weight(table.reshape(sizes), law.alpha, of, less) for table in tables]


def exact_laws(table: Table, known: Knowledge, law: Law, most: int = 3_000) -> CellLaws:
    """Of all cells; TooManyTablesError where too many tables agree."""
    tables, cells = listed(table, known, most), every_cell(table.schema)
    found = reference.posterior(tables, log_weights(tables, law, table.schema.sizes))
    each = [(min(one), np.array([one.get(k, 0.0) for k in range(min(one), max(one) + 1)])) for one in found]
    return CellLaws.of_each(cells, table.count_at(cells), each)


def sampled_near_the_listing(table: Table, known: Knowledge, name: str) -> Sampled | None:
    """Two chains of 200 draws, asserted to be within 5 errors of the exact laws; None where these are not listed."""
    law = law_of(name, table.schema, 0.5)
    if not len(table):
        return None
    try:
        exact = exact_laws(table, known, law)
    except TooManyTablesError:
        return None
    found = sampled(table, known, law, exact.cells, Sampling(200, 2, 1), IN_PROCESS)
    assert errors_of(found, exact).max() < 5
    return found


def errors_of(found: Sampled, exact: CellLaws) -> npt.NDArray[np.float64]:
    """By how many standard errors each share of the draws misses its probability; also of counts never drawn."""
    size = np.array([found.diagnostics.effective_sample_size])
    unseen, missed = float(standard_errors(np.zeros(1), size)[0]), []
    for row in range(len(exact)):
        first, (begin, end) = int(found.laws.first[row]), found.laws.start[row : row + 2]
        law = dict(enumerate(exact.of(row).tolist(), start=int(exact.first[row])))
        shares = dict(enumerate(found.laws.of(row).tolist(), start=first))
        errors = dict(enumerate(found.standard_errors[begin:end].tolist(), start=first))
        for k in law.keys() | shares.keys():
            missed.append(abs(shares.get(k, 0.0) - law.get(k, 0.0)) / errors.get(k, unseen))
    return np.array(missed)
