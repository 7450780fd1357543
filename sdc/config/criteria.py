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
        (BEFORE, "what was published before may break the rule already, and stays public; leave one out"),
        (
            ("remedies",),
            "recodes are tried on small cells of the full table, and the rule is of what is published; leave one out",
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
        works=(
            *("ordered", "bisection", *_EVERYWHERE, *CONSTRAINTS, "curve", "server", *BEFORE),
            *OF_CONFIGS,
        ),
        refused=(
            (
                ("best", "optimum", "decomposable", "simulatable", DRAWING),
                "it compares the widths of many releases at once, and no values; choose ordered or bisection",
            ),
            ((WEIGHT,), "totals of weights exclude values, which are not looked at; leave one out"),
            (IN_PARTS, "suppression is sought for the width alone; leave one out"),
            ((OUTER,), "values are proven, or nothing is released; set risk.accept_undecided to false"),
            (("remedies", "redesign"), "recodes are tried for the width alone; leave one out"),
            (("suppress",), "it suppresses for the width alone; leave one out"),
            (("risk.posterior",), "no method searches for both; leave one out"),
        ),
    ),
    Declared(
        "risk.posterior",
        works=(
            *("decomposable", "simulatable", *_EVERYWHERE, OBJECTIVE, REQUIRE, FORBID, MINUTES, AT_LEAST, OUTER),
            *OF_CONFIGS,
        ),
        refused=(
            (BEFORE, "what judges together with what was published before knows no limit; leave one out"),
            (
                ("ordered", "bisection", "best", "optimum"),
                f"{_NOT_MONOTONE} no search may cut by a refusal; choose decomposable or simulatable",
            ),
            (("remedies", "redesign"), f"{_NOT_MONOTONE} no recode is shown to help; leave one out"),
            (("curve",), "the points of a curve are of widths alone; leave one out"),
            (
                (*SERVED, "simulate", "replay", "audit"),
                f"{_NOT_MONOTONE} a server has no frontiers to keep; leave one out",
            ),
            ((WEIGHT,), "what is likely is found from counts alone, and totals tell more; leave one out"),
            (
                (ONLY,),
                "a decomposable release has more than what is required; choose ordered, bisection or best, or leave "
                "required_only out",
            ),
            (IN_PARTS, "suppression is sought for the width alone; leave one out"),
            (("risk.min_values",), "no method searches for both; leave one out"),
        ),
    ),
)
"""Those beside the width, each under its key, and which of the others they work with."""
