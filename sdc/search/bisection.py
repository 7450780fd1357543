"""Ordered marginals as published ([KDSF] 5.2): the longest prefix of the list by critical width that may go out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sdc.model import subtable as st
from sdc.model.errors import NothingReleasableError, many
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.risk.criteria import Evaluation
from sdc.search.ordered import OrderedRelease, OrderedSearch, ordered_list


@dataclass(eq=False)
class BisectionSearch(OrderedSearch):
    """The list, the longest prefix that may go out, and nothing else: no sub-table is tried that is not of a prefix.

    A prefix goes out with all that is within it, for of equal widths a child comes after its parent, and with what is
    required, which is judged first. The list is by critical width alone, whatever sub-tables weigh.

    or_nothing  where no prefix is safe the release is what is required, or the grand total alone
    """

    or_nothing: bool = False

    def run(self) -> OrderedRelease:
        """The longest prefix that is accepted, by bisection: of n sub-tables at most 1 + log2 n questions.

        Of two prefixes the shorter is safe where the longer is, so each question halves the lengths that are open.
        NothingReleasableError where not even the first of the list may go out and nothing is required; else as
        `OrderedSearch.run`. Where it is ended before that, the longest that was accepted until then.
        """
        listed, required, start = self._first()
        longest, left = self._longest(start.release, listed)
        if longest is None and listed and required is None and not self.or_nothing:
            raise self._nothing(listed[0], left)
        return self._found(longest or start, required, left)

    def candidates(self) -> tuple[SubTable, ...]:
        listed = ordered_list(self.widths, self.evaluator.criteria.floor, self.constraints)
        return tuple(self.evaluator.criteria.keeping(self.evaluator.table, self.evaluator.known.zeros, listed))

    def _longest(self, start: Release, listed: Sequence[SubTable]) -> tuple[Evaluation | None, int]:
        """The longest prefix that is accepted beside the start, None where there is none; and how many longer ones are
        left of which nothing is known, as the search was ended early."""
        longest, releasable, refused = None, 0, len(listed) + 1
        while refused - releasable > 1 and not self.deadline.is_over:
            middle, asked = (releasable + refused) // 2, len(self._steps)
            if (accepted := self._asked_first(start, listed[:middle], "bisection")) is not None:
                longest, releasable = accepted, middle
            elif len(self._steps) > asked:
                refused = middle
        return longest, refused - releasable - 1

    def _nothing(self, first: SubTable, left: int) -> NothingReleasableError:
        if left:
            return NothingReleasableError(
                f"the search was ended early after {many(len(self._steps), 'question')}, before a prefix of the "
                "list was "
                "proven; give it more time"
            )
        name = st.label(first, self.evaluator.table.schema)
        said = "does not keep" if self._steps[-1].answer is False else "is not shown to keep"
        return NothingReleasableError(
            f"no prefix of the list may go out: already its first sub-table {name} {said} the minimum width "
            f"{self.evaluator.criteria.floor}; ask for a smaller one, or choose ordered, which tries every sub-table"
        )
