"""Constraints on a release: the sub-tables it must have, those it must not have, and what comes first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import comb

from sdc.config.release import PatternLike, ReleaseConfig
from sdc.feasible.walk import MAX_VARIABLES
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.protect.request import ProtectionRequest

MOST_CELLS_OF_PAIRS = 100_000  # all pairs leave one component, and each of its cells is certified: 1 ms each
MOST_VARIABLES_OF_PAIRS = MAX_VARIABLES  # of a component that a walk searches; of a larger one no cell is certified
QUESTIONS_OF_WIDE = 400  # of 40 variables they take minutes
MOST_NAMED = 100_000  # sub-tables that a pattern may stand for


@dataclass(frozen=True)
class Constraints:
    """What a search must do, whatever its method.

    require        sub-tables that the release must have; they are judged first, and together
    forbid         sub-tables that it must not have, nor any that contains one
    levels         levels that nobody asked for, with the variables that determine each: a sub-table has one with these
                   alone
    best_subset    where the required ones do not fit together: release those that are worth most, else refuse
    breadth        sub-tables of up to so many variables come before all others; by default 2, or 1 of a large table or
                   of a wide one
    questions      the most that an ordered search puts to the criterion, what is not asked about is not released; by
                   default 200, or 2,000 with a breadth of 1, which makes them cheap, or 400 of a wide table
    protect        sub-tables, required ones too, that are suppressed, recoded or rounded where they do not fit whole
    only_required  release what is required, with what is within it, and nothing else
    """

    require: tuple[SubTable, ...] = ()
    forbid: tuple[SubTable, ...] = ()
    levels: tuple[tuple[SubTable, SubTable], ...] = ()
    best_subset: bool = False
    breadth: int | None = None
    questions: int | None = None
    only_required: bool = False
    protect: tuple[ProtectionRequest, ...] = ()

    @staticmethod
    def of(schema: Schema, release: ReleaseConfig) -> Constraints:
        """Of the table's variables; InputError as `named`, and where a sub-table is required and forbidden at once.

        What is protected where it does not fit whole is required like all else.
        """
        limits, asked = limits_of(release, len(schema)), named("require", release.require, schema)
        protect = _protect(release, asked, schema)
        constraints = Constraints(
            tuple(dict.fromkeys([*asked, *(one.view for one in protect)])),
            named("forbid", release.forbid, schema),
            protect=protect,
            best_subset=release.on_conflict == "drop",
            breadth=limits[0],
            questions=limits[1],
            only_required=release.required_only,
        )
        for required in constraints.require:
            for forbidden in constraints.forbid:
                if st.is_within(forbidden, required):
                    setting = "require" if required in asked else "protect"
                    raise InputError(
                        f"{setting} has {st.label(required, schema)}, and forbid {st.label(forbidden, schema)}, "
                        "without which it cannot be released; drop one of the two"
                    )
        return constraints

    def breadth_for(self, at_risk_cells: int) -> int:
        """The breadth; without one, what can be proven of a table with so many at-risk cells."""
        if self.breadth is not None:
            return self.breadth
        return 2 if at_risk_cells <= MOST_CELLS_OF_PAIRS else 1

    def questions_for(self, at_risk_cells: int) -> int:
        """The most questions; without one, what takes minutes of a table with so many at-risk cells."""
        if self.questions is not None:
            return self.questions
        return 200 if self.breadth_for(at_risk_cells) > 1 else 2_000

    def allows(self, subtable: SubTable) -> bool:
        """Whether nothing forbidden is within it, and it is named by no level that nobody asked for."""
        is_named = any(subtable & level and not subtable & finer for level, finer in self.levels)
        return not is_named and not any(st.is_within(forbidden, subtable) for forbidden in self.forbid)

    def largest(self, schema: Schema) -> tuple[SubTable, ...]:
        """The largest sub-tables that have nothing forbidden within."""
        found: tuple[SubTable, ...] = (st.full(len(schema)),)
        for forbidden in self.forbid:
            found = self.without(forbidden, found, schema)
        return found

    def without(self, gone: SubTable, subtables: Iterable[SubTable], schema: Schema) -> tuple[SubTable, ...]:
        """The largest sub-tables within these that do not contain this one."""
        found = list[SubTable]()
        # without any one of its variables, and all that would tell it, it is not within any more
        cut = [1 << v | schema.levels.finer(v) for v in st.members(schema.levels.finest(gone))]
        for t in subtables:
            found += [self._named(t & ~own) for own in cut] if st.is_within(gone, t) else [t]
        return st.maximal(found)

    def _named(self, subtable: SubTable) -> SubTable:
        """Without levels that nobody asked for, where nothing determines them."""
        left = subtable
        for level, finer in self.levels:
            if not subtable & finer:
                left &= ~level
        return left if left == subtable else self._named(left)

    def flat(self, schema: Schema) -> Constraints:
        """The same of sets that are not closed: what a finer variable determines is forbidden with it."""
        levels = schema.levels
        if levels.is_flat:
            return self
        choices = ([(v, *st.members(levels.finer(v))) for v in st.members(levels.finest(t))] for t in self.forbid)
        forbid = {st.of(chosen) for each in choices for chosen in product(*each)}
        return replace(self, forbid=tuple(sorted(forbid)))

    def allowed(self, subtables: Iterable[SubTable]) -> tuple[SubTable, ...]:
        """Those that may be released, in their order."""
        return tuple(t for t in subtables if self.allows(t)) if self.forbid or self.levels else tuple(subtables)


def _protect(release: ReleaseConfig, required: Sequence[SubTable], schema: Schema) -> tuple[ProtectionRequest, ...]:
    """Of each sub-table once; InputError where two sections name one."""
    if release.protect == "suppression":
        return tuple(map(ProtectionRequest, required))
    found = dict[SubTable, ProtectionRequest]()
    for section in release.protect:
        for view in named("protect", section.of if isinstance(section.of, tuple) else (section.of,), schema):
            if view in found:
                raise InputError(f"protect names {st.label(view, schema)} in two sections; keep it in one")
            found[view] = ProtectionRequest.of(view, section, schema)
    return tuple(found.values())


def limits_of(release: ReleaseConfig, variables: int) -> tuple[int | None, int | None]:
    """Breadth and questions of a table with so many variables; None where they depend on its cells."""
    if release.first_dimension is not None or variables <= MOST_VARIABLES_OF_PAIRS:
        return release.first_dimension, release.max_evaluations
    return 1, release.max_evaluations or QUESTIONS_OF_WIDE


def named(setting: str, patterns: Sequence[PatternLike], schema: Schema) -> tuple[SubTable, ...]:
    """The sub-tables that patterns stand for, each once, in the order in which they are named.

    `age*race` is one sub-table; `{all: 2}`, or `all:2`, every one of 2 variables; `{of: [age, sex, race], up_to: 2}`,
    or `age*sex*race:2`, every one of 2 of these, and so what is within them; without `up_to` all of them at once.
    InputError for an unknown variable, and for what stands for no sub-table, or for more than 100,000.
    """
    found: dict[SubTable, None] = {}
    for pattern in patterns:
        variables, size = _parts(setting, pattern, schema)
        if not 1 <= size <= len(variables):
            raise InputError(
                f"{setting} {written(pattern)!r} matches nothing: it asks for {size} of {len(variables)} variables"
            )
        if comb(len(variables), size) > MOST_NAMED:
            raise InputError(f"{setting} {written(pattern)!r} is more than {MOST_NAMED} sub-tables; name fewer")
        chosen = (some for some in combinations(variables, size) if _are_apart(some, schema))
        found.update(dict.fromkeys(schema.levels.closed(st.of(some)) for some in chosen))
    return tuple(found)


def _are_apart(variables: Sequence[int], schema: Schema) -> bool:
    """Whether no two are of one axis: with a level of it a sub-table has no variable more."""
    return len({schema.levels.axis_of[v] for v in variables}) == len(variables)


def written(pattern: PatternLike) -> str:
    """A pattern as one text, as the command line takes it."""
    if isinstance(pattern, str):
        return pattern
    variables, size = "*".join(pattern.of or ("all",)), pattern.all or pattern.up_to
    return variables if size is None else f"{variables}:{size}"


def _parts(setting: str, pattern: PatternLike, schema: Schema) -> tuple[tuple[int, ...], int]:
    """The variables of a pattern, and of how many of them the sub-tables are."""
    text, size = written(pattern), None
    # a variable whose name ends so is meant where there is one
    if text not in schema.names and (sized := re.fullmatch(r"(.*):([0-9]{1,4})", text)):
        text, size = sized[1], int(sized[2])
    if text == "all" and size is not None:
        return tuple(range(len(schema))), size
    try:
        variables = st.members(schema.levels.finest(st.parse(text, schema)))
    except ReleaseError as error:
        raise InputError(f"{setting} {written(pattern)!r}: {error}") from error
    return variables, len(variables) if size is None else size
