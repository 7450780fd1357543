"""The query space of a release: what is released, what may still be, and what excludes the rest.

An explorer shows it, as a page and in a notebook, by one module of JavaScript and one record. The sub-tables that one
adds and excludes follow from the record of a search and from critical widths; the criterion is not evaluated.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from sdc.model import subtable as st
from sdc.model.cell_bounds import is_wide
from sdc.model.errors import InputError
from sdc.model.extras import require_packages
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.state import MOST_LISTED, State, Status, by_dimension, sub_tables
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.report.blocks import TEMPLATES, number
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.refutation import Refutation
from sdc.search.blockers import tried
from sdc.search.found import Found
from sdc.search.simulatable import SimulatedStep
from sdc.search.step import SearchStep

MOST_NAMED = 500  # of a list of the text
REFUSED = "The search refused it, or one within it, beside what is released."
DRAWN = "The search refused it, or one within it: of the tables drawn too many would break the criterion."
FORBIDDEN = "release.forbid names it, or one within it."
BROKEN = "It breaks a criterion of published counts themselves, or one within it does."


@dataclass(frozen=True)
class NarrowSet:
    """Sub-tables that are not to be known together: some at-risk cell is then within at most `width` records."""

    of: tuple[SubTable, ...]
    width: int


@dataclass(frozen=True, eq=False)
class QuerySpace:
    """The public knowledge of all sub-tables of a schema, beside a release.

    released   all whole marginals that are public
    min_width  in records, that at-risk cells keep
    conflicts  that are proven; what is added to the release must complete none
    against    minimal sub-tables that may not go out for another reason, and that in a sentence
    undecided  minimal sub-tables that were asked about, and nothing was proven
    in_part    those that are public in part
    widths     critical widths in records, as far as they are known
    notes      sentences about what is not looked at
    """

    title: str
    schema: Schema
    released: Release
    min_width: int
    conflicts: tuple[NarrowSet, ...]
    against: Mapping[SubTable, str]
    undecided: tuple[SubTable, ...]
    in_part: tuple[SubTable, ...]
    widths: Mapping[SubTable, int]
    notes: tuple[str, ...]

    @property
    def is_drawn(self) -> bool:
        """Whether there is a square for each sub-table; of more variables there are lists alone."""
        return len(self.schema) <= MOST_LISTED

    @cached_property
    def state(self) -> State:
        """The status of each sub-table."""
        first = State.first(self.schema, self.released)
        return first.knowing([*filter(None, map(self._left, self.conflicts)), *self.against], self.undecided)

    def _left(self, conflict: NarrowSet) -> SubTable:
        """The part of a conflict that is not public: with it the conflict is known."""
        return self.schema.levels.closed(st.union(t for t in conflict.of if t not in self.released))

    @property
    def record(self) -> dict[str, Any]:
        """The input of the module of JavaScript, sub-tables by their numbers."""
        if not self.is_drawn:
            return {}
        return {
            **squares(self.schema),
            "statuses": self.state.statuses.tolist(),
            "released": self.released.frontier,
            "conflicts": [{"of": one.of, "width": one.width} for one in self.conflicts],
            "against": list(self.against.items()),
            "undecided": self.state.undecided,
            "in_part": self.in_part,
            "widths": [self.widths.get(t) for t in range(1 << len(self.schema))],
            "min_width": self.min_width,
        }

    @property
    def text(self) -> str:
        """The same in words, as a part of a page."""
        return self._rendered("space_text.html.j2")

    @property
    def page(self) -> str:
        """As a page by itself: no network, no script but its own, the same bytes for the same release."""
        script = f"{asset('query_space.js')}\n{_START}\n"
        style = Markup(asset("query_space.css"))
        return self._rendered("space.html.j2", script=Markup(script), style=style)

    def _rendered(self, template: str, **values: Any) -> str:
        state, schema = self.state, self.schema
        return TEMPLATES.get_template(template).render(
            space=self,
            counts=by_dimension(state.statuses, schema) if self.is_drawn else None,
            statuses=[status.name.lower() for status in Status],
            possible=Release.of([st.full(len(schema))]).by_dimension(schema),
            released=self._labels(self.released.frontier),
            unreleasable=[(st.label(t, schema), self.why(t)) for t in state.unreleasable[:MOST_NAMED]],
            undecided=self._labels(state.undecided),
            most=MOST_NAMED,
            **values,
        )

    def _labels(self, subtables: Sequence[SubTable]) -> list[str]:
        return [st.label(t, self.schema) for t in subtables[:MOST_NAMED]]

    def why(self, subtable: SubTable) -> str:
        """Why a minimal unreleasable one is so, in a sentence: by the conflict of fewest sub-tables."""
        known = self.released.add(subtable)
        proofs = [one for one in self.conflicts if all(t in known for t in one.of)]
        if not proofs:
            return self.against[subtable]
        least = min(proofs, key=lambda one: len(one.of))
        named = ", ".join(st.label(t, self.schema) for t in least.of)
        return f"Proven: with {named} an intruder knows a cell at risk to within {number(least.width)} records."


_START = """const place = document.getElementById("query-space");
if (place) explore(place, JSON.parse(place.dataset.record));"""


def asset(name: str) -> str:
    """A file that pages have in them."""
    return files("sdc.report").joinpath("static", name).read_text(encoding="utf-8")


def squares(schema: Schema) -> dict[str, Any]:
    """Names, sizes and levels of the variables, for a picture of the query space."""
    levels = schema.levels
    coarser = {} if levels.is_flat else {"coarser": levels.coarser, "axes": levels.of_axis}
    return {"names": schema.names, "sizes": schema.sizes, **coarser}


def query_space(
    title: str,
    public: Knowledge,
    criteria: Criteria,
    found: Any,
    refutations: Iterable[Refutation],
    *,
    widths: CriticalWidths | None = None,
    table: Table | None = None,
    forbid: Sequence[SubTable] | None = None,
    hidden: SubTable = st.GRAND_TOTAL,
) -> QuerySpace:
    """The query space of a release that was found, with the record of its search.

    found   has the `steps` of a search, decisions that were `simulated`, and what goes out in `parts`, as far as there
            are such
    widths  critical widths, where they are known; table  by which the rules on what is published are looked at
    forbid  sub-tables that are forbidden, where that is known; hidden  levels that are judged and not published
    """
    own, width = _Own(public.schema, hidden), criteria.floor
    is_drawn = len(own.schema) <= MOST_LISTED
    steps = (*getattr(found, "steps", ()), *getattr(found, "simulated", ()))
    searched = [step for step in steps if isinstance(step, SearchStep)]
    drawn = [step.added for step in steps if isinstance(step, SimulatedStep) and not step.accepted]
    kept = {
        one.name: conflict for one in refutations if not is_wide(one.width, width) and (conflict := own.conflict(one))
    }
    refused = _refused(searched, kept, public)
    broken = _broken(criteria, table, public, widths) if is_drawn and table is not None and widths is not None else ()
    reasons = ((drawn, DRAWN), (refused, REFUSED), (broken, BROKEN), (forbid or (), FORBIDDEN))
    against = {t: why for some, why in reasons for t in own.all(some)}
    known = own.widths(widths) if is_drawn and widths is not None else {}
    narrow = _narrow(own.schema, known, widths, width) if is_drawn and widths is not None else ()
    parts = getattr(found, "suppressed_tables", None)
    return QuerySpace(
        title,
        own.schema,
        own.release(public.release),
        width,
        (*kept.values(), *narrow),
        {t: against[t] for t in st.minimal(against)},
        own.all(_undecided(searched, public.release)),
        own.all(part.view for part in parts.tables) if parts else (),
        known,
        tuple(_notes(criteria, is_drawn, widths, table, forbid)),
    )


@dataclass(frozen=True)
class _Own:
    """Sub-tables by the numbers of the variables that are not hidden; what is named by a hidden level has none."""

    all_: Schema
    hidden: SubTable

    @property
    def kept(self) -> SubTable:
        return st.full(len(self.all_)) & ~self.hidden

    @cached_property
    def schema(self) -> Schema:
        return self.all_.restrict(st.members(self.kept)) if self.hidden else self.all_

    def has(self, subtable: SubTable) -> bool:
        return not self.all_.levels.finest(subtable) & self.hidden

    def all(self, subtables: Iterable[SubTable]) -> tuple[SubTable, ...]:
        return tuple(st.within(t, self.kept) for t in subtables if self.has(t))

    def release(self, release: Release) -> Release:
        return Release.of(st.within(t & ~self.hidden, self.kept) for t in release.frontier)

    def conflict(self, one: Refutation) -> NarrowSet | None:
        """None where something that it needs has no name here."""
        of = self.all(one.support)
        return NarrowSet(of, one.width) if len(of) == len(one.support) else None

    def widths(self, widths: CriticalWidths) -> dict[SubTable, int]:
        listed = zip(widths.sub_tables.tolist(), widths.widths.tolist(), strict=True)
        return {st.within(t, self.kept): width for t, width in listed if self.has(t)}


def _narrow(
    schema: Schema, known: Mapping[SubTable, int], widths: CriticalWidths, min_width: int
) -> Iterator[NarrowSet]:
    """The minimal sub-tables whose critical width is too small, each with the one-way ones beside which it is so."""
    # what is not listed is below the floor, where all that reach the width are listed
    others = widths.floor - 1 if widths.has_all(min_width) else min_width
    width = {t: known.get(t, others) for t in sub_tables(schema).tolist()}
    singles = [schema.levels.closed(1 << axis) for axis in schema.axes]
    for t in st.minimal(t for t in width if not is_wide(width[t], min_width)):
        yield NarrowSet((t, *(one for one in singles if not st.is_within(one, t))), width[t])


def _refused(steps: Sequence[SearchStep], proven: Container[str | None], public: Knowledge) -> Iterator[SubTable]:
    """Sub-tables that were refused beside the release or a part of it without a kept proof."""
    for step in tried(steps):
        left = [t for t in step.added if t not in public.release]
        if step.answer is False and step.refutation not in proven and left:
            yield public.schema.levels.closed(st.union(left))


def _undecided(steps: Sequence[SearchStep], release: Release) -> Iterator[SubTable]:
    """Sub-tables that were tried alone, with no answer at last."""
    last = {step.added[0]: step.answer for step in tried(steps) if len(step.added) == 1}
    yield from (t for t, answer in last.items() if answer is None and t not in release)


def _broken(criteria: Criteria, table: Table, public: Knowledge, widths: CriticalWidths) -> tuple[SubTable, ...]:
    """The minimal wide sub-tables that are not public and break a rule on published tables."""
    wide = [t for t in widths.reaching(criteria.floor) if t not in public.release] if criteria.rules else []
    return st.minimal({*wide} - {*criteria.keeping(table, public.zeros, wide)})


def _notes(
    criteria: Criteria,
    is_drawn: bool,
    widths: CriticalWidths | None,
    table: Table | None,
    forbid: Sequence[SubTable] | None,
) -> Iterator[str]:
    if not is_drawn:
        yield (
            f"More than {MOST_LISTED} variables have too many sub-tables to draw one by one: these are the "
            "frontiers, without what critical widths alone exclude."
        )
    if widths is None:
        yield "Critical widths were not given, so that what they exclude is not known here."
    if forbid is None:
        yield "Forbidden sub-tables are not kept with the release; they are open if nothing else excludes them."
    is_counted = table is not None and widths is not None and is_drawn
    for one in criteria.others:
        if not (one.is_of_counts and is_counted):
            yield f"{one.setting} is not evaluated here: open sub-tables may break it."


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
