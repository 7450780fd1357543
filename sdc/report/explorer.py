"""The query space in a notebook: a widget by the same module of JavaScript as the page has."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from sdc.model.errors import InputError
from sdc.model.extras import require_packages
from sdc.report.space import QuerySpace, asset, query_space
from sdc.risk.critical_width import CriticalWidths
from sdc.search.found import Found


def explored(found: Found, widths: CriticalWidths | None = None) -> Any:
    """The widget of a release that was found; errors as `Found.explore`."""
    if not isinstance(widths, CriticalWidths | None):
        raise InputError(
            f"widths is of the type {type(widths).__name__}; give critical widths, as sdc.widths gives them"
        )
    evaluation = found.evaluation
    refutations = getattr(found, "refutations", ())
    name = "a release that was found"
    return widget(query_space(name, found.knowledge, evaluation.criteria, found, refutations, widths=widths))


def widget(space: QuerySpace) -> Any:
    """An `anywidget.AnyWidget`; MissingLibraryError, an ImportError, without that library."""
    return _kind()(record=space.record, text=space.text, sheet=asset("query_space.css"), title=space.title)


@cache
def _kind() -> Any:
    require_packages("explore", "anywidget", instead="or use the page that sdc explore writes for a run")
    anywidget, traitlets = map(import_module, ("anywidget", "traitlets"))
    told = {name: traitlets.Unicode().tag(sync=True) for name in ("text", "sheet", "title")}
    told["record"] = traitlets.Dict().tag(sync=True)
    return type("Explorer", (anywidget.AnyWidget,), {**told, "_esm": asset("query_space.js"), "__repr__": _repr})


def _repr(explorer: Any) -> str:
    """Without a width: what is printed may be logged."""
    return f"Explorer of the query space of {explorer.title}"
