"""The judge of chains: how far sampled laws are from exact ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdc.executor import IN_PROCESS
from sdc.intruder.cell_laws import CellLaws
from sdc.intruder.chains import Sampled, Sampling, sampled, standard_errors
from sdc.intruder.enumerated import TooManyTablesError, enumerated
from sdc.intruder.laws import law_of
from sdc.model.knowledge import Knowledge
from sdc.model.table import Table
from tests.strategies import every_cell

MANY = 20_000  # tables that are listed


def sampled_near_the_enumeration(table: Table, known: Knowledge, name: str) -> Sampled | None:
    """Two chains of 200 draws, asserted to be within 5 errors of the exact laws; None where these are not listed."""
    law = law_of(name, table.schema, 0.5)
    try:
        exact = enumerated(table, known, law, MANY).laws(every_cell(table.schema))
    except TooManyTablesError:
        return None
    if not len(table):
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
