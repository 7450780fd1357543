"""One question of a search, as it is logged, kept and shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from sdc.model.errors import many
from sdc.model.subtable import SubTable


@dataclass(frozen=True)
class SearchStep:
    """One question put to the criterion while searching.

    phase      "required"; "everything", all candidates at once; "growth" from what is required, or from the grand
               total; "extension" of a release that another search found; "bisection", a prefix of the list;
               "proposal" of the method optimum, or a part of one
    length     candidates asked about, where these are all or a prefix; else sub-tables released so far
    added      the sub-tables tried together; none where they are all candidates or a prefix
    answer     True releasable, False refuted, None undecided
    blockers   codes of the at-risk cells that stopped it, see `Evaluation`
    refutation  the name of what proves that it is refuted; None where nothing was found that does
    spent      steps of the budget that it took
    left       questions that may come after it at most; 0 where that is not known
    """

    phase: str
    length: int
    added: tuple[SubTable, ...]
    answer: bool | None
    min_width: tuple[int, int]
    undecided_cells: int
    blockers: tuple[tuple[int, ...], ...] = ()
    refutation: str | None = None
    spent: int = 0
    left: int = 0


LATELY = 10


def outlook(steps: Sequence[SearchStep]) -> str:
    """Of a growth, by its steps until now: the questions that are left at most, and what the last ones gained."""
    last = steps[-LATELY:]
    gained = sum(len(step.added) for step in last if step.answer)
    plural, others = "s" * (last[-1].left != 1), "s" * (gained != 1)
    lately = f"the last {len(last)} added" if len(last) > 1 else "the last added"
    return f"at most {last[-1].left:,} question{plural} left, {lately} {gained:,} sub-table{others}"


@dataclass(frozen=True)
class Refused:
    """Questions that were refused, and what is proven of that.

    proven       by a refutation, of which there are so many different ones
    refuted      by bounds or a limit, without a refutation that was kept
    unproven     nothing was found either way, in so many steps of all of them together
    """

    proven: int
    refutations: int
    refuted: int
    unproven: int
    spent: int

    @staticmethod
    def of(steps: Iterable[SearchStep], lets_open_out: bool = False) -> Refused:
        """Of the steps of a search; where what is open may go out it is not refused."""
        asked = tuple(steps)
        names = [step.refutation for step in asked if step.refutation is not None]
        open_ = [] if lets_open_out else [step for step in asked if step.answer is None]
        refuted = sum(step.answer is False and step.refutation is None for step in asked)
        return Refused(len(names), len({*names}), refuted, len(open_), sum(step.spent for step in open_))

    @property
    def questions(self) -> int:
        return self.proven + self.refuted + self.unproven

    @property
    def facts(self) -> dict[str, int]:
        """As documents have it."""
        return asdict(self)

    @property
    def text(self) -> str:
        """The end of a sentence; no cell."""
        parts = []
        if self.proven:
            different = many(self.refutations, "refutation")
            parts.append(
                f"{self.proven:,} {_are(self.proven)} refused, proven: by {different} that verify works out again"
            )
        if self.refuted:
            parts.append(
                f"{self.refuted:,} {_are(self.refuted)} refuted by bounds or a limit alone, no proof of which is kept"
            )
        if self.unproven:
            steps = many(self.spent, "step")
            parts.append(f"of {self.unproven:,} no proof was found in {steps}")
        return "; ".join(parts)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
