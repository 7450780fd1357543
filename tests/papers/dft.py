"""[DFT]: bounds of a table of three variables, and what a release makes likely of its small cells."""

from collections.abc import Callable
from typing import cast

import numpy as np

from sdc import api
from sdc.intruder.posterior import Posterior
from tests.papers import pictures
from tests.papers.item import Item, Value
from tests.papers.sources import CONDITIONAL, DELAWARE, DELAWARE_RELEASE, PRIORS, WITHOUT_SECOND_ORDER, Sources

Rows = dict[str, list[float]]
CELLS = ((0, 2, 0), (0, 2, 1), (1, 2, 1), (0, 2, 2))
"""The small cells in the order of tables 2 to 5."""
OF_CHAINS = (
    "those computed are sampled until no standard error is above .005, as the model without second-order interaction "
    "has no exact law"
)
EXACT, SAMPLED = 0.005, 0.015
"""Half of the last digit that is printed; and three standard errors of chains."""
DRAWS = (
    "the printed probabilities are estimates from 500 draws, with standard errors of up to .022; the exact ones differ"
)

_MALE = [[85, 107], [64, 80], [158, 169], [0, 21], [0, 14], [0, 9], [0, 1], [0, 2], [0, 2]]
_FEMALE = [[175, 197], [119, 135], [43, 54], [0, 21], [0, 14], [0, 9], [0, 1], [0, 2], [0, 2]]


def _named(cell: tuple[int, ...]) -> str:
    """As tables 2 to 5 number gender, race and income."""
    return f"({', '.join(str(code + 1) for code in cell)})"


def _rows(*rows: list[float]) -> Rows:
    return dict(zip(map(_named, CELLS), rows, strict=True))


def _labelled(ends: list[list[int]]) -> dict[str, list[int]]:
    cells = np.indices(DELAWARE.schema.sizes).reshape(3, -1).T.tolist()
    return {" ".join(DELAWARE.schema.named(cell).values()): end for cell, end in zip(cells, ends, strict=True)}


def _bounds(_: Sources) -> Value:
    return _labelled(api.cell_bounds(DELAWARE, DELAWARE_RELEASE, cells="all").outer.tolist())


def _laws(found: Posterior) -> Value:
    """The probabilities of the counts of each small cell, from 0 on."""
    places = {tuple(cell): row for row, cell in enumerate(found.cells.cells.tolist())}
    return _rows(*([round(p, 4) for p in found.cells.of(places[cell]).tolist()] for cell in CELLS))


def _posterior(law: str) -> Posterior:
    return api.posterior(DELAWARE, DELAWARE_RELEASE, law=law, alpha=0.5)


def _of_model(law: str) -> Value:
    return _laws(_posterior(law))


def _of_average(sources: Sources, law: str) -> Value:
    return _laws(next(one.posterior for one in sources.averaged.models if one.posterior.law == law))


def _models(found: Posterior) -> Value:
    return {_MODELS[one.posterior.law]: round(one.probability, 4) for one in found.models}


_MODELS = dict(zip(PRIORS, ("saturated", "no second order", "conditional independence"), strict=True))


def _of_small_cells(
    table: int, of: str, printed: Rows, compute: Callable[[Sources], Value], checked: Rows | None, within: float
) -> Item:
    """One of tables 2 to 5; `checked` where 500 draws miss what is exact."""
    key = f"dft-table-{table}"
    of_table_2 = "; the printed .31 of (1, 3, 2) is three standard errors from .376" if table == 2 else ""
    return Item(
        key,
        "DFT",
        f"table {table}",
        f"Probabilities of the counts of the small cells, from 0 on: {of}.",
        printed,
        compute,
        checked=checked,
        why=""
        if checked is None
        else f"{DRAWS}; {OF_CHAINS if within == SAMPLED else 'those computed are exact'}{of_table_2}",
        within=within,
        draw=lambda _, computed: pictures.laws(key, printed, cast(Rows, computed)),
    )


