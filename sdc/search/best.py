"""A release by the method of the config: ordered, bisection, decomposable, their best, optimum, or simulatable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from sdc.checkpoint import NO_CHECKPOINT
from sdc.config.capabilities import require_together
from sdc.config.features import OBJECTIVE
from sdc.config.methods import METHOD_OF, METHODS
from sdc.config.release import NeighbourhoodConfig
from sdc.config.values import Objective
from sdc.deadline import NEVER, Deadline, DeadlineError
from sdc.executor import IN_PROCESS
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.errors import ConfigError, InputError, NotReleasableError, ReleaseError, many
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES, SuppressedTable, SuppressedTables
from sdc.protect.release import ProtectedRelease, protect
from sdc.risk.criteria import Evaluation
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.refutation import Refutation
from sdc.risk.verdict import Verdict
from sdc.search import reasons
from sdc.search.annealing import smallest_graph
from sdc.search.bisection import BisectionSearch
from sdc.search.constraints import Constraints
from sdc.search.decomposable import DecomposableSearch, SearchState, TraceRow
from sdc.search.found import Found
from sdc.search.grown import Grown
from sdc.search.growth import SECONDS_TO_END, Growth, evaluated, fits_a_worker, grow
from sdc.search.neighbourhood import NeighbourhoodSearch
from sdc.search.optimum import MOST_LISTED, OptimumSearch
from sdc.search.ordered import OrderedRelease, OrderedSearch
from sdc.search.required import Required, fitting
from sdc.search.simulatable import SimulatableSearch, SimulatedStep
from sdc.search.step import Refused, SearchStep
from sdc.utility.halvings import require_listable

ANNEALING, BISECTION, GREEDY, OPTIMUM = "annealing", "bisection", "greedy search", "optimum"  # parts of a search
NEIGHBOURHOOD = "large neighbourhood search"


@dataclass(frozen=True)
class Candidate:
    """One of the releases that the method "best" compares.

    method      how it was found: bisection, greedy search, annealing, or annealing extended
    sub_tables  how many it has, without the grand total
    value       its utility, as that of `FoundRelease`
    min_width   the width that is proven of it; of a graph found alone, without what is public beside it
    """

    method: str
    sub_tables: int
    value: float
    min_width: int

    @staticmethod
    def of(method: str, found: FoundRelease) -> Candidate:
        """A release by the name of what found it."""
        return Candidate(method, found.sub_tables, found.value, found.evaluation.margin[0])

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.method}: {self.sub_tables:,} sub-tables, utility {self.value:.12g}, min width {self.min_width}"


@dataclass(frozen=True, eq=False, repr=False)
class FoundRelease(Found):
    """A release with the evaluation that accepted it, and how it was found.

    method       one of `release.method`
    value        its utility by the weights of the search, or by how many halvings it brings a reconstruction nearer
    steps        questions put to the criterion, see `SearchStep`
    graph        the best decomposable graph where chains were run; with "best" the release may be another one
    trace        where the chains were, round by round
    reason       why this one of the releases found, with "best"; with "simulatable" what it costs to tell nothing; what
                 was left where the search ended before it was done
    simulated    decisions of "simulatable"
    required     what became of the required sub-tables, where there are any
    ended_after  where the deadline ended a part of the search, how far that went: in questions, rounds or sub-tables
    refutations  those that its steps name, and those of the conflicts of what is required
    suppressed_tables  those beside the release
    objective    what its value is of
    candidates   with "best" all releases that were compared
    resumed      of each growth that had a checkpoint whether that held and it went on from there
    bound        a utility that no release exceeds; of other methods than "optimum", no release with all one-way
                 sub-tables, by the critical widths; None where these are not all known

    Examples
    --------
    >>> found = sdc.find_release("czech_auto_workers.csv", min_width=6)
    >>> [*found.tables][:2], found["A*B"]
    (['A*B*C*D*E', 'A*B*D*E*F'], A*B: 4 cells)
    """

    method: str
    value: float
    steps: tuple[SearchStep, ...] = ()
    graph: DecomposableGraph | None = None
    trace: tuple[TraceRow, ...] = ()
    reason: str | None = None
    simulated: tuple[SimulatedStep, ...] = ()
    required: Required | None = None
    ended_after: Mapping[str, int] = field(default_factory=dict)
    refutations: tuple[Refutation, ...] = ()
    suppressed_tables: SuppressedTables = NO_SUPPRESSED_TABLES
    objective: Objective = "sub_tables"
    candidates: tuple[Candidate, ...] = ()
    resumed: Mapping[str, bool] = field(default_factory=dict)
    bound: float | None = None

    @property
    def protected(self) -> tuple[SuppressedTable, ...]:
        return self.suppressed_tables.tables

    @property
    def halvings(self) -> float | None:
        """Its value, where that is of a reconstruction."""
        return None if self.objective == "sub_tables" else self.value

    def refused(self, accept_undecided: bool = False) -> Refused:
        """The questions that were refused, and what is proven of that; where what is open may go out it is not."""
        return Refused.of(self.steps, accept_undecided)

    @property
    def rank(self) -> tuple[Verdict, float, int, tuple[int, ...]]:
        """Larger is better: what is proven first, then utility, the width proven, and as in annealing the frontier."""
        frontier = tuple(-element for element in self.release.frontier)
        return self.evaluation.verdict, self.value, self.evaluation.margin[0], frontier


@dataclass(frozen=True)
class ReleaseSearch:
    """All searches, under one criterion; the utility is that of the decomposable one.

    Each search, and each extension, has the criterion's whole budget: what "ordered" finds alone is what "best"
    compares with. The `deadline` ends all of them; those that come before others have half of the time that is left.
    Growths keep what is proven in the checkpoint of `ordered`. `before` is how far went what made levels for it.
    `suppressed_tables` are published whatever is found; `neighbourhood` has the rounds that follow. InputError,
    ReleaseError and RuntimeError as the searches raise them; NothingReleasableError where the deadline comes before
    anything that is required is proven.
    """

    ordered: OrderedSearch
    decomposable: DecomposableSearch
    simulatable: SimulatableSearch
    deadline: Deadline = NEVER
    before: Mapping[str, int] = field(default_factory=dict)
    suppressed_tables: SuppressedTables = NO_SUPPRESSED_TABLES
    neighbourhood: NeighbourhoodConfig = field(default_factory=NeighbourhoodConfig)

    def run(
        self,
        method: str,
        resume: SearchState | None = None,
        step: Callable[[str, Callable[[], Any]], Any] = lambda name, part: part(),
    ) -> FoundRelease:
        """The release that the method finds. ConfigError for an unknown method.

        resume  where its chains go on; step  runs a part of the search by its name, and gives what that gives
        """
        begun = self.begin(method)
        return begun if isinstance(begun, FoundRelease) else begun.finish(begun.search._by(method, resume, step))

    def begin(self, method: str) -> Begun | FoundRelease:
        """Judge what is required, and suppress what has to be; a whole release where nothing is left to search for."""
        require_method(method)
        self.require_objective(method)
        if method == "simulatable":
            # before all that looks at the table: what is decided there would tell of it
            return self._ended(self.by_simulation())
        if METHOD_OF[method].is_monotone:
            self.ordered.require_monotone(method)
        if (everything := self._everything(method)) is not None:
            return self._ended(everything)
        self._require_risks(method)
        required = fitting(self._required(method), self.ordered.constraints, self.ordered.evaluator.table.schema)
        if required is None:
            return Begun(self, self)
        beside, required, partly = self._protected(required)
        # what does not fit is not required any more: every search begins with what does
        kept = tuple(t for t in self.ordered.constraints.require if t not in (*required.refused, *required.in_part))
        kept = kept if partly is None else (*kept, *partly.coarser)
        proven = None if method == "decomposable" else required.evaluation
        return Begun(self, beside._wishing(replace(self.ordered.constraints, require=kept), proven), required, partly)

    def _ended(self, found: FoundRelease) -> FoundRelease:
        return replace(found, objective=self._objective, ended_after={**self.before, **found.ended_after})

    @property
    def _objective(self) -> Objective:
        return self.decomposable.objective

    def require_objective(self, method: str) -> None:
        """ConfigError where a reconstruction would tell of the table; InputError where it may need too many cells."""
        if self._objective == "sub_tables":
            return
        if method == "simulatable":
            require_together(method, OBJECTIVE)
        if method != "decomposable" or not self._schema.levels.is_flat:
            require_listable(self.ordered.evaluator.table)

    def _protected(self, required: Required) -> tuple[ReleaseSearch, Required, ProtectedRelease | None]:
        """Beside the suppressed tables among what was refused, where the constraints ask for them.

        What cannot be protected is refused where the best subset is wanted, else NotReleasableError says why.
        """
        ordered = self.ordered
        asked_for = [request for request in ordered.constraints.protect if request.view in required.refused]
        if not asked_for:
            return self, required, None
        found = protect(self._evaluator(), required.evaluation, asked_for, self.deadline)
        if found.refused and not ordered.constraints.best_subset:
            raise NotReleasableError("; ".join(found.refused.values()))
        left = tuple(
            t for t in required.refused if t in found.refused or t not in {request.view for request in asked_for}
        )
        beside = replace(ordered, evaluator=found.evaluator)
        partly = (*found.suppressed_tables.views, *found.recoded)
        fewer = replace(required, refused=left, evaluation=found.evaluation, in_part=partly)
        return replace(self, ordered=beside, suppressed_tables=found.suppressed_tables), fewer, found

    def _everything(self, method: str) -> FoundRelease | None:
        """All that is not forbidden: where no cell is at risk, and no count is excluded, nothing needs protecting."""
        if self._has_risks:
            return None
        constraints, small = self.ordered.constraints, self.ordered.evaluator.criteria.small_count
        public = Release.of(constraints.require if constraints.only_required else constraints.largest(self._schema))
        reason = f"No cell is at risk: no count is from 1 to {small}, so every sub-table may be released."
        if constraints.only_required:
            reason = f"{reason} {reasons.NOTHING_ELSE}"
        evaluation = self._evaluator().evaluate(public)
        accepted = self._evaluator().accepts(evaluation)
        return FoundRelease(evaluation, method, self._value(public), reason=reason) if accepted else None

    @property
    def _has_risks(self) -> bool:
        return len(self.ordered.evaluator.pool.at_risk) > 0

    def _require_risks(self, method: str) -> None:
        """InputError where chains, which look at small cells alone, would have none."""
        if method == "decomposable" and not self._has_risks:
            raise InputError(
                "no cell is at risk, but other rules exclude some sub-tables, and a decomposable release is "
                "searched by its at-risk cells; choose the method ordered"
            )

    def _required(self, method: str) -> Required | None:
        if method == "decomposable":
            return self.decomposable.required()
        return replace(self.ordered, evaluator=self._evaluator()).required()

    def _wishing(self, constraints: Constraints, proven: Evaluation | None) -> ReleaseSearch:
        ordered = replace(self.ordered, constraints=constraints, proven=proven)
        return replace(self, ordered=ordered, decomposable=replace(self.decomposable, constraints=constraints))

    def _by(
        self, method: str, resume: SearchState | None, step: Callable[[str, Callable[[], Any]], Any]
    ) -> FoundRelease:
        """What the method finds beside what is required."""
        if self.ordered.constraints.only_required:
            only: FoundRelease = step(GREEDY, self.by_order)
            return replace(only, method=method, reason=reasons.NOTHING_ELSE)
        if method != "best":
            name, part = {
                "ordered": (GREEDY, self.by_order),
                "bisection": (BISECTION, self.by_bisection),
                "optimum": (OPTIMUM, self.by_optimum),
                "decomposable": (ANNEALING, lambda: self.by_annealing(resume)),
            }[method]
            return self._bounded(self.improved(step(name, part), step))
        annealed = step(ANNEALING, lambda: self.annealed(resume))
        prefix = step(BISECTION, self.prefix)
        found = self.best_of(prefix, annealed, *step(GREEDY, lambda: self.greedy(annealed)))
        return self._bounded(self.improved(found, step))

    def improved(
        self, found: FoundRelease, step: Callable[[str, Callable[[], Any]], Any] = lambda name, part: part()
    ) -> FoundRelease:
        """The best release that the rounds of large neighbourhood search come to, or the same where none is better.

        Without rounds, or by a method that has none, the same. `step` as in `run`.
        """
        if not self.neighbourhood.rounds or "neighbourhood" not in METHOD_OF[found.method].settings:
            return found
        improved: FoundRelease = step(NEIGHBOURHOOD, lambda: self._exchanged(found))
        return improved

    def _exchanged(self, found: FoundRelease) -> FoundRelease:
        search = NeighbourhoodSearch(
            replace(self.ordered, evaluator=self._evaluator(found)), self.neighbourhood, self._value, self.deadline
        )
        result = search.run(found.evaluation, found.refutations)
        ended = {NEIGHBOURHOOD: result.rounds} if result.is_ended else {}
        note = reasons.of_rounds(result.rounds, found.sub_tables, result.evaluation.release.sub_tables(self._schema))
        improved = replace(
            found,
            evaluation=result.evaluation,
            value=self._value(result.evaluation.release),
            steps=(*found.steps, *result.steps),
            refutations=(*found.refutations, *result.refutations),
            reason=" ".join(filter(None, (found.reason, note))),
            ended_after={**found.ended_after, **ended},
            resumed={**found.resumed, **({} if result.resumed is None else {NEIGHBOURHOOD: result.resumed})},
        )
        if not found.candidates or not result.steps:
            return improved
        return replace(improved, candidates=(*found.candidates, Candidate.of(NEIGHBOURHOOD, improved)))

    def _bounded(self, found: FoundRelease) -> FoundRelease:
        """With the utility of all sub-tables whose critical width allows them, where no bound is known yet."""
        own, threshold = self.ordered, self.ordered.evaluator.criteria.floor
        if found.bound is not None or self._objective != "sub_tables" or not own.widths.has_all(threshold):
            return found
        allowed = own.constraints.allowed(own.widths.reaching(threshold))
        if not 0 < len(allowed) <= MOST_LISTED:
            return found
        bound = self._value(Release.of(allowed))
        return replace(found, bound=bound) if 0 < found.value <= bound else found

    def by_order(self, known: FoundRelease | None = None) -> FoundRelease:
        """The ordered release; the feasible tables known of another release are tried again."""
        found = replace(self.ordered, evaluator=self._evaluator(known)).run()
        return self._grown("ordered", found.evaluation, found, reasons.left(self.ordered, found))

    def by_bisection(self, known: FoundRelease | None = None, *, or_nothing: bool = False) -> FoundRelease:
        """The longest prefix of the list; the feasible tables known of another release are tried again."""
        own = self.ordered
        asked = self._evaluator(known), own.widths, own.on_step, own.constraints, None, own.deadline
        found = BisectionSearch(*asked, proven=own.proven, or_nothing=or_nothing).run()
        left = reasons.cut(own), reasons.of_prefixes(found) if found.is_ended else ""
        return self._grown("bisection", found.evaluation, found, " ".join(filter(None, left)) or None)

    def by_optimum(self) -> FoundRelease:
        """The release of highest utility, or a proven one with a bound of the best."""
        own = self.ordered
        asked = self._evaluator(), own.widths, own.on_step, own.constraints, own.weights, own.deadline, own.checkpoint
        found = OptimumSearch(*asked, proven=own.proven).run()
        grown = self._grown("optimum", found.evaluation, found, reasons.left(own, found))
        if found.bound is None:
            return grown
        reason = " ".join(filter(None, (found.bound.text, grown.reason)))
        return replace(grown, reason=reason, bound=float(found.bound.value))

    def _grown(
        self, method: str, evaluation: Evaluation, found: OrderedRelease | Grown, reason: str | None
    ) -> FoundRelease:
        more: dict[str, Any] = {"reason": reason, "refutations": found.refutations, **_course(found, "questions")}
        return FoundRelease(evaluation, method, self._value(found.release), found.steps, **more)

    def by_annealing(self, resume: SearchState | None = None) -> FoundRelease:
        """The best decomposable release. It is not extended: then it would not be decomposable."""
        found = replace(self.decomposable, evaluator=self.decomposable.evaluator.anew()).run(resume)
        value, ended, reason = self._value(found.release), dict[str, int](), None
        if found.is_ended:
            ended = {"rounds": found.rounds}
            rounds = many(found.rounds, "round")
            reason = f"The chains were ended early after {rounds}; more may release more."
        more: dict[str, Any] = {"graph": found.graph, "trace": found.trace, "reason": reason, "ended_after": ended}
        return FoundRelease(found.evaluation, "decomposable", value, **more)

    def by_simulation(self) -> FoundRelease:
        """What grows by decisions that tell nothing, and what these cost."""
        found = replace(self.simulatable, evaluator=self.simulatable.evaluator.anew()).run()
        value = self._value(found.release)
        reason = self._cost(found.release, value)
        return FoundRelease(found.evaluation, "simulatable", value, reason=reason, simulated=found.steps)

    def _cost(self, release: Release, value: float) -> str | None:
        """What the ordered search would release instead; None where it finds nothing, which must not decide here."""
        if not self.ordered.evaluator.criteria.monotone:
            return None
        try:
            other = self.run("ordered")
        except ReleaseError:
            return None
        own, more = release.sub_tables(self._schema), other.sub_tables
        return (
            f"Decisions that tell nothing of the table cost {more - own} sub-tables: the ordered search, which "
            f"looks at it, would release {more}, of utility {other.value:.12g}; this release has {own}, of "
            f"utility {value:.12g}."
        )

    # The candidates of "best", each a step of its own

    def annealed(self, resume: SearchState | None = None) -> FoundRelease | None:
        """The best decomposable release with what is required; None where no decomposable release is safe.

        Chains judge a graph by itself. Where something else is public, or the required sub-tables fit into no graph,
        they look for one without these: `greedy` judges it together with all.
        """
        chains = self.decomposable
        if not self.can_anneal():
            evaluator, constraints = chains.evaluator, replace(chains.constraints, require=(), protect=())
            alone = Knowledge(
                self._schema, evaluator.table.total, NOTHING, evaluator.known.zeros, (), listed=evaluator.known.listed
            )
            chains = replace(chains, evaluator=evaluator.knowing(alone, alone), constraints=constraints)
        # what else is looked at may take as long as the chains
        search = replace(self, decomposable=replace(chains, deadline=chains.deadline.halved))
        return search.by_annealing(resume) if self._has_risks and _may_anneal(chains) else None

    def prefix(self) -> FoundRelease:
        """The longest prefix of the list; nothing but the total where no prefix is safe, or none was proven in time."""
        search = replace(self, ordered=replace(self.ordered, deadline=self.deadline.halved))
        found = search.by_bisection(or_nothing=True)
        return replace(found, ended_after={"bisection": len(found.steps)} if found.ended_after else {})

    def greedy(self, annealed: FoundRelease | None) -> tuple[FoundRelease, FoundRelease | None]:
        """The greedy extension of what is required, and that of the annealed release where there is one."""
        if annealed is None:
            return self.by_order(), None
        evaluator = self.ordered.evaluator
        are_units, growing = fits_a_worker(evaluator.table), self
        if not are_units or evaluator.executor.workers < 2:
            # one growth comes after the other, and each is to have some time
            growing = replace(self, ordered=replace(self.ordered, deadline=self.deadline.halved))
        if are_units:
            with suppress(DeadlineError):  # workers that do not end
                return growing._grown_side_by_side(annealed)
            growing = replace(self, ordered=replace(self.ordered, checkpoint=self.ordered.checkpoint.anew()))
        return growing.by_order(), growing.extended(annealed)

    def best_of(
        self,
        prefix: FoundRelease | None,
        annealed: FoundRelease | None,
        ordered: FoundRelease,
        extended: FoundRelease | None,
    ) -> FoundRelease:
        """The candidate of highest rank, with all candidates, and the chains that led to one of them."""
        named = {"bisection": prefix, "greedy search": ordered, "annealing": annealed, "annealing extended": extended}
        candidates = tuple(Candidate.of(name, found) for name, found in named.items() if found is not None)
        found = [replace(one, objective=self._objective) for one in (ordered, extended, prefix) if one is not None]
        winner = max(found, key=lambda one: one.rank)
        if winner.method == "bisection":  # the longest prefix may leave out what can still be added
            winner = found[-1] = self._beyond(winner)
            candidates = (*candidates, Candidate.of("bisection extended", winner))
        others = [one for one in found if one is not winner and one.method != "bisection"]
        note = ""
        if annealed is None:
            note = reasons.alone(ordered, bool(self.ordered.constraints.require or self.ordered.constraints.forbid))
        if others:
            note = f"{note} {reasons.better(winner, max(others, key=lambda one: one.rank))}".strip()
        ended = {part: number for one in found for part, number in one.ended_after.items()}
        resumed = {part: holds for one in found for part, holds in one.resumed.items()}
        graph, trace = (None, ()) if annealed is None else (annealed.graph, annealed.trace)
        # of those that lost only what they left: they were ended early too
        left = (one.reason for one in found if one is not winner and one.ended_after)
        reason = " ".join(dict.fromkeys(filter(None, (note, winner.reason, *left))))
        more: dict[str, Any] = {"graph": graph, "trace": trace, "ended_after": ended, "candidates": candidates}
        more["resumed"] = resumed
        return replace(winner, method="best", reason=reason, **more)

    def can_anneal(self) -> bool:
        """Whether chains, which judge a graph by itself, may look for one with all that is required and public."""
        known = self._evaluator().known
        return self._has_risks and known.release == NOTHING and not known.facts and _may_anneal(self.decomposable)

    def extended(self, found: FoundRelease) -> FoundRelease:
        """The release with what can be added to it, as far as questions are allowed; these are added to its steps."""
        search = replace(self.ordered, evaluator=self._evaluator(), deadline=self.deadline)
        start, first = (found.evaluation, NOTHING) if self.can_anneal() else (search.least, found.release)
        larger = search.extended(start, first)
        return self._with_extension(found, larger.evaluation, larger)

    def _beyond(self, prefix: FoundRelease) -> FoundRelease:
        """The longest prefix with what can be added to it."""
        larger = replace(self.ordered, evaluator=self._evaluator(), checkpoint=NO_CHECKPOINT).extended(
            prefix.evaluation
        )
        return self._with_extension(prefix, larger.evaluation, larger, "bisection_extension")

    def _with_extension(
        self, found: FoundRelease, evaluation: Evaluation, larger: OrderedRelease | Grown, part: str = "extension"
    ) -> FoundRelease:
        """The evaluation is that of the larger release; `part` is what `ended_after` calls the extension."""
        course = _course(larger, part)
        return replace(
            found,
            evaluation=evaluation,
            value=self._value(larger.release),
            steps=(*found.steps, *larger.steps),
            refutations=(*found.refutations, *larger.refutations),
            reason=" ".join(filter(None, (found.reason, reasons.left(self.ordered, larger)))) or None,
            ended_after={**found.ended_after, **course["ended_after"]},
            resumed=course["resumed"],
        )

    def _grown_side_by_side(self, annealed: FoundRelease) -> tuple[FoundRelease, FoundRelease]:
        """The ordered release and the annealed one extended, each by a worker."""
        evaluator = self.ordered.evaluator
        effort = replace(evaluator.effort, executor=IN_PROCESS)
        search, asked = self.ordered, (evaluator.known, evaluator.criteria, evaluator.policy, effort)
        proven = None if search.proven is None else Grown(search.proven.release, search.proven.proof)
        own: dict[str, Any] = {"deadline": search.deadline, "checkpoint": search.checkpoint, "proven": proven}
        own |= {"objective": self._objective, "witnesses": evaluator.witnesses}
        alone = Growth(*asked, search.widths, search.constraints, search.weights, **own)
        first, start = NOTHING, annealed.evaluation
        if not self.can_anneal():
            first, start = annealed.release, replace(search, evaluator=self._evaluator()).least
        beside = replace(alone, start=Grown(start.release, start.proof), first=first, deadline=self.deadline)
        executor = self.deadline.limits(evaluator.executor, SECONDS_TO_END)
        ordered, other = executor.run(grow, evaluator.table, [alone, beside])
        grown = self._grown("ordered", evaluated(self.ordered, ordered), ordered, reasons.left(search, ordered))
        return grown, self._with_extension(annealed, evaluated(self.ordered, other), other)

    def _evaluator(self, known: FoundRelease | None = None) -> RiskEvaluator:
        evaluator = self.ordered.evaluator.anew()
        if known is not None:
            evaluator.resume(known.evaluation)
        return evaluator

    def _value(self, release: Release) -> float:
        return self.decomposable.value(release)

    @property
    def _schema(self) -> Schema:
        return self.ordered.evaluator.table.schema


@dataclass(frozen=True)
class Begun:
    """A search that has judged what is required.

    whole     the search as it was asked for
    search    the search beside what is required
    required  what became of the required sub-tables, where there are any
    partly    the suppressed tables
    """

    whole: ReleaseSearch
    search: ReleaseSearch
    required: Required | None = None
    partly: ProtectedRelease | None = None

    def finish(self, found: FoundRelease) -> FoundRelease:
        """The release that was found, with what became of the required sub-tables."""
        required, partly, constraints = self.required, self.partly, self.whole.ordered.constraints
        if required is None:
            return self.whole._ended(found)
        schema = self.whole._schema
        suppressed_tables = self.search.suppressed_tables.without(found.release)
        found = replace(found, suppressed_tables=suppressed_tables)
        of_conflicts = (conflict.refutation for conflict in required.conflicts if conflict.refutation is not None)
        refutations = {one.name: one for one in (*found.refutations, *of_conflicts)}
        ended = {"required": required.asked} if required.is_ended else {}
        of_suppressed = ""
        if partly is not None:
            ended, of_suppressed = {**ended, **partly.ended_after}, reasons.of_suppressed(partly, schema)
        ended |= found.ended_after
        first_notes = reasons.of_levels(constraints, schema), reasons.of_required(required), of_suppressed
        reason = " ".join(filter(None, (*first_notes, found.reason))) or None
        more: dict[str, Any] = {"refutations": tuple(refutations.values()), "reason": reason, "ended_after": ended}
        return self.whole._ended(replace(found, required=required.beside(found.release), **more))


def _may_anneal(chains: DecomposableSearch) -> bool:
    """Whether the smallest decomposable release with all variables is safe; every other contains it."""
    evaluator, constraints = chains.evaluator.anew(), chains.constraints
    if evaluator.known.facts:
        return False
    smallest = smallest_graph(evaluator.known, constraints)
    cliques = map(evaluator.table.schema.levels.closed, smallest.cliques)
    return all(map(constraints.allows, cliques)) and evaluator.evaluate(smallest.release).verdict is Verdict.SAFE


def require_method(method: str) -> None:
    """ConfigError for a method that there is not."""
    if method not in METHODS:
        raise ConfigError(f"release method {method!r} is unknown; choose one of {', '.join(METHODS)}")


def _course(found: OrderedRelease | Grown, part: str) -> dict[str, Any]:
    """After how many questions the deadline ended this part of a search, and whether it was resumed."""
    ended, phase = {part: len(found.steps)} if found.is_ended else {}, "growth" if part == "questions" else part
    return {"ended_after": ended, "resumed": {} if found.resumed is None else {phase: found.resumed}}
