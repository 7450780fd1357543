"""Laws: prior beliefs of an intruder, and the resulting weights of the feasible tables."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.graph import Decomposition, decompose
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table

RELEASED, UNIFORM, SATURATED = "released", "uniform", "saturated"
NAMES = f"{RELEASED}, {UNIFORM}, {SATURATED}, or a model such as [a,b][b,c]"

Terms = tuple[tuple[SubTable, int], ...]


@dataclass(frozen=True)
class Law:
    """A prior on tables of a log-linear model; `released`, which needs no prior, has no model.

    name   `released`, `uniform`, `saturated` or `[a,b][b,c]`
    alpha  of the conjugate prior (Massam, Liu and Dobra 2009), for a decomposable model the hyper-Dirichlet (Dawid and
           Lauritzen 1993): a cell of the full table has alpha, and one of a clique alpha times its number of cells
    model  cliques and separators of a decomposable model
    generators  the largest interactions of a non-decomposable model, else none

    A feasible table f has the weight prod_i 1/f_i! prod_C prod Gamma(f_C + alpha_C) / prod_S prod Gamma(f_S + alpha_S)
    under a decomposable model, and prod_i 1/f_i! under `released`, for every log-linear model whose generators are
    released ([DFT] section 5). Under other models it is an integral over the cell probabilities, see `ipf`.
    """

    name: str
    alpha: float | None = None
    model: Decomposition | None = None
    generators: tuple[SubTable, ...] = ()

    def is_explicit(self, knowledge: Knowledge) -> bool:
        """Whether `terms` give the weights: the model is decomposable, or all of it is public."""
        return all(map(knowledge.structure.shows, self.generators))

    def equals_released(self, knowledge: Knowledge) -> bool:
        """Whether the law given the release is `released`, because all of its model is public."""
        return self.is_explicit(knowledge) and not self.terms(knowledge)

    def terms(self, knowledge: Knowledge) -> Terms:
        """Sub-tables whose factors differ between feasible tables, with +1 for a clique and -1 for a separator.

        Factors of released sub-tables do not differ. For explicit laws only, see `is_explicit`.
        """
        signs = Counter[SubTable]()
        for sub_table, sign in self._factors():
            if not knowledge.structure.shows(sub_table):
                signs[sub_table] += sign
        return tuple(sorted((sub_table, sign) for sub_table, sign in signs.items() if sign))

    def alpha_of(self, sub_table: SubTable, schema: Schema) -> float:
        """alpha_C of each cell of a factor's sub-table."""
        return (self.alpha or 0.0) * schema.cells / math.prod(schema.sizes[v] for v in st.members(sub_table))

    def log_probability(self, table: Table) -> float:
        """log Pr(F | A) of the table among all with as many records: n! / prod f_i! I(f + alpha) / I(alpha).

        Raises InputError for `released`, which has no prior, and for a non-decomposable model. Impossible cells have a
        probability too: the prior does not know them.
        """
        if self.model is None:
            raise InputError(
                f"the law {self.name} gives no table a probability in closed form: it has no prior, or its model is "
                f"not decomposable; name a decomposable one, such as {SATURATED} or [a,b][b,c]"
            )
        log = gammaln(table.total + 1) - gammaln(table.counts + 1).sum()
        for sub_table, sign in self._factors():
            alpha = self.alpha_of(sub_table, table.schema)
            counts = table.marginal(sub_table).counts if sub_table else np.array([table.total])
            # an empty cell changes nothing: Gamma(0 + alpha) / Gamma(alpha)
            log += sign * (gammaln(counts + alpha) - gammaln(alpha)).sum()
        return float(log)

    def _factors(self) -> list[tuple[SubTable, int]]:
        """Cliques and separators; the total closes the junction tree, as the integral is over a simplex."""
        if self.model is None:
            return []
        return [(c, +1) for c in self.model.cliques] + [(s, -1) for s in (*self.model.separators, st.GRAND_TOTAL)]


def law_of(text: str, schema: Schema, alpha: float = 0.5) -> Law:
    """The law with this name; variables outside the model are independent.

    Raises InputError for another name, a non-positive alpha, or an unknown variable.
    """
    if not (alpha > 0 and math.isfinite(alpha)):
        raise InputError(f"alpha = {alpha}; give a number above 0, such as 0.5")
    name = text.strip()
    if name == RELEASED:
        return Law(RELEASED)
    if name in (UNIFORM, SATURATED):
        # Gamma(f + 1) / f! is 1: with alpha 1 all tables of a total are equally likely
        return Law(name, 1.0 if name == UNIFORM else alpha, Decomposition((st.full(len(schema)),), ()))
    named = generators_of(name, schema)
    if named is None:
        raise InputError(f"law {text!r} is unknown; choose {NAMES}")
    generators = Release.of([*named, *(1 << v for v in range(len(schema)))])
    model = decompose(generators, len(schema))
    return Law(name, alpha, model, () if model else generators.frontier)


def generators_of(text: str, schema: Schema) -> list[SubTable] | None:
    """The generators in `[a,b][b,c]`, None for other texts; InputError for an unknown variable."""
    if not re.fullmatch(r"(\[[^\[\]]*\]\s*)+", text.strip()):
        return None
    named = (inside.split(",") for inside in re.findall(r"\[([^\[\]]*)\]", text))
    return [st.of(schema.index(name.strip()) for name in names) for names in named]


def check_zeros(law: Law, knowledge: Knowledge) -> None:
    """ReleaseError for a model of several generators with structural zeros, to which its prior gives a probability."""
    if knowledge.zeros and (law.generators or (law.model is not None and len(law.model.cliques) > 1)):
        raise ReleaseError(
            f"the law {law.name} gives structural zeros a probability above 0; choose {RELEASED}, {UNIFORM} or "
            f"{SATURATED}"
        )
