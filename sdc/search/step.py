"""One question of a search, as it is told, kept and shown."""

from __future__ import annotations

from dataclasses import dataclass

from sdc.model.subtable import SubTable


@dataclass(frozen=True)
class SearchStep:
    """One question put to the criterion while searching.

    phase      "required"; "everything", all candidates at once; "growth" from what is required, or from the grand
               total; "extension" of a release that another search found; "bisection", a prefix of the list
    length     candidates asked about, where these are all or a prefix; else sub-tables released so far
    added      the sub-tables tried together; none where they are all candidates or a prefix
    answer     True releasable, False refuted, None undecided
    blockers   codes of the at-risk cells that stopped it, see `Judgement`
    """

    phase: str
    length: int
    added: tuple[SubTable, ...]
    answer: bool | None
    min_width: tuple[int, int]
    undecided_cells: int
    blockers: tuple[tuple[int, ...], ...] = ()
