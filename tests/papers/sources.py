"""The data of the papers: tables that they print, files that a folder may have, and what several items look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sdc import api
from sdc.data.reading import read_table
from sdc.intruder.posterior import Posterior
from sdc.model.errors import InputError
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.state import State
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths, critical_widths
from sdc.search.decomposable import DecomposableRelease
from sdc.server.service.judge import Judge, surveyed
from sdc.server.service.rules import rules_of
from sdc.server.simulation.run import rule_sets_of
from sdc.server.simulation.simulation import Queries, SimulationStart, StreamResult, simulated
from sdc.utility.measures import Weights

FILES = {"cps13.parquet": "ea504e3d022c1c5eba0471db15af1b7f21b265d0661f7e4ef6b64b4671136c26"}
"""Of the folder `--data`, each with its SHA-256: another recode of the same records has other figures."""

SMALL_COUNT, WIDTH = 2, 6
"""Of the Czech example; every width from 6 to 9 gives the same release."""


def table_of(variables: Mapping[str, Sequence[str]], counts: npt.NDArray[np.int64]) -> Table:
    """A table from all its counts, an axis a variable."""
    schema = Schema(tuple(Variable(name, tuple(categories)) for name, categories in variables.items()))
    cells = np.argwhere(counts > 0)
    return Table.of(schema, cells, counts[tuple(cells.T)])


_YES = ("no", "yes")
_CZECH = """
 44  40 112  67   129 145  12  23    35  12  80  33   109  67   7   9
 23  32  70  66    50  80   7  13    24  25  73  57    51  63   7  16
  5   7  21   9     9  17   1   4     4   3  11   8    14  17   5   2
  7   3  14  14     9  16   2   3     4   0  13  11     5  14   4   4
"""
# as it is printed: rows F, E, D, C, columns B, A, so that its axes are the variables backwards
CZECH = table_of(
    {"A": _YES, "B": _YES, "C": _YES, "D": ("<140", ">=140"), "E": ("<3", ">=3"), "F": ("neg", "pos")},
    np.array(_CZECH.split(), np.int64).reshape([2] * 6).transpose(),
)
"""Edwards and Havránek's car workers, of [KDSF] 5.2."""

DELAWARE = table_of(
    {"gender": ("male", "female"), "race": ("white", "black", "chinese"), "income": ("low", "middle", "high")},
    np.array([96, 72, 161, 10, 7, 6, 1, 1, 2, 186, 127, 51, 11, 7, 3, 0, 1, 0], np.int64).reshape(2, 3, 3),
)
"""Of [DFT] table 1."""

UNSETTLED = table_of(
    dict.fromkeys("ABCD", _YES),
    np.array([1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0], np.int64).reshape([2] * 4),
)
"""Of [DKS] table 1."""

CPS = Schema(
    tuple(
        Variable(str(v), tuple(map(str, range(size))))
        for v, size in enumerate((5, 2, 3, 3, 5, 8, 2, 2, 3, 5, 2, 3, 2), start=1)
    )
)
"""The attributes of [KDSF] 5.1 by their numbers."""


@dataclass(frozen=True)
class Sources:
    """What items are computed of; what several of them look at is found once.

    data  the folder with the files, None without one
    """

    data: Path | None = None

    def __post_init__(self) -> None:
        """InputError where a file is missing, or is not the one that the figures are of."""
        if self.data is None:
            return
        for name, digest in FILES.items():
            path = self.data / name
            if not path.is_file():
                raise InputError(f"--data {self.data} has no file {name}; name the folder that has it, or leave it out")
            if sha256(path.read_bytes()).hexdigest() != digest:
                raise InputError(
                    f"{path} is not the file that the figures are of, whose SHA-256 begins with {digest[:12]}; "
                    "get that one, or leave --data out"
                )

    def has(self, needed: str) -> bool:
        """Whether nothing is missing."""
        return not needed or (self.data is not None and needed in FILES)

    @cached_property
    def cps(self) -> Table:
        """Our recode of the records of [KDSF] 5.1."""
        if self.data is None:
            raise InputError("there is no --data; name the folder that has cps13.parquet")
        return read_table(self.data / "cps13.parquet")

    @cached_property
    def widths(self) -> CriticalWidths:
        return critical_widths(CZECH, small_count=SMALL_COUNT)

    @cached_property
    def ordered(self) -> Release:
        return prefix(WIDTH)

    @cached_property
    def annealed(self) -> DecomposableRelease:
        """The best decomposable release of the Czech table."""
        return api.find_release(CZECH, "decomposable", min_width=WIDTH, small_count=SMALL_COUNT, steps=3_000)

    @cached_property
    def courses(self) -> dict[str, list[StreamResult]]:
        """The same streams of requests for the Czech table under rules of a server."""
        criteria, weights = Criteria.of(SMALL_COUNT, WIDTH), Weights.equal(len(CZECH.schema))
        known = Knowledge.of(CZECH, NOTHING, NO_ZEROS, NO_FACTS)
        judge = Judge(CZECH, known, criteria)
        opening = SimulationStart(
            known, criteria, surveyed(judge, State.first(CZECH.schema, all_ways(CZECH.schema, 1))), 1.0, weights
        )
        rules = {name: rules_of(found) for name, found in rule_sets_of(",".join(RULES), None).items()}
        return simulated(CZECH, opening, rules, Queries("uniform", 1, 128, weights), streams=4, seed=0)

    @cached_property
    def averaged(self) -> Posterior:
        """Of the three models of [DFT], by their priors."""
        return api.posterior(DELAWARE, DELAWARE_RELEASE, law="average", priors=PRIORS, alpha=0.5)

    @cached_property
    def averaged_over_draws(self) -> Posterior:
        """The same by the printed formulas; a chain of 500 draws is what the paper has."""
        settings = {"priors": PRIORS, "alpha": 0.5, "draws": 500, "error": None}
        return api.posterior(DELAWARE, DELAWARE_RELEASE, law="average-over-draws", **settings)


DELAWARE_RELEASE = ["race*income", "gender*income"]
WITHOUT_SECOND_ORDER = "[gender,race][gender,income][race,income]"
CONDITIONAL = "[race,income][gender,income]"
PRIORS = {"saturated": 0.22, WITHOUT_SECOND_ORDER: 0.67, CONDITIONAL: 0.11}
"""Of [DFT] table 5."""

RULES = ("myopic", "one_step", "one_step_frontier")
"""Of [KDSF] section 4 and [CACM]."""


def prefix(width: int) -> Release:
    """The longest prefix of the Czech list by critical width that may go out."""
    return api.find_release(CZECH, "bisection", min_width=width, small_count=SMALL_COUNT).release


def all_ways(schema: Schema, dimension: int) -> Release:
    """All sub-tables of so many variables, and what is within them."""
    full = (1 << len(schema)) - 1
    return Release.of(t for t in range(full + 1) if t.bit_count() == dimension)
