"""The verbs as notebooks have them: their signature is checked as it is annotated, and work says how far it is."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from sdc.config.old_keys import current, warn
from sdc.events import warnings_shown
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
    from sdc.report.space import explored

    return explored(found, widths)


Drawn.drawing, Found.exploring = _drawn, _explored
WORDS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((Integral,), "a whole number"),
    "float": ((Real,), "a number"),
    "str": ((str,), "a text"),
    "Path": ((os.PathLike,), "a path"),
    "Table": ((Table,), "a table, which sdc.read_table gives"),
    "Found": ((Found,), "a release that was found, such as sdc.find_release gives"),
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


@dataclass(frozen=True)
class OldForm:
    """How a function was called until 0.78, which works for one release more.

    positional  the names of its arguments by place
    given       what its name said
    renamed     its names of arguments, and those of today
    """

    function: str
    positional: tuple[str, ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)

    def named(self, old: str, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of today, by name, with a FutureWarning; InputError where there are too many."""
        if len(args) > len(self.positional):
            raise InputError(f"sdc.{old} takes {', '.join(self.positional)} by place; name the other arguments")
        given = {**self.given, **dict(zip(self.positional, args, strict=False)), **named}
        new = {self.renamed.get(name, name): value for name, value in given.items()}
        form = ", ".join(f"{name}=..." for name in new)
        warnings.warn(
            f"this form of sdc.{old} ends with the next release; write sdc.{self.function}({form})",
            FutureWarning,
            stacklevel=3,
        )
        return new


OLD_NAMES = {
    **{
        f"{method}_release": OldForm("find_release", ("table", "public", "criteria"), {"method": method})
        for method in ("ordered", "bisection", "decomposable", "best", "simulatable")
    },
    "controlled_rounding": OldForm("round", ("table",)),
    "publish_release": OldForm("publish", ("table", "found", "folder")),
}
OLD_FORMS: dict[str, tuple[OldForm, Callable[[Sequence[Any], Mapping[str, Any]], bool]]] = {
    "critical_widths": (
        OldForm("critical_widths", ("table",), renamed={"floor": "threshold"}),
        lambda args, named: "floor" in named,
    ),
    "find_release": (
        OldForm("find_release", ("table", "public", "method", "criteria")),
        lambda args, named: len(args) > 1 and not isinstance(args[1], str),
    ),
    "magnitude_table": (
        OldForm("magnitude_table", ("source", "value", "variables"), renamed={"source": "table", "variables": "by"}),
        lambda args, named: len(args) > 1 or bool({"source", "variables"} & {*named}),
    ),
    "suppress": (
        OldForm("suppress", ("table", "public", "sub_table", "criteria"), renamed={"sub_table": "by"}),
        lambda args, named: len(args) > 2 or "sub_table" in named,
    ),
}


def old(name: str, function: Any) -> Any:
    """A function by the name that it had."""

    def call(*args: Any, **named: Any) -> Any:
        return function(**OLD_NAMES[name].named(name, args, named))

    call.__name__, call.__doc__ = name, f"Use `sdc.{OLD_NAMES[name].function}`."
    return call


@cache
def checked(verb: Any) -> Any:
    """The function, which in a notebook says how far it is; InputError for an argument of a type that it does not take.

    Classes are as they are.
    """
    if not inspect.isfunction(verb):
        return verb
    signature, (form, is_old) = inspect.signature(verb), OLD_FORMS.get(verb.__name__, (None, None))
    takes_executor = "executor" in signature.parameters

    @wraps(verb)
    def call(*args: Any, **given: Any) -> Any:
        named = current(given, "risk", warn)
        if form is not None and is_old is not None and is_old(args, named):
            return call(**form.named(verb.__name__, args, named))
        for name, kind, value in _given(_bound(verb, signature, args, named)):
            _require(f"sdc.{verb.__name__}", name, kind.split(" | "), value)
        if not takes_executor and "table" not in signature.parameters:  # a build says itself how far it is
            with warnings_shown(_warn):
                return verb(*args, **named)
        with warnings_shown(_warn), in_notebook(f"sdc.{verb.__name__}") as watched:
            if takes_executor:
                named["executor"] = watched(named.get("executor", IN_PROCESS))
            return verb(*args, **named)

    return call


def _warn(line: str) -> None:
    warnings.warn(line.removeprefix("warning: "), stacklevel=2)


def _bound(verb: Any, signature: inspect.Signature, args: Any, named: Any) -> inspect.BoundArguments:
    """InputError, which says how the function is called, where an argument is missing or is none of its own."""
    try:
        return signature.bind(*args, **named)
    except TypeError as error:
        needed = ", ".join(
            n for n, of in signature.parameters.items() if of.default is of.empty and of.kind < of.VAR_KEYWORD
        )
        about = "; public is what is public already, [] if nothing is" if "public" in needed else ""
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
