"""What each search method and each criterion works with; what methods do. Configs, searches and reports read it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

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
    REPORTED,
    REQUIRE,
    SERVED,
    SHARP,
    WEIGHT,
    Declared,
    by_name,
)

SECTIONS = {"annealing": ("chains", "steps", "start", "seed"), "simulatable": ("draws", "share", "seed")}
"""Sections of `release`, and those of their settings that stand alone where they are given beside a file."""
_GREEDY, _ROUNDS = ("first_dimension", "max_evaluations"), ("neighbourhood",)
_CHAINS = ("annealing", *SECTIONS["annealing"])
_OUTPUTS = (OUTER, SHARP, *FILES)
_ALSO = ("curve", *LIKELY, *ESTIMATED, *SERVED, *OF_CONFIGS)
_NO_RECODES = (
    ("remedies",),
    "recodes are tried on the sub-tables that the ordered search refuses, and this method has none; choose "
    "ordered or best",
)
_GRAPHS = (
    (
        BEFORE,
        "decomposable releases are not sought beside earlier publications; choose ordered, bisection or best",
    ),
    (
        (ONLY,),
        "a decomposable release has more than the required sub-tables; choose ordered, bisection or best, or leave "
        "required_only out",
    ),
)


@dataclass(frozen=True)
class DeclaredMethod(Declared):
    """A search method, under its name in `release.method`.

    does         as a report says it, after a colon
    settings     of the section `release`, or of Python, that it uses and not every method does
    is_monotone  whether it leaves out what contains a refused release, which asks for monotone criteria
    on_curve     whether a risk-utility curve can have it
    """

    does: str
    settings: tuple[str, ...] = ()
    is_monotone: bool = True
    on_curve: bool = True


DECLARED_METHODS = (
    DeclaredMethod(
        "ordered",
        works=(*IMPOSSIBLE, WEIGHT, *BEFORE, *CONSTRAINTS, *IN_PARTS, *_OUTPUTS, *REPORTED, *SERVED, *OF_CONFIGS),
        refused=(),
        does="it evaluates the required sub-tables first, then all candidates at once; if they are not releasable "
        "together, it adds those that fit, in an order by critical width and weight",
        settings=(*_GREEDY, *_ROUNDS),
    ),
    DeclaredMethod(
        "bisection",
        works=(*IMPOSSIBLE, WEIGHT, *BEFORE, *CONSTRAINTS, *IN_PARTS, *_OUTPUTS, *_ALSO),
        refused=(_NO_RECODES,),
        does="it releases the longest releasable prefix of the list by critical width ([KDSF] 5.2)",
    ),
    DeclaredMethod(
        "decomposable",
        works=(*IMPOSSIBLE, WEIGHT, OBJECTIVE, REQUIRE, FORBID, MINUTES, AT_LEAST, *_OUTPUTS, *_ALSO),
        refused=(
            _NO_RECODES,
            *_GRAPHS,
            (
                IN_PARTS,
                "suppression is sought beside a release that grows, and this method has none; choose ordered, "
                "bisection or best",
            ),
        ),
        does="it releases the best decomposable graph that annealing found ([KDSF] 5.1)",
        settings=_CHAINS,
        is_monotone=False,
    ),
    DeclaredMethod(
        "best",
        works=(*IMPOSSIBLE, WEIGHT, *BEFORE, *CONSTRAINTS, *IN_PARTS, *_OUTPUTS, *REPORTED, *SERVED, *OF_CONFIGS),
        refused=(),
        does="it takes the best of three releases, by “bisection”, by “ordered”, and by “decomposable” with a greedy "
        "extension",
        settings=(*_GREEDY, *_ROUNDS, *_CHAINS),
    ),
    DeclaredMethod(
        "optimum",
        works=(
            *(*IMPOSSIBLE, WEIGHT, *BEFORE, REQUIRE, FORBID, ONLY, MINUTES, AT_LEAST, *IN_PARTS, *_OUTPUTS),
            *_ALSO,
        ),
        refused=(
            _NO_RECODES,
            (
                (OBJECTIVE,),
                "the quality of a reconstruction is not a sum over sub-tables, so it has no upper bound; choose best",
            ),
        ),
        does="a solver proposes releases, best first; each refuted set is excluded from later proposals",
        settings=_GREEDY,
        on_curve=False,
    ),
    DeclaredMethod(
        "simulatable",
        works=(WEIGHT, REQUIRE, FORBID, AT_LEAST, *_OUTPUTS, *_ALSO),
        refused=(
            _NO_RECODES,
            *_GRAPHS,
            (
                IMPOSSIBLE,
                "a draw may have records where everybody knows that there are none; leave them out, or choose ordered",
            ),
            (
                IN_PARTS,
                "suppression depends on the records, and decisions of this method must not; choose ordered, bisection "
                "or best",
            ),
            (
                (MINUTES,),
                "the point that it reaches in a time may disclose something of the table; leave minutes out",
            ),
            (
                (OBJECTIVE,),
                "the quality of a reconstruction discloses something, and decisions must not; set it to sub_tables",
            ),
        ),
        does="it takes only decisions that reveal nothing of the table",
        settings=("simulatable", *SECTIONS["simulatable"]),
        is_monotone=False,
        on_curve=False,
    ),
)
METHOD_OF = by_name(DECLARED_METHODS)
METHODS = tuple(METHOD_OF)
CURVE_METHODS = tuple(one.name for one in DECLARED_METHODS if one.on_curve)
if TYPE_CHECKING:
    SearchMethod: TypeAlias = str
    CurveMethod: TypeAlias = str
else:  # the config refuses others by their names
    SearchMethod, CurveMethod = Literal[METHODS], Literal[CURVE_METHODS]
SETTINGS_OF = {
    setting: tuple(one.name for one in DECLARED_METHODS if setting in one.settings)
    for setting in dict.fromkeys(name for one in DECLARED_METHODS for name in one.settings)
}
"""Settings of a search as configs, commands and Python name them, and the methods that use them."""


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
