"""Evaluations of one table by the same criteria, with one witness pool and one budget, and refutations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sdc.bounds import duality, linear_program
from sdc.bounds.collapse import MAX_VARIABLES, Collapse
from sdc.bounds.duality import MarginalCell, Multipliers
from sdc.bounds.method import is_small
from sdc.checkpoint import Arrays
from sdc.executor import Executor
from sdc.feasible.proof import Proof
from sdc.feasible.witness_pool import WitnessPool
from sdc.feasible.witnesses import Witnesses
from sdc.memory import give_back
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, is_wide
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import NamedCell
from sdc.model.sharpness import EndMethods, Sharpness
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.assessment import Witness
from sdc.risk.criteria import Criteria, Evaluation
from sdc.risk.effort import Depth, Effort
from sdc.risk.program_units import Priced
from sdc.risk.refutation import Bounds, Refutation, Refutations, propagated, refuted
from sdc.risk.sharp import OnPart, sharp_bounds
from sdc.risk.support import Support
from sdc.risk.verdict import Policy, Verdict

MOST_CELLS = 3  # of an answer that are tried
# super-cells of all propagations for one refutation, and what each takes beside: some 0.5 s
STEPS, STEPS_AT_LEAST = 1 << 24, 1 << 14
MOST_VARIABLES = 13  # of a support that goes by the shuttle: verify works it out again in 50 MB and some seconds


def refutation_of(
    table: Table, knowledge: Knowledge, witnesses: Sequence[Witness], min_width: int, priced: Sequence[Priced] = ()
) -> Refutation | None:
    """What shows of one of the first witnesses that it is narrower than that; None where nothing was found.

    Larger components are priced only where the linear program has done so already.
    Nothing is, where a width rests on facts beside whole marginals and structural zeros, on the sum of several
    components' lower ends with levels, or on a search for tables that has no short proof. Deterministic: by the table,
    the knowledge and the cells alone.
    """
    for witness in witnesses[:MOST_CELLS]:
        for zeros in dict.fromkeys([NO_ZEROS, knowledge.zeros]):
            search = _Search(table, zeros, witness.cell, min_width, STEPS)
            found = search.by_propagation(knowledge.release) or search.by_multipliers(knowledge, priced)
            # worked out again as it will be by others: what they cannot see is none
            if found is not None and found.holds(table, knowledge.zeros):
                return found
    return None


@dataclass
class _Search:
    """One cell; `left` are the steps that propagations may still take."""

    table: Table
    zeros: StructuralZeros
    cell: NamedCell
    min_width: int
    left: int

    def by_propagation(self, release: Release) -> Refutation | None:
        """By the shuttle, its support cut until each sub-table of it is needed, or the steps are spent."""
        if not is_wide(self.table.total, self.min_width):
            return self._refutation((0, self.table.total), ())
        support = self._kept(release)
        if not support or not self._refutes(support):
            return None
        support = self._smaller(self._fewer(self._first(support)))
        if self._variables(support) > MOST_VARIABLES:
            return None
        bounds = propagated(self.table, self.zeros, self.cell, support)
        return self._refutation(bounds, support)

    def _refutation(self, bounds: Bounds, support: Iterable[SubTable]) -> Refutation:
        count = int(self.table.count_at(np.array([self.cell], np.int64))[0])
        return Refutation(self.cell, count, bounds, st.maximal(support), bool(self.zeros))

    def _kept(self, release: Release) -> list[SubTable]:
        """The sub-tables cut to variables that fit in a collapsed table; those with the smallest counts first."""
        known = Knowledge.of_tables(self.table.schema, self.table.total, release, self.zeros)
        cell = np.array([self.cell], np.int64)
        structure = known.structure
        kept = structure.covered & structure.varying
        if st.dimension(kept) > MAX_VARIABLES:
            (kept,) = Collapse(self.table, known).variables_around(cell)
        closed = self.table.schema.levels.closed
        inside = st.maximal(closed(element & kept) for element in structure.essential.frontier)
        if self._variables(inside) > MAX_VARIABLES:
            return []
        return sorted(filter(None, inside), key=lambda t: (self._count(t), t))

    def _variables(self, support: Iterable[SubTable]) -> int:
        """Of the collapsed table."""
        return st.dimension(self.table.schema.levels.closed(st.union([*support, *self.zeros.subtables])))

    def _count(self, subtable: SubTable) -> int:
        """Of the marginal cell that has the cell."""
        cell = self.table.schema.marginal_cells(np.array([self.cell], np.int64), subtable)
        return int(self.table.marginal(subtable).count_at(cell)[0])

    def _refutes(self, support: Sequence[SubTable]) -> bool:
        """Whether the shuttle shows it by these alone; not where that takes more steps than are left."""
        self.left -= STEPS_AT_LEAST + 3 ** self._variables(support)
        if self.left < 0:
            return False
        low, high = propagated(self.table, self.zeros, self.cell, support)
        return not is_wide(high - low, self.min_width)

    def _first(self, support: list[SubTable]) -> list[SubTable]:
        """The first that do, twice as many each time: they have few variables, so that what follows is cheap."""
        number = 1
        while number < len(support):
            if self._refutes(support[:number]):
                return support[:number]
            number *= 2
        return support

    def _fewer(self, support: list[SubTable]) -> list[SubTable]:
        """Without what is not needed, many at once and then fewer."""
        size = len(support) // 2
        while size:
            begin = 0
            while begin < len(support):
                rest = support[:begin] + support[begin + size :]
                if rest and self._refutes(rest):
                    support = rest
                else:
                    begin += size
            size //= 2
        return support

    def _smaller(self, support: list[SubTable]) -> list[SubTable]:
        """With sub-tables of theirs instead, where these do."""
        waiting = list(support)
        while waiting and self.left > 0:
            tried = waiting.pop(0)
            for child in st.children(tried, self.table.schema):
                instead = [child, *(t for t in support if t != tried)]
                if child and self._refutes(instead):
                    support, waiting = instead, [child, *waiting]
                    break
        return support

    def by_multipliers(self, knowledge: Knowledge, priced: Sequence[Priced]) -> Refutation | None:
        """By the linear program of a component, both ends where that is all of the table."""
        if not self.table.schema.levels.is_flat:
            return None
        structure = knowledge.structure
        for variables in structure.components.cliques:
            inside = tuple(self.table.schema.marginal_cells(np.array([self.cell], np.int64), variables)[0].tolist())
            given = {one.end: one.by for one in priced if (one.variables, one.cell) == (variables, inside)}
            kept = variables if given else variables & structure.varying
            if given or (kept and is_small(self.table.schema.restrict(st.members(kept)))):
                component = _Component.of(self.table, knowledge.release, self.zeros, kept, self.cell, given)
                found = self._priced(component)
                if found is not None:
                    return found
        return None

    def _priced(self, component: _Component) -> Refutation | None:
        upper = component.end(1)
        if upper is None:
            return None
        high, lower, low = upper[0], None, 0
        shared = self.table.schema.shared(component.kept, np.array([self.cell], np.int64))[0]
        if is_wide(high, self.min_width) and not shared:
            lower = component.end(-1)
            low = 0 if lower is None else max(0, -lower[0])
        if is_wide(high - low, self.min_width):
            return None
        multipliers = [one[1] for one in (upper, lower) if one is not None]
        found = self._refutation((low, high), (t for one in multipliers for t in one.support))
        return replace(found, upper=upper[1], lower=None if lower is None else lower[1])


@dataclass(frozen=True)
class _Component:
    """The marginal table of a few variables, `kept`, and a cell of it; by its ends multipliers that are `given`."""

    table: Table
    known: Knowledge
    cell: tuple[int, ...]
    kept: SubTable
    given: Mapping[int, Multipliers]

    @staticmethod
    def of(
        table: Table,
        release: Release,
        zeros: StructuralZeros,
        kept: SubTable,
        cell: NamedCell,
        given: Mapping[int, Multipliers],
    ) -> _Component:
        schema = table.schema.restrict(st.members(kept))
        known = Knowledge.of_tables(schema, table.total, release.within(kept), zeros.within(kept))
        inside = table.schema.marginal_cells(np.array([cell], np.int64), kept)[0]
        return _Component(table.marginal(kept), known, tuple(inside.tolist()), kept, given)

    def end(self, sign: int) -> tuple[int, Multipliers] | None:
        """The least proven bound of sign * cell and its multipliers, named as the whole table has them."""
        frontier, given = self.known.release.frontier, self.given.get(int(sign > 0))
        whole = () if given is None else (given,)
        found = duality.narrowest(self.table, self.known.zeros, self.cell, sign, self._proposed(sign), frontier, whole)
        if found is None:
            return None
        value, one = found
        of = tuple((self._outside(t), codes, y) for t, codes, y in one.of)
        return value, Multipliers(one.scale, of, tuple(map(self._outside, one.caps)))

    def _proposed(self, sign: int) -> Iterator[dict[MarginalCell, float]]:
        if self.given:
            yield from self._rounded(sign)
            return
        try:
            program = linear_program.program_of(self.table, self.known)
        except ReleaseError:
            return
        place = int(program.place(np.array([self.cell]))[0])
        for multipliers in linear_program.dual_path(program, place, sign):
            yield dict(duality.named_rows(program.levels, multipliers))

    def _rounded(self, sign: int) -> Iterator[dict[MarginalCell, float]]:
        """Those given of this end; of the upper one that of the released marginal cell with the smallest count too."""
        if sign > 0:
            cell = np.array([self.cell], np.int64)
            least = min(self.known.release.frontier, key=lambda t: int(self.table.marginal_at(t, cell)[0]), default=0)
            yield {(least, tuple(self.table.schema.marginal_cells(cell, least)[0].tolist())): 1.0}
        if (one := self.given.get(int(sign > 0))) is not None:
            yield {(subtable, codes): y / one.scale for subtable, codes, y in one.of}

    def _outside(self, subtable: SubTable) -> SubTable:
        members = st.members(self.kept)
        return st.of(members[v] for v in st.members(subtable))


MANY = 1 << 19  # at-risk cells whose bounds take as much memory as all else


@dataclass(eq=False)
class RiskEvaluator:
    """Evaluates releases for a search. Witnesses found for one serve the next; proofs stay with their evaluation.

    Evaluating small releases before larger ones is cheapest: then only what a larger one adds is looked at. `resume`
    goes back to an earlier evaluation. InputError for a small count below 1, ReleaseError for
    what is known of another table.

    known   what is public already: every release is judged together with it
    before  what was known before the suppressed tables: small cells of these that follow from it follow anyway;
            None for all that is known
    policy  which verdicts let a release out; with `Policy.OUTER` no proof of safety is looked for while searching
    effort  what all questions together may cost
    spent   steps of its budget that they have taken
    refutations  of what was refuted so far; what has the support of one is refused at once. None where none are kept
    witnesses    feasible tables of earlier proofs, with which each search for evidence begins
    """

    table: Table
    known: Knowledge
    criteria: Criteria
    policy: Policy = Policy.REFUSE
    effort: Effort = field(default_factory=Effort)
    pool: WitnessPool = field(default=None)  # type: ignore[assignment]  # filled below, so that one can be given
    spent: int = 0
    refutations: Refutations | None = None
    before: Knowledge | None = None
    witnesses: Witnesses | None = None

    def __post_init__(self) -> None:
        self.known.check_is_of(self.table)
        self.criteria.check(self.table.schema)
        if self.pool is None:
            self.pool = self._empty_pool(self.criteria)

    def _empty_pool(self, criteria: Criteria) -> WitnessPool:
        own = criteria.primary_cells(self.table, self.known, self.before or self.known)
        return criteria.pool(self.table, own, self.witnesses)

    def knowing(self, known: Knowledge, before: Knowledge | None = None) -> RiskEvaluator:
        """Where that is known, which sub-tables in part tell, beside what was known before; with nothing found."""
        asked = replace(self, known=known, before=before or self.before or self.known)
        asked.pool = asked._empty_pool(self.criteria)
        return asked

    @property
    def executor(self) -> Executor:
        return self.effort.executor

    def knows(self, release: Release) -> Knowledge:
        """What an intruder knows where the release is public too."""
        return self.known.plus(release)

    def evaluate(
        self,
        release: Release,
        depth: Depth = Depth.FULL,
        executor: Executor | None = None,
        most: int | None = None,
    ) -> Evaluation:
        """The evaluation of a release by all criteria.

        executor  does the work, instead of its own
        most      steps of the budget that this question may take, as far as these are left
        """
        if depth is not Depth.EVERY and (kept := self._refused(release)) is not None:
            return kept
        effort = replace(self._effort(depth), executor=executor or self.executor)
        if most is not None:
            effort = replace(effort, spent=max(self.spent, effort.budget.steps - most))
        return self._kept(self._noted(self.criteria.judge(self.table, self.known, release, self.pool, effort)))

    def _refused(self, release: Release) -> Evaluation | None:
        """By a refutation that was kept, without a look at any bound; None where none is of it."""
        if self.refutations is None:
            return None
        refutation = self.refutations.of(self.knows(release), self.criteria.floor)
        if refutation is None:
            return None
        answer = refuted(refutation, self.criteria.floor, len(self.pool.at_risk))
        stopped = (refutation.cell,)
        return Evaluation(self.criteria, self.known, release, answer, self.pool, 0, stopped, refutation)

    def _kept(self, evaluation: Evaluation) -> Evaluation:
        """With its refutation, where it is refuted by a width and one is found."""
        narrow = [
            w for w in evaluation.assessment.witnesses if not self.criteria.width.is_wide(w.outer[1] - w.outer[0])
        ]
        if self.refutations is None or evaluation.verdict is not Verdict.UNSAFE or not narrow:
            return evaluation
        found = refutation_of(self.table, evaluation.knowledge, narrow, self.criteria.floor, evaluation.priced)
        if found is None:
            return evaluation
        self.refutations = self.refutations.plus(found)
        return replace(evaluation, refutation=found)

    def examine(self, release: Release) -> tuple[Evaluation, CellBounds]:
        """The evaluation that goes farthest, and the bounds of every at-risk cell that it rests on."""
        effort = self._effort(Depth.EVERY)
        evaluation, bounds = self.criteria.examine(self.table, self.known, release, self.pool, effort)
        return self._noted(evaluation), bounds

    def sharpen(
        self, evaluation: Evaluation, bounds: CellBounds, seconds: float, kept: Mapping[str, Arrays], on_part: OnPart
    ) -> tuple[Evaluation, CellBounds, EndMethods]:
        """What `examine` answered, with bounds of every at-risk cell as sharp as so many seconds make them.

        Narrower outer ends may refute what was open, and what no table reached before may be reached now.
        `kept` and `on_part` as for `sharp_bounds`. ReleaseError where an inner end is not shown by its tables.
        """
        known = evaluation.knowledge
        found = sharp_bounds(
            self.table,
            known,
            bounds.cells,
            seconds=seconds,
            start=bounds,
            proof=evaluation.proof,
            executor=self.executor,
            kept=kept,
            on_part=on_part,
            cells_per_slice=self.effort.cells_per_slice,
        )
        # what is found is believed no more than a certificate: each difference is checked in integers here
        pool = evaluation.pool.learnt(found.proof, known)
        if not np.array_equal(Support(known, pool).inner, found.bounds.inner):
            raise ReleaseError(
                "inner ends of sharp bounds are not those that their tables show; this is a bug in sdc: report it"
            )
        by = found.by()
        answer = self.criteria.rejudged(evaluation, found.bounds, pool)
        sharp = replace(answer.assessment, sharpness=Sharpness.of(found.bounds, by))
        return replace(answer, assessment=sharp), found.bounds, by

    def _effort(self, depth: Depth) -> Effort:
        return replace(self.effort, depth=depth, spent=self.spent)

    def _noted(self, evaluation: Evaluation) -> Evaluation:
        self.pool, self.spent = evaluation.pool, self.spent + evaluation.spent
        if len(self.pool.at_risk) > MANY:
            give_back()  # the next question is of other components, which need other blocks
        return evaluation

    def accepts(self, evaluation: Evaluation) -> bool:
        """Whether the release may go out."""
        return self.policy.accepts(evaluation.verdict)

    def resume(self, evaluation: Evaluation) -> None:
        """Goes on from an earlier evaluation: with what its proof rests on, not with what was found since."""
        self.pool = evaluation.pool

    def learn(self, proof: Proof, release: Release) -> None:
        """Takes over feasible tables found elsewhere; what is not feasible under the release is left out."""
        self.pool = self.pool.learnt(proof, self.knows(release))

    def anew(self, criteria: Criteria | None = None) -> RiskEvaluator:
        """With a budget of its own and nothing found, maybe to other criteria; marginals counted are shared."""
        asked = criteria or self.criteria
        # what is counted depends on the at-risk cells, not on the width that is asked of them
        same = (asked.small_count, asked.of_values) == (self.criteria.small_count, self.criteria.of_values)
        if len(self.pool.at_risk.own):
            same &= asked.width == self.criteria.width  # which small cells of suppressed tables follow anyway does
        pool = self.pool.emptied() if same else self._empty_pool(asked)
        kept = None if self.refutations is None else self.refutations.emptied()
        return replace(self, criteria=asked, pool=pool, spent=0, refutations=kept)