def _decision(_: Sources) -> Value:
    """Risk by thresholds, and the utility, of the small cells; the law is that of table 4."""
    laws = {**{f"risk at {t}": {t: 1.0} for t in (0.45, 0.5, 0.6)}, "risk over these": {0.45: 0.5, 0.5: 0.3, 0.6: 0.2}}
    scientists = [{"targets": "at-risk", "loss": "wrong"}]
    found = {
        name: api.decide(DELAWARE, {"it": DELAWARE_RELEASE}, intruders=[{"thresholds": law}], scientists=scientists)[0]
        for name, law in laws.items()
    }
    utility = next(iter(found.values())).utility
    return {**{name: round(one.risk or 0.0, 4) for name, one in found.items()}, "utility": utility or 0.0}


ITEMS = (
    Item(
        "dft-decision",
        "DFT",
        "section 3, (1) and (2)",
        "Risk of an intruder who claims small counts above a threshold, fixed or one of three with probabilities .5, "
        ".3 and .2, and utility for a scientist who loses 1 by each wrong guess; by the probabilities of table 4.",
        {"risk at 0.45": 0.75, "risk at 0.5": 0.25, "risk at 0.6": 0.0, "risk over these": 0.45, "utility": -0.25},
        _decision,
        within=1e-9,
    ),
    Item(
        "dft-table-1",
        "DFT",
        "table 1",
        "Bounds of all cells of gender, race and income, where race by income and income by gender are released.",
        _labelled(_MALE + _FEMALE),
        _bounds,
    ),
    _of_small_cells(
        2,
        "the saturated model, Dirichlet 0.5",
        _rows([0.50, 0.50], [0.43, 0.26, 0.31], [0.31, 0.26, 0.43], [0.39, 0.25, 0.36]),
        lambda _: _of_model("saturated"),
        _rows([0.499, 0.501], [0.374, 0.250, 0.376], [0.376, 0.250, 0.374], [0.378, 0.250, 0.372]),
        EXACT,
    ),
    _of_small_cells(
        3,
        "the model without second-order interaction",
        _rows([0.64, 0.36], [0.44, 0.36, 0.20], [0.20, 0.36, 0.44], [0.14, 0.34, 0.52]),
        lambda sources: _of_average(sources, WITHOUT_SECOND_ORDER),
        _rows([0.609, 0.391], [0.415, 0.357, 0.228], [0.228, 0.357, 0.415], [0.139, 0.313, 0.548]),
        SAMPLED,
    ),
    _of_small_cells(
        4,
        "conditional independence of gender and race given income",
        _rows([0.65, 0.35], [0.39, 0.47, 0.14], [0.14, 0.47, 0.39], [0.06, 0.37, 0.57]),
        lambda _: _of_model(CONDITIONAL),
        None,
        EXACT,
    ),
    _of_small_cells(
        5,
        "the average of the three models",
        _rows([0.62, 0.38], [0.44, 0.36, 0.20], [0.20, 0.36, 0.44], [0.15, 0.33, 0.52]),
        lambda sources: _laws(sources.averaged),
        _rows([0.606, 0.394], [0.406, 0.368, 0.225], [0.225, 0.368, 0.406], [0.148, 0.318, 0.535]),
        SAMPLED,
    ),
    Item(
        "dft-models",
        "DFT",
        "section 5.4",
        "Posterior probabilities of the three models, with priors of .22, .67 and .11.",
        dict(zip(_MODELS.values(), (0.18, 0.72, 0.10), strict=True)),
        lambda sources: _models(sources.averaged),
        checked=dict(zip(_MODELS.values(), (0.103, 0.695, 0.202), strict=True)),
        why="(8) to (10) average the probability of the release given the cell probabilities over draws of these from "
        "their posterior, which is another formula than the probability that a model gives the release; and the paper "
        "has 500 draws",
        within=SAMPLED,
    ),
    Item(
        "dft-models-over-draws",
        "DFT",
        "section 5.4, (8) to (10)",
        "The same by the printed formulas.",
        dict(zip(_MODELS.values(), (0.18, 0.72, 0.10), strict=True)),
        lambda sources: _models(sources.averaged_over_draws),
        checked=dict(zip(_MODELS.values(), (0.229, 0.663, 0.109), strict=True)),
        why="the printed probabilities are estimates from 500 draws, with standard errors of .02 to .03; those "
        "computed have 2,000",
        within=4 * SAMPLED / 3,
    ),
)
