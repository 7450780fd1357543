"""What works with each criterion beside the width; the registry, the config and the handbook read it."""

from __future__ import annotations

from dataclasses import replace

from sdc.config.features import (
    AT_LEAST,
    BEFORE,
    CONSTRAINTS,
    DRAWING,
    ESTIMATED,
    FILES,
    FORBID,
    IMPOSSIBLE,
    IN_PARTS,
    LIKELY,
    MINUTES,
    OBJECTIVE,
    OF_CONFIGS,
    ONLY,
    OUTER,
    REQUIRE,
    SERVED,
    SHARP,
    WEIGHT,
    Declared,
)
from sdc.config.methods import METHODS

_EVERYWHERE = (*IMPOSSIBLE, SHARP, *FILES, *LIKELY, *ESTIMATED)
"""What each criterion that a config may leave out works with."""
_COUNTED = Declared(
    "",
    works=(*METHODS, *_EVERYWHERE, WEIGHT, *CONSTRAINTS, *IN_PARTS, OUTER, "curve", *SERVED, *OF_CONFIGS),
    refused=(
        (BEFORE, "earlier publications may break the rule already, and stay public; leave one out"),
        (
            ("remedies",),
            "recodes are tried on small cells of the full table, and the rule concerns published cells; leave one out",
        ),
        (
            ("suppress",),
            "it suppresses by the small count alone; require the sub-table in a build, with protect, and use sdc run",
        ),
    ),
)
_NOT_MONOTONE = "a limit on the posterior is not monotone: with more released true counts may become less likely, so"

CRITERIA = (
    replace(_COUNTED, name="risk.min_frequency"),
    replace(_COUNTED, name="risk.attribute_disclosure"),
    Declared(
        "risk.min_values",
        works=(*("ordered", "bisection", *_EVERYWHERE, *CONSTRAINTS, "curve", "server", *BEFORE), *OF_CONFIGS),
        refused=(
            (
                ("best", "optimum", "decomposable", "simulatable", DRAWING),
                "it compares widths of many releases at once, and no numbers of values; choose ordered or bisection",
            ),
            (
                (WEIGHT,),
                "totals of weights exclude values of cells, and the rule does not consider that; leave one out",
            ),
            (IN_PARTS, "suppression is sought for the width alone; leave one out"),
            ((OUTER,), "the number of values is proven, or nothing is released; set risk.accept_undecided to false"),
            (("remedies", "redesign"), "recodes are tried for the width alone; leave one out"),
            (("suppress",), "it suppresses for the width alone; leave one out"),
            (("risk.posterior",), "no search method keeps both; leave one out"),
        ),
    ),
    Declared(
        "risk.posterior",
        works=(
            *("decomposable", "simulatable", *_EVERYWHERE, OBJECTIVE, REQUIRE, FORBID, MINUTES, AT_LEAST, OUTER),
            *OF_CONFIGS,
        ),
        refused=(
            (BEFORE, "a limit on the posterior is not judged together with earlier publications; leave one out"),
            (
                ("ordered", "bisection", "best", "optimum"),
                f"{_NOT_MONOTONE} no search may cut by a refusal; choose decomposable or simulatable",
            ),
            (("remedies", "redesign"), f"{_NOT_MONOTONE} no recode is shown to help; leave one out"),
            (("curve",), "a curve varies the minimum width alone; leave one out"),
            (
                (*SERVED, "simulate", "replay", "audit"),
                f"{_NOT_MONOTONE} a server has no frontiers to keep; leave one out",
            ),
            ((WEIGHT,), "posterior laws use counts alone, and totals of weights disclose more; leave one out"),
            (
                (ONLY,),
                "a decomposable release has more than the required sub-tables; choose ordered, bisection or best, or "
                "leave required_only out",
            ),
            (IN_PARTS, "suppression is sought for the width alone; leave one out"),
            (("risk.min_values",), "no search method keeps both; leave one out"),
        ),
    ),
)
"""Those beside the width, each under its key, and which of the others they work with."""
