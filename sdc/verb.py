"""The verbs as notebooks have them: their signature is checked as it is annotated, and work says how far it is."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from functools import cache, wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from sdc.config.old_keys import current, warn
from sdc.executor import IN_PROCESS
from sdc.model.errors import InputError
from sdc.model.named import Drawn
from sdc.model.table import Table
from sdc.model.weights import RecordWeights
from sdc.progress import in_notebook
from sdc.risk.attribute_disclosure import AttributeDisclosure
from sdc.risk.criteria import Criteria, CriteriaKeywords
from sdc.risk.effort import Budget
from sdc.risk.posterior_limit import PosteriorLimit
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
WORDS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((Integral,), "a whole number"),
    "float": ((Real,), "a number"),
    "str": ((str,), "a text"),
    "Path": ((os.PathLike,), "a path"),
    "Table": ((Table,), "a table, which sdc.read_table gives"),
    "Found": ((Found,), "a release that was found, such as by sdc.find_release"),
    "Criteria": ((Criteria,), "criteria, which sdc.criteria gives"),
    "PosteriorLimit": ((PosteriorLimit,), "an sdc.PosteriorLimit"),
    "AttributeDisclosure": ((AttributeDisclosure,), "an sdc.AttributeDisclosure"),
    "RecordWeights": ((RecordWeights,), "weights, which sdc.read_weights gives"),
    "Budget": ((Budget,), "a sdc.risk.effort.Budget"),
    "Executor": ((), "an executor, such as sdc.execution.cluster.open_executor gives"),
}
"""How messages call what annotations name. Whatever else an argument may be is looked at by the verb itself."""
_LISTS = {"Sequence[int]": ("int", "a list of whole numbers"), "Sequence[str]": ("str", "a list of texts")}


def _is(value: Any, kind: str) -> bool:
    if kind in _LISTS:
        each = not isinstance(value, str | bytes) and hasattr(value, "__len__")
        return each and all(_is(one, _LISTS[kind][0]) for one in value)
    if kind == "None":
        return value is None
    if kind == "Executor":
        return hasattr(value, "run")
    # a boolean is an integer to Python, and to nobody else
    return isinstance(value, WORDS[kind][0]) and not isinstance(value, bool)


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
    def call(*args: Any, **given: Any) -> Any:
        named = current(given, "risk", warn)
        for name, kind, value in _given(_bound(verb, signature, args, named)):
            _require(f"sdc.{verb.__name__}", name, kind.split(" | "), value)
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


def _given(bound: inspect.BoundArguments) -> Iterator[tuple[str, str, Any]]:
    """Each argument with its name and what its annotation is."""
    for name, given in bound.arguments.items():
        of = bound.signature.parameters[name]
        if of.kind is of.VAR_KEYWORD:
            kinds = {key: kind.__forward_arg__ for key, kind in CriteriaKeywords.__annotations__.items()}
            yield from ((key, kinds[key], value) for key, value in given.items() if key in kinds)
        else:
            yield from ((name, of.annotation, value) for value in (given if of.kind is of.VAR_POSITIONAL else [given]))


def _require(verb: str, name: str, kinds: list[str], value: Any) -> None:
    if {*kinds} <= {*WORDS, *_LISTS, "None"} and not any(_is(value, kind) for kind in kinds):
        words = [{**WORDS, **_LISTS}[kind][1] for kind in kinds if kind != "None"]
        raise InputError(f"{name} of {verb} is of the type {_kind(value)}; give {words[-1]}")


def _kind(value: object) -> str:
    library = type(value).__module__.partition(".")[0]
    return f"{'' if library == 'builtins' else f'{library}.'}{type(value).__name__}"
