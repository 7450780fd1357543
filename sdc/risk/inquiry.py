"""Questions about one table, one after another: with the same criteria, one bank and one budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sdc.checkpoint import Arrays
from sdc.executor import Executor
from sdc.feasible.bank import Bank
from sdc.feasible.proof import Proof
from sdc.feasible.witnesses import Witnesses
from sdc.memory import give_back
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.sharpness import EndMethods, Sharpness
from sdc.model.table import Table
from sdc.risk.criteria import Criteria, Judgement
from sdc.risk.effort import Depth, Effort
from sdc.risk.refutation import Refutations, refuted
from sdc.risk.refuting import refutation_of
from sdc.risk.sharp import METHODS, OnPart, sharp_bounds
from sdc.risk.support import Support
from sdc.risk.verdict import Policy, Verdict

MANY = 1 << 19  # at-risk cells whose bounds take as much memory as all else


@dataclass(eq=False)
class Inquiry:
    """What a search asks with. What one question finds serves the next; what was proven stays with its judgement.

    Questions are best asked from small releases to larger ones: then only what a larger one adds is looked at. A
    judgement of earlier can be gone back to with `resume`. InputError for a small count below 1, ReleaseError for
    what is known of another table.

    known   what is public already: every release is judged together with it
    before  what was, before the sub-tables in part that are known: small cells of these that it tells are told anyway;
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
    bank: Bank = field(default=None)  # type: ignore[assignment]  # filled below, so that one can be given
    spent: int = 0
    refutations: Refutations | None = None
    before: Knowledge | None = None
    witnesses: Witnesses | None = None

    def __post_init__(self) -> None:
        self.known.check_is_of(self.table)
        self.criteria.check(self.table.schema)
        if self.bank is None:
            self.bank = self._empty_bank(self.criteria)

    def _empty_bank(self, criteria: Criteria) -> Bank:
        own = criteria.own_cells(self.table, self.known, self.before or self.known)
        return criteria.bank(self.table, own, self.witnesses)

    def knowing(self, known: Knowledge, before: Knowledge | None = None) -> Inquiry:
        """Where that is known, which sub-tables in part tell, beside what was known before; with nothing found."""
        asked = replace(self, known=known, before=before or self.before or self.known)
        asked.bank = asked._empty_bank(self.criteria)
        return asked

    @property
    def executor(self) -> Executor:
        return self.effort.executor

    def knows(self, release: Release) -> Knowledge:
        """What an intruder knows where the release is public too."""
        return self.known.plus(release)

    def ask(
        self,
        release: Release,
        depth: Depth = Depth.FULL,
        executor: Executor | None = None,
        most: int | None = None,
    ) -> Judgement:
        """The judgement of a release by all criteria.

        executor  does the work, instead of its own
        most      steps of the budget that this question may take, as far as these are left
        """
        if depth is not Depth.EVERY and (kept := self._refused(release)) is not None:
            return kept
        effort = replace(self._effort(depth), executor=executor or self.executor)
        if most is not None:
            effort = replace(effort, spent=max(self.spent, effort.budget.steps - most))
        return self._kept(self._noted(self.criteria.judge(self.table, self.known, release, self.bank, effort)))

    def _refused(self, release: Release) -> Judgement | None:
        """By a refutation that was kept, without a look at any bound; None where none is of it."""
        if self.refutations is None:
            return None
        refutation = self.refutations.of(self.knows(release), self.criteria.floor)
        if refutation is None:
            return None
        answer = refuted(refutation, self.criteria.floor, len(self.bank.at_risk))
        stopped = (refutation.cell,)
        return Judgement(self.criteria, self.known, release, answer, self.bank, 0, stopped, refutation)

    def _kept(self, judgement: Judgement) -> Judgement:
        """With its refutation, where it is refuted by a width and one is found."""
        narrow = [w for w in judgement.assessment.witnesses if not self.criteria.width.is_wide(w.outer[1] - w.outer[0])]
        if self.refutations is None or judgement.verdict is not Verdict.UNSAFE or not narrow:
            return judgement
        found = refutation_of(self.table, judgement.knowledge, narrow, self.criteria.floor, judgement.priced)
        if found is None:
            return judgement
        self.refutations = self.refutations.plus(found)
        return replace(judgement, refutation=found)

    def examine(self, release: Release) -> tuple[Judgement, CellBounds]:
        """The judgement that goes farthest, and the bounds of every at-risk cell that it rests on."""
        effort = self._effort(Depth.EVERY)
        judgement, bounds = self.criteria.examine(self.table, self.known, release, self.bank, effort)
        return self._noted(judgement), bounds

    def sharpen(
        self, judgement: Judgement, bounds: CellBounds, seconds: float, kept: Mapping[str, Arrays], on_part: OnPart
    ) -> tuple[Judgement, CellBounds, EndMethods]:
        """What `examine` answered, with bounds of every at-risk cell as sharp as so many seconds make them.

        Narrower outer ends may refute what was open, and what no table reached before may be reached now.
        `kept` and `on_part` as for `sharp_bounds`. ReleaseError where an inner end is not shown by its tables.
        """
        known = judgement.knowledge
        found = sharp_bounds(
            self.table,
            known,
            bounds.cells,
            seconds=seconds,
            start=bounds,
            proof=judgement.proof,
            executor=self.executor,
            kept=kept,
            on_part=on_part,
            cells_per_slice=self.effort.cells_per_slice,
        )
        # what is found is believed no more than a certificate: each difference is checked in integers here
        bank = judgement.bank.learnt(found.proof, known)
        if not np.array_equal(Support(known, bank).inner, found.bounds.inner):
            raise ReleaseError("inner ends of sharp bounds are not those that their tables show; report it")
        by = EndMethods.named(METHODS, found.outer_by, found.inner_by)
        answer = self.criteria.rejudged(judgement, found.bounds, bank)
        told = replace(answer.assessment, sharpness=Sharpness.of(found.bounds, by))
        return replace(answer, assessment=told), found.bounds, by

    def _effort(self, depth: Depth) -> Effort:
        return replace(self.effort, depth=depth, spent=self.spent)

    def _noted(self, judgement: Judgement) -> Judgement:
        self.bank, self.spent = judgement.bank, self.spent + judgement.spent
        if len(self.bank.at_risk) > MANY:
            give_back()  # the next question is of other components, which need other blocks
        return judgement

    def accepts(self, judgement: Judgement) -> bool:
        """Whether the release may go out."""
        return self.policy.accepts(judgement.verdict)

    def resume(self, judgement: Judgement) -> None:
        """Goes on from an earlier judgement: with what its proof rests on, not with what was found since."""
        self.bank = judgement.bank

    def learn(self, proof: Proof, release: Release) -> None:
        """Takes over feasible tables found elsewhere; what is not feasible under the release is left out."""
        self.bank = self.bank.learnt(proof, self.knows(release))

    def anew(self, criteria: Criteria | None = None) -> Inquiry:
        """With a budget of its own and nothing found, maybe to other criteria; marginals counted are shared."""
        asked = criteria or self.criteria
        # what is counted depends on the at-risk cells, not on the width that is asked of them
        same = asked.small_count == self.criteria.small_count
        if len(self.bank.at_risk.own):
            same &= asked.width == self.criteria.width  # which small cells of parts are told anyway does
        bank = self.bank.emptied() if same else self._empty_bank(asked)
        kept = None if self.refutations is None else self.refutations.emptied()
        return replace(self, criteria=asked, bank=bank, spent=0, refutations=kept)
