"""Sub-tables that go out in part: of each all cells are told but those that are withheld."""

from __future__ import annotations

from dataclasses import dataclass

from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema


@dataclass(frozen=True)
class Parts:
    """What goes out in part, and beside what.

    beside  the sub-tables that were released whole when it was made: a small cell that these and what was known before
            tell is told anyway; all others are to keep the width
    facts   one of each sub-table
    """

    beside: Release = NOTHING
    facts: tuple[Fact, ...] = ()

    def without(self, release: Release) -> Parts:
        """Those that are not released whole."""
        return Parts(self.beside, tuple(fact for fact in self.facts if fact.view not in release))

    def before(self, known: Knowledge) -> Knowledge:
        """What tells of their cells without them, for whoever knew that before."""
        return known.plus(self.beside) if self.facts else known

    def labels(self, schema: Schema) -> list[str]:
        """Of each sub-table."""
        return [fact.label(schema) for fact in self.facts]


NO_PARTS = Parts()
