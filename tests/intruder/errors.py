"""The judge of chains: how far sampled laws are from exact ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdc.intruder.cell_laws import CellLaws
from sdc.intruder.chains import Sampled, standard_errors


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
