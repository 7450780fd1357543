"""Which release to choose: risk and utility of the users that a config names, [DFT] section 3, (1) and (2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import fsum
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from sdc.config.analysis import DataUserConfig, DecisionConfig, IntruderConfig, ScientistConfig
from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.equations import every_cell
from sdc.intruder.cell_laws import CellLaws
from sdc.intruder.laws import Law, law_of
from sdc.intruder.measures import EQUAL, are_identified
from sdc.intruder.posterior import posterior
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError, many
from sdc.model.knowledge import Knowledge
from sdc.model.named import Rows
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.super_cell import SuperCell
from sdc.model.table import Codes, Table

MOST_TARGETS = 1_000_000

Floats = npt.NDArray[np.float64]
UserOf = TypeVar("UserOf", bound=DataUserConfig)


@dataclass(frozen=True)
class RatedRelease:
    """A release by its risk, equation (1), and its utility, equation (2).

    name              of the release
    sub_tables        number, without the grand total
    risk              what the intruders' claims are expected to cost the agency; None where `reason` says why
    utility           the scientists' loss from their estimates of the true counts, with a minus sign, likewise
    expected_loss     what the scientists expect to lose, by their own posteriors, likewise
    is_sampled        whether some posterior is sampled
    is_of_most_utility, is_chosen  see `choice`
    reason            why it cannot be chosen
    """

    name: str
    sub_tables: int
    risk: float | None = None
    utility: float | None = None
    expected_loss: float | None = None
    is_sampled: bool = False
    is_of_most_utility: bool = False
    is_chosen: bool = False
    reason: str | None = None


class ReleaseChoice(Rows[RatedRelease]):
    """Releases with their risk and utility, in the order in which they were given."""

    @property
    def chosen(self) -> RatedRelease | None:
        """The one of least risk among those of most utility; None where none can be chosen."""
        return next((one for one in self if one.is_chosen), None)

    @property
    def headline(self) -> str:
        if (chosen := self.chosen) is None:
            return f"none of {many(len(self), 'release')} can be chosen"
        return f"{chosen.name} of {many(len(self), 'release')}, risk {chosen.risk:g}, utility {chosen.utility:g}"


def choice(rated: Sequence[RatedRelease], within: float = 0.0) -> ReleaseChoice:
    """The release of least risk among those whose utility is at most `within` below the largest.

    Of equal risks the larger utility decides, then the order. A release with a reason against it is not chosen.
    """
    pairs = [(one.name, one.risk, one.utility) for one in rated if one.risk is not None and one.utility is not None]
    most = max((utility for *_, utility in pairs), default=0.0)
    useful = {name: (risk, utility) for name, risk, utility in pairs if utility >= most - within - EQUAL}
    least = min((risk for risk, _ in useful.values()), default=0.0)
    safest = [name for name, (risk, _) in useful.items() if risk <= least + EQUAL]
    chosen = max(safest, key=lambda name: useful[name][1], default=None)
    return ReleaseChoice(
        replace(one, is_of_most_utility=one.name in useful, is_chosen=one.name == chosen) for one in rated
    )


@dataclass(frozen=True, eq=False)
class _Sought(Generic[UserOf]):
    """A user with the targets.

    cells          (n, axes) codes
    probabilities  (n,) that each is the target; they sum to 1
    """

    user: UserOf
    law: Law
    cells: Codes
    probabilities: Floats

    @property
    def key(self) -> tuple[Law, bytes]:
        return self.law, self.cells.tobytes()


class ReleaseRating:
    """The risk and utility of releases of a table, for the users that a section names.

    InputError for a target that is not a cell of the table, for an unknown law, and for more than a million targets.
    """

    def __init__(
        self, table: Table, decision: DecisionConfig, small_count: int, executor: Executor = IN_PROCESS
    ) -> None:
        self._table, self._executor, self._within = table, executor, decision.within
        intruders, scientists = decision.users
        self._intruders = [_sought(one, f"intruders.{k}", table, small_count) for k, one in enumerate(intruders)]
        self._scientists = [_sought(one, f"scientists.{k}", table, small_count) for k, one in enumerate(scientists)]
        keys = (*((own.key, own.cells) for own in self._intruders), *((own.key, own.cells) for own in self._scientists))
        self._cells = {key: cells for key, cells in keys if len(cells)}
        self._rated = dict[str, RatedRelease]()
        self._of = lru_cache(self._without_name)  # searches may find one release several times

    def rate(self, name: str, known: Knowledge, reason: str | None = None) -> None:
        """Rate a release by what is known once it is public, unless there is a reason against it.

        InputError for a name that another release has.
        """
        if name in self._rated:
            raise InputError(f"two releases are called {name!r}; give the one in curve.decision.releases another name")
        found = self._of(known) if reason is None else _refused(known, reason)
        self._rated[name] = replace(found, name=name)

    @property
    def choice(self) -> ReleaseChoice:
        """Among the releases that were rated."""
        return choice([*self._rated.values()], self._within)

    def _without_name(self, known: Knowledge) -> RatedRelease:
        found, is_sampled = dict[tuple[Law, bytes], CellLaws](), False
        try:
            for key, cells in self._cells.items():
                likely = posterior(self._table, known, key[0], cells, executor=self._executor)
                found[key], is_sampled = likely.cells, is_sampled or not likely.exact
        except (InputError, ReleaseError) as error:
            return _refused(known, str(error))

        def mean(users: Sequence[_Sought[UserOf]], of: Callable[[UserOf, CellLaws], Floats]) -> float:
            losses = [
                float(one.probabilities @ of(one.user, found[one.key])) if len(one.cells) else 0.0 for one in users
            ]
            weights = [one.user.weight for one in users]
            return fsum(w * own for w, own in zip(weights, losses, strict=True)) / fsum(weights)

        return RatedRelease(
            "",
            known.release.sub_tables(self._table.schema),
            mean(self._intruders, costs_of_claims),
            0.0 - mean(self._scientists, losses_of_estimates),
            mean(self._scientists, expected_losses),
            is_sampled,
        )


def _refused(known: Knowledge, reason: str) -> RatedRelease:
    return RatedRelease("", known.release.sub_tables(known.schema), reason=reason)


def costs_of_claims(intruder: IntruderConfig, laws: CellLaws) -> Floats:
    """(n,) expected cost for the agency if each cell is the target, over the law of the threshold, equation (1).

    The intruder claims the most probable count where it is more probable than the threshold; of equal ones the true.
    """
    costs, truth, highest = np.zeros(len(laws)), laws.at_truth, laws.most_likely[1]
    for threshold, probability in intruder.thresholds.items():
        right = are_identified(truth, highest, threshold)
        wrong = (highest > threshold + EQUAL) & ~right
        costs += probability * (intruder.agency.right * right + intruder.agency.wrong * wrong)
    return costs


def losses_of_estimates(scientist: ScientistConfig, laws: CellLaws) -> Floats:
    """(n,) loss of the best estimate of each cell, where the true count is known, equation (2)."""
    return _loss(scientist, _estimates(scientist, laws) - laws.counts)


def expected_losses(scientist: ScientistConfig, laws: CellLaws) -> Floats:
    """(n,) the same as the scientist expects it."""
    errors = np.repeat(_estimates(scientist, laws), np.diff(laws.start)) - laws.each_count
    found: Floats = np.add.reduceat(laws.probabilities * _loss(scientist, errors), laws.start[:-1])
    return found


def _estimates(scientist: ScientistConfig, laws: CellLaws) -> Floats:
    """(n,) those of least expected loss: means, least medians, or the least of the most likely counts."""
    if scientist.loss == "squared":
        return laws.means
    if scientist.loss == "wrong":
        return laws.most_likely[0].astype(np.float64)
    so_far = np.cumsum(laws.probabilities)
    before = np.concatenate([[0.0], so_far])[laws.start[:-1]]
    is_below = so_far - np.repeat(before, np.diff(laws.start)) < 0.5 - EQUAL
    below: Floats = np.add.reduceat(is_below, laws.start[:-1], dtype=np.float64)
    return below + laws.first


def _loss(scientist: ScientistConfig, errors: Floats) -> Floats:
    if scientist.loss == "squared":
        return np.square(errors)
    return np.abs(errors) if scientist.loss == "absolute" else (errors != 0).astype(np.float64)


def named_releases(decision: DecisionConfig, schema: Schema) -> dict[str, Release]:
    """Those that the section names; InputError for an unknown variable."""
    found = dict[str, Release]()
    for name, sub_tables in decision.releases.items():
        try:
            found[name] = Release.of(st.parse(one, schema) for one in sub_tables)
        except (InputError, ReleaseError) as error:
            raise InputError(f"releases.{name}: {error}") from error
    return found


def _sought(user: UserOf, setting: str, table: Table, small_count: int) -> _Sought[UserOf]:
    try:
        law = _law(user, table.schema)
        if isinstance(user.targets, str):
            cells = _cells(user.targets, table, small_count)
            return _Sought(user, law, cells, np.full(len(cells), 1 / max(len(cells), 1)))
        cells = np.array([_cell(target, table.schema) for target in user.targets], np.uint16)
    except InputError as error:
        raise InputError(f"{setting}.{error}") from error
    return _Sought(user, law, cells, np.array([*user.targets.values()]))


def _law(user: DataUserConfig, schema: Schema) -> Law:
    try:
        return law_of(user.law, schema, user.alpha)
    except InputError as error:
        raise InputError(f"law: {error}") from error


def _cells(which: str, table: Table, small_count: int) -> Codes:
    if which == "at-risk":
        return np.asarray(table.codes[table.at_risk(small_count)])
    if table.schema.cells > MOST_TARGETS:
        raise InputError(
            f"targets = all: the full table has {table.schema.cells:,} cells, and at most {MOST_TARGETS:,} can be "
            "targets; choose at-risk, or name the cells"
        )
    return every_cell(table.schema)


def _cell(target: str, schema: Schema) -> list[int]:
    try:
        codes = SuperCell.parse(target, schema).codes
        reason = "; ".join(
            f"{schema.names[axis]!r} has {len(own)} categories in it"
            for axis, own in zip(schema.axes, codes, strict=True)
            if len(own) > 1
        )
    except InputError as error:
        codes, reason = (), str(error)
    if reason:
        first = ", ".join(f"{name}={category}" for name, category in schema.named([0] * len(schema.axes)).items())
        raise InputError(
            f"targets: {target!r} is not a cell of the table: {reason}; name one category of each variable, such as "
            f"{first!r}"
        )
    return [own[0] for own in codes]
