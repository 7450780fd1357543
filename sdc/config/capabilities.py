"""What works with what: methods, verbs and the features of a config, pair by pair; or the sentence that refuses it.

Config, commands, server, Python and the handbook read this table. A pair that is nowhere in it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, product
from typing import Any

from sdc.config.features import (
    A_MODEL,
    AT_LEAST,
    ATTACK,
    BEFORE,
    CHILDREN,
    COARSEN,
    CONSTRAINTS,
    DRAWING,
    ESTIMATED,
    FILES,
    FORBID,
    FORMATS,
    HIERARCHIES,
    IMPOSSIBLE,
    IN_FOLDER,
    IN_PART,
    IN_PARTS,
    KEY,
    LIKELY,
    LISTED,
    MINUTES,
    MISSING,
    MODEL,
    OBJECTIVE,
    OF_WHOLE,
    ONLY,
    OUTER,
    REPORTED,
    REQUIRE,
    RICH,
    ROUND,
    SERVED,
    SHARP,
    STATED,
    TOTALS,
    UNIQUES,
    UPLOAD,
    VERBS,
    WEIGHT,
    ZEROS,
    Capability,
    Kind,
)
from sdc.config.methods import CRITERIA, DECLARED_METHODS, METHOD_OF, METHODS, SETTINGS_OF
from sdc.model.errors import ConfigError, meant

_CRITERIA = tuple(one.name for one in CRITERIA)
FEATURES = (
    *(*IMPOSSIBLE, WEIGHT, MISSING, *BEFORE, *CONSTRAINTS, *IN_PARTS, *_CRITERIA),
    *(OUTER, SHARP, *FILES, *REPORTED, *SERVED),
)


def _listed() -> Iterator[Capability]:
    for name in METHODS:
        yield Capability(name, Kind.METHOD, ("release.method",), (name,), (f"{name}_release",))
    keys: dict[str, tuple[str, ...]] = {"labels": ("labels.variables", "labels.code_list")}
    keys |= {ROUND: (IN_PART,), COARSEN: (IN_PART,)}
    keys |= {"posterior": ("posterior", "curve.decision"), MODEL: (MODEL, "curve.decision.laws")}
    values = {SHARP: ("sharp",), FORMATS: RICH, DRAWING: ("simulatable",), MODEL: (A_MODEL,)}
    values |= {ROUND: ("rounding",), COARSEN: ("recoding",), OBJECTIVE: ("reconstruction", "reconstruction_non_zero")}
    also = {"curve": ("risk_utility_curve", "decide"), "server": ("serve",)}
    for name in FEATURES:
        yield Capability(name, Kind.FEATURE, keys.get(name, (name,)), values.get(name, ()), also.get(name, ()))
    for name, others in VERBS.items():
        yield Capability(name, Kind.VERB, also=others)


CAPABILITIES = {one.name: one for one in _listed()}
"""By their names, in the order in which they are listed."""

WORKS: dict[str, tuple[str, ...]] = {
    **{name: one.works for name, one in METHOD_OF.items()},
    ZEROS: (HIERARCHIES, WEIGHT, *BEFORE, *CONSTRAINTS, *IN_PARTS, OUTER, SHARP, *FILES, *STATED, "server"),
    HIERARCHIES: (WEIGHT, *BEFORE, *CONSTRAINTS, *IN_PARTS, OUTER, SHARP, *FILES, *STATED, "server"),
    WEIGHT: (*CONSTRAINTS, OUTER, SHARP, "labels", CHILDREN, KEY, UPLOAD, "curve", "remedies", UNIQUES),
    MISSING: ("ordered", "bisection", REQUIRE, FORBID, ONLY, MINUTES, SHARP, *FILES, "assess"),
    "earlier": ("ledger", *CONSTRAINTS, *IN_PARTS, OUTER, SHARP, *FILES, "curve", "posterior", *ESTIMATED),
    "ledger": (*CONSTRAINTS, *IN_PARTS, OUTER, SHARP, *FILES, "curve", "posterior", *ESTIMATED),
    OBJECTIVE: (REQUIRE, FORBID, ONLY, MINUTES, AT_LEAST, *IN_PARTS, OUTER, SHARP, *FILES, *REPORTED),
    REQUIRE: (FORBID, ONLY, MINUTES, AT_LEAST, *IN_PARTS, OUTER, SHARP, *FILES, *REPORTED),
    FORBID: (ONLY, MINUTES, AT_LEAST, *IN_PARTS, OUTER, SHARP, *FILES, *REPORTED),
    ONLY: (MINUTES, AT_LEAST, *IN_PARTS, OUTER, SHARP, *FILES, *LIKELY, *ESTIMATED),
    MINUTES: (AT_LEAST, *IN_PARTS, OUTER, SHARP, *FILES, *LIKELY, *ESTIMATED),
    AT_LEAST: (*IN_PARTS, OUTER, SHARP, *FILES, *REPORTED),
    IN_PART: (ROUND, COARSEN, SHARP, *FILES, "posterior", *ESTIMATED),
    ROUND: (COARSEN, SHARP, *FILES, "posterior", *ESTIMATED),
    COARSEN: (SHARP, *FILES, "posterior", *ESTIMATED),
    OUTER: (SHARP, *FILES, *REPORTED),
    SHARP: (*FILES, *REPORTED, *SERVED),
    "labels": (FORMATS, CHILDREN, LISTED, TOTALS, KEY, UPLOAD, *REPORTED, *SERVED),
    FORMATS: (CHILDREN, LISTED, TOTALS, KEY, UPLOAD, *REPORTED),
    CHILDREN: (LISTED, TOTALS, KEY, UPLOAD, *REPORTED),
    LISTED: (TOTALS, KEY, UPLOAD, *REPORTED),
    TOTALS: (KEY, UPLOAD, *REPORTED),
    KEY: (UPLOAD, *REPORTED),
    UPLOAD: REPORTED,
    "curve": ("remedies", *LIKELY, *ESTIMATED, *SERVED),
    "remedies": (*LIKELY, *ESTIMATED, *SERVED),
    "posterior": (MODEL, *ESTIMATED, *SERVED),
    MODEL: (*ESTIMATED, *SERVED),
    UNIQUES: (ATTACK, *SERVED),
    ATTACK: SERVED,
    "server": (DRAWING,),
    **dict.fromkeys(("run", "plan", "verify", "compare", "explore", "widths", "sweep"), FEATURES),
    **dict.fromkeys(
        ("bounds", "assess", "why", "enumerate", "fit", "check"),
        (*IMPOSSIBLE, *BEFORE, *CONSTRAINTS, *IN_PARTS, OUTER, SHARP, *FILES, *REPORTED, *SERVED),
    ),
    "redesign": (*IMPOSSIBLE, *CONSTRAINTS, OUTER, SHARP, *FILES, *REPORTED, *SERVED),
    "release": (*IMPOSSIBLE, WEIGHT, *CONSTRAINTS, OUTER, SHARP, *FILES, *REPORTED, *SERVED),
    "publish": (*IMPOSSIBLE, *CONSTRAINTS, SHARP, *IN_FOLDER, *REPORTED, *SERVED),
    **dict.fromkeys(
        ("suppress", "round"),
        (*IMPOSSIBLE, "earlier", *CONSTRAINTS, *IN_PARTS, OUTER, SHARP, *FILES, *REPORTED, *SERVED),
    ),
    **dict.fromkeys(("simulate", "replay", "audit"), (*IMPOSSIBLE, SHARP, "labels", *REPORTED, *SERVED)),
}
"""What works with each of them, named once for each pair. Who adds a capability says of every other that it does."""

_BY_SERVERS = (*SERVED, "simulate", "replay", "audit")
_ALONE = "it is not judged together with earlier publications; leave it out, or leave out earlier and ledger"
_COUNTS = "totals of weights disclose counts too, and this command does not know them; leave one out, or give the table"

_COMPLETE = tuple(
    name
    for name in (*METHODS, *FEATURES, *VERBS)
    if name not in (*WORKS[MISSING], MISSING, "magnitude") and MISSING not in WORKS.get(name, ())
)
"""What is refused for a table with missing counts."""

_REFUSED: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (("remedies", *SERVED, WEIGHT), BEFORE, _ALONE),
    (
        ("simulate", "replay", "audit"),
        BEFORE,
        "a server does not judge its answers together with earlier publications; leave earlier and ledger out",
    ),
    (("redesign",), BEFORE, _ALONE),
    (
        ("suppress", "round"),
        ("ledger",),
        "it makes no entry in a ledger; use sdc run, and require the sub-table there, with required_only and protect",
    ),
    (("release", "publish"), BEFORE, "only a build judges together with earlier publications; use sdc run"),
    (
        (DRAWING,),
        IMPOSSIBLE,
        "a draw may have records where everybody knows that there are none; leave them out, or leave the rule out",
    ),
    ((OUTER,), _BY_SERVERS, "a server releases only proven tables; set risk.accept_undecided to false"),
    ((OUTER,), ("publish",), "only a build publishes undecided cells; use sdc run"),
    ((WEIGHT,), (FORMATS,), "only csv and parquet carry totals of weights; name these alone"),
    ((WEIGHT,), (LISTED, TOTALS), "zeros and totals are listed for counts alone; leave one out"),
    (
        (MODEL,),
        (*IMPOSSIBLE, *BEFORE),
        "the prior of a model gives a probability to tables that structural zeros, hierarchies or earlier "
        "publications exclude; choose released, uniform or saturated",
    ),
    (
        (WEIGHT,),
        (*LIKELY, ATTACK),
        "posterior laws use counts alone, and totals of weights disclose more; leave one out",
    ),
    ((WEIGHT,), _BY_SERVERS, "a server answers with counts, and does not know totals of weights; leave one out"),
    ((WEIGHT,), ("bounds", "assess", "why", "redesign", "enumerate", "fit", "suppress", "round", "check"), _COUNTS),
    ((WEIGHT,), ("publish",), "only a build judges which totals of weights may be published; use sdc run"),
    (
        (ONLY, MINUTES),
        ("curve", "remedies"),
        "most sub-tables that are left out are then not evaluated, so the gain of another width or a recode is not "
        "known; leave one out",
    ),
    ((ONLY, MINUTES), _BY_SERVERS, "a server decides on each request as it comes; leave it out"),
    (
        (OBJECTIVE,),
        _BY_SERVERS,
        "a server decides on each request as it comes, and its rule value has its own reconstruction; leave it out",
    ),
    (
        (REQUIRE,),
        _BY_SERVERS,
        "a server decides on each request as it comes; leave it out, or let it begin with a run: server.start",
    ),
    ((AT_LEAST,), _BY_SERVERS, "a server decides on each request as it comes, however few are released; leave it out"),
    ((FORBID,), _BY_SERVERS, "a server does not read it, and would release the sub-table; leave one out"),
    ((FORMATS, LISTED, TOTALS), _BY_SERVERS, "each request to a server names its format; leave it out"),
    ((CHILDREN,), _BY_SERVERS, "a server answers with every sub-table that a released one implies; leave it out"),
    ((KEY,), _BY_SERVERS, "a server signs nothing; leave it out"),
    ((UPLOAD,), _BY_SERVERS, "a server uploads nothing; leave it out"),
    ((UPLOAD,), ("publish",), "it publishes into a folder of this machine, and uploads nothing; use sdc run"),
    (IN_PARTS, (WEIGHT,), "totals of weights would disclose suppressed cells; leave one out"),
    (IN_PARTS, (OUTER,), "a suppressed table is proven, or it is not published; set risk.accept_undecided to false"),
    (
        IN_PARTS,
        (*OF_WHOLE, "redesign"),
        "the gain of another width or other categories is asked of whole sub-tables; leave one out",
    ),
    (IN_PARTS, (MODEL,), "a model gives a probability to tables that the shown cells exclude; leave one out"),
    (
        IN_PARTS,
        (DRAWING,),
        "suppression depends on the records, and this rule allows no answer that does; leave protect out",
    ),
    (
        IN_PARTS,
        ("server", "simulate", "replay", "audit"),
        "each request to a server says whether a suppressed table is accepted; leave protect out",
    ),
    (IN_PARTS, ("release", "publish"), "a build alone finds and publishes suppressed tables; use sdc run"),
    (
        (MISSING,),
        (*BEFORE, WEIGHT, *IMPOSSIBLE),
        "the file with missing counts must have all that is known: list totals in it, and 0 for impossible cells",
    ),
    (
        (MISSING,),
        _BY_SERVERS,
        "a server's answers are replayed and audited from complete counts; build a release by sdc run",
    ),
    (
        (MISSING,),
        _COMPLETE,
        "it needs every count, or it is not proven that its answer is safe whatever they are; leave one out",
    ),
    (
        (*METHODS, *FEATURES),
        ("magnitude",),
        "it takes one file of records, reads no config, and judges no other publication; give the file",
    ),
)


def _declared() -> Iterator[tuple[tuple[str, ...], tuple[str, ...], str]]:
    """What criteria and methods declare that they do not work with, once for all that declare the same."""
    declared = *CRITERIA, *DECLARED_METHODS
    for others, why in dict.fromkeys(pair for one in declared for pair in one.refused):
        yield tuple(one.name for one in declared if (others, why) in one.refused), others, why


REFUSED = (*_declared(), *_REFUSED)
"""Of the pairs of each of the ones with each of the others, why not and what to do."""

for _one in CRITERIA:
    _excluded = {name for others, _ in _one.refused for name in others}
    _known = {name for name, others in WORKS.items() if _one.name in others}  # each pair stands once
    _excluded |= {*_known, _one.name}
    WORKS[_one.name] = tuple(name for name in (*_one.works, *_CRITERIA) if name not in _excluded)


def capability(name: str) -> Capability:
    """The one of this name; ConfigError with the nearest where there is none."""
    found = CAPABILITIES.get(name) or next((one for one in CAPABILITIES.values() if name in one.also), None)
    if found is None:
        names = [name for one in CAPABILITIES.values() for name in (one.name, *one.also)]
        raise ConfigError(f"{name!r} is not a capability; {meant(name, names, most=3)}sdc capabilities lists all")
    return found


def asked_at(value_at: Callable[[str], Any]) -> Iterator[str]:
    """The capabilities that are asked for by the values at their keys."""
    for one in CAPABILITIES.values():
        if any(one.is_asked(value_at(key)) for key in one.keys):
            yield one.name


def refusal(one: str, other: str) -> str | None:
    """Why the two do not work together, and what to do, in a sentence; None where they do. ConfigError as above."""
    first, second = sorted((capability(one), capability(other)), key=list(CAPABILITIES.values()).index)
    if second.name in WORKS.get(first.name, ()) or first.name in WORKS.get(second.name, ()):
        return None
    return f"{first.said} with {second.said}: {_why(first, second)}"


def _why(first: Capability, second: Capability) -> str:
    if first.kind is second.kind is not Kind.FEATURE or first is second:
        return "only one can be chosen; name one"
    pairs = {(first.name, second.name), (second.name, first.name)}
    reasons = (why for ones, others, why in REFUSED if pairs & set(product(ones, others)))
    return next(reasons, "it is not proven that they work together; leave one out")


def refusals(names: Iterable[str]) -> Iterator[str]:
    """Of all pairs of these that do not work together."""
    return (said for one, other in combinations(names, 2) if (said := refusal(one, other)) is not None)


def require_together(*names: str) -> None:
    """ConfigError with every refusal where not all of these work together."""
    if said := "; ".join(refusals(names)):
        raise ConfigError(said)


def require_used(method: str, given: Iterable[str], others: Iterable[str] = ()) -> None:
    """ConfigError for settings that neither the method nor another search uses."""
    searches = {method, *others}
    named = {name: SETTINGS_OF[name] for name in given if not {*SETTINGS_OF.get(name, searches)} & searches}
    if not named:
        return
    users = [one for one in METHODS if all(one in using for using in named.values())]
    instead = f", or choose {' or '.join(users)}" if users else ""
    raise ConfigError(
        f"release.method = {method} with {', '.join(named)}: the method does not use it; leave it out{instead}"
    )


def pairs() -> Iterator[tuple[Capability, Capability]]:
    """All that can be asked for together: no two methods, no two verbs."""
    for one, other in combinations(CAPABILITIES.values(), 2):
        if one.kind is not other.kind or one.kind is Kind.FEATURE:
            yield one, other


def pair_facts(*names: str) -> list[dict[str, Any]]:
    """Of each pair that can be asked for, or that has this one or these two, whether it works, and why not."""
    asked = {capability(name).name for name in names}
    if len(names) > 1 and (len(asked) != len(names) or len(names) > 2):
        raise ConfigError(f"{', '.join(names)}: name two different capabilities")
    listed = [(one.name, other.name) for one, other in pairs() if asked <= {one.name, other.name}]
    if len(asked) == 2 and not listed:
        listed = [(names[0], names[1])]
    return [{"one": one, "other": other, "refused": refusal(one, other)} for one, other in listed]


def page() -> str:
    """The table as Markdown: of each capability what it does not work with, and why; all else works."""
    rows = [
        f"| {one.said} | {', '.join(f'{name} ({number})' for name, number in _refused(one)) or 'nothing'} |"
        for one in CAPABILITIES.values()
    ]
    reasons = [f"{number}. {why[0].upper()}{why[1:]}." for number, (_, _, why) in enumerate(REFUSED, start=1)]
    return "\n".join(["| | does not work with |", "| --- | --- |", *rows, "", *reasons, ""])


def _refused(one: Capability) -> Iterator[tuple[str, int]]:
    """Names of what is refused beside it, each with the number of the reason."""
    for number, (ones, others, _) in enumerate(REFUSED, start=1):
        for side, other_side in ((ones, others), (others, ones)):
            if one.name in side:
                yield from ((name, number) for name in other_side)
