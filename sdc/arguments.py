"""The verbs as notebooks have them: an argument of another type is refused by its name, and work says how far it is."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from functools import cache, wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from sdc.executor import IN_PROCESS
from sdc.intruder.limit import PosteriorLimit
from sdc.model.errors import InputError
from sdc.model.named import Drawn
from sdc.model.table import Table
from sdc.model.weights import RecordWeights
from sdc.progress import in_notebook
from sdc.risk.attributes import Attributes
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Budget
from sdc.search.found import Found

if TYPE_CHECKING:
    from sdc.report.shown import Figure
    from sdc.risk.critical_width import CriticalWidths


def _drawn(result: Drawn, **settings: Any) -> Figure:
    from sdc.report.shown import drawn

    return drawn(result, **settings)


def _explored(found: Found, widths: CriticalWidths | None = None) -> Any:
    from sdc.report.explorer import explored

    return explored(found, widths)


Drawn.drawing, Found.exploring = _drawn, _explored
Taken: TypeAlias = tuple[Callable[[Any], bool], str]


def _one(*kinds: type) -> Callable[[Any], bool]:
    # a boolean is an integer to Python, and to nobody else
    return lambda value: isinstance(value, kinds) and not isinstance(value, bool)


def _each(*kinds: type) -> Callable[[Any], bool]:
    is_one = _one(*kinds)
    return lambda value: not isinstance(value, str | bytes) and hasattr(value, "__len__") and all(map(is_one, value))


NUMBER: Taken = _one(Integral), "a whole number"
NUMBERS: Taken = _each(Integral), "a list of whole numbers"
FRACTION: Taken = _one(Real), "a number"
TEXT: Taken = _one(str), "a text"
TEXTS: Taken = _each(str), "a list of texts"
PATH: Taken = _one(str, os.PathLike), "a path"

TAKEN: dict[str, Taken] = {
    "table": (_one(Table), "a table, which sdc.read_table gives"),
    "found": (_one(Found), "a release that was found, such as by sdc.find_release"),
    **dict.fromkeys(("min_width", "small_count", "n_rule", "refute_cells", "base", "limit", "max_steps"), NUMBER),
    **dict.fromkeys(("floor", "most", "memory", "max_sweeps", "draws", "chains", "seed", "seeds", "workers"), NUMBER),
    **dict.fromkeys(("min_widths", "small_counts"), NUMBERS),
    **dict.fromkeys(("alpha", "share", "seconds", "error", "fraction"), FRACTION),
    **dict.fromkeys(("method", "law", "model", "title", "value", "contributor", "data", "weight"), TEXT),
    **dict.fromkeys(("methods", "variables"), TEXTS),
    **dict.fromkeys(("config", "run_folder", "before", "after", "file", "folder", "folders", "path"), PATH),
    "criteria": (_one(Criteria), "criteria, which sdc.criteria gives"),
    "posterior_limit": (_one(PosteriorLimit), "an sdc.PosteriorLimit"),
    "attributes": (_one(Attributes), "an sdc.Attributes"),
    "record_weights": (_one(RecordWeights), "weights, which sdc.read_weights gives"),
    "budget": (_one(Budget), "a sdc.risk.effort.Budget"),
    "executor": (lambda value: hasattr(value, "run"), "an executor, such as sdc.execution.cluster.open_executor gives"),
}
"""By the names of arguments, which mean the same in every verb. What is not here is looked at by the verb itself."""
NEVER_NONE = ("min_width", "small_count")
"""Of those that a verb takes among others."""


@cache
def checked(verb: Any) -> Any:
    """The verb, which in a notebook says how far it is; InputError for an argument of a type that it does not take.

    Classes are as they are.
    """
    if not inspect.isfunction(verb):
        return verb
    signature = inspect.signature(verb)
    takes_executor = "executor" in signature.parameters

    @wraps(verb)
    def call(*args: Any, **named: Any) -> Any:
        for name, value in _given(_bound(verb, signature, args, named)):
            _require(f"sdc.{verb.__name__}", name, value)
        if not takes_executor and "table" not in signature.parameters:  # a build says itself how far it is
            return verb(*args, **named)
        with in_notebook(f"sdc.{verb.__name__}") as watched:
            if takes_executor:
                named["executor"] = watched(named.get("executor", IN_PROCESS))
            return verb(*args, **named)

    return call


def _bound(verb: Any, signature: inspect.Signature, args: Any, named: Any) -> inspect.BoundArguments:
    """InputError, which says how the verb is called, where one is missing or is none of its own."""
    try:
        return signature.bind(*args, **named)
    except TypeError as error:
        needed = ", ".join(
            n for n, of in signature.parameters.items() if of.default is of.empty and of.kind < of.VAR_KEYWORD
        )
        about = "; public is what is public of the table already, None if nothing is" if "public" in needed else ""
        raise InputError(f"sdc.{verb.__name__}({needed}): {error}{about}") from None


def _given(bound: inspect.BoundArguments) -> Iterator[tuple[str, Any]]:
    """Each argument with its name, but for None where that may be."""
    for name, given in bound.arguments.items():
        of = bound.signature.parameters[name]
        if of.kind is of.VAR_POSITIONAL:
            yield from ((name, value) for value in given)
        elif of.kind is of.VAR_KEYWORD:
            yield from ((key, value) for key, value in given.items() if value is not None or key in NEVER_NONE)
        elif given is not None or "None" not in str(of.annotation):
            yield name, given


def _require(verb: str, name: str, value: Any) -> None:
    is_taken, words = TAKEN.get(name, (lambda _: True, ""))
    if not is_taken(value):
        raise InputError(f"{name} of {verb} is of the type {_kind(value)}; give {words}")


def _kind(value: object) -> str:
    library = type(value).__module__.partition(".")[0]
    return f"{'' if library == 'builtins' else f'{library}.'}{type(value).__name__}"
