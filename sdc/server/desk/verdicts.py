"""Verdicts on releases of a small table, each asked for once: within a safe one all are, around an unsafe one none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable

DownSet = int
"""Bit T is set where the sub-table of number T is released."""


@dataclass(eq=False)
class Verdicts:
    """What is known of the releases of a table of few variables; `judge` is asked where it does not follow."""

    schema: Schema
    judge: Callable[[Release], bool]
    asked: int = 0
    _safe: list[DownSet] = field(default_factory=list)
    _unsafe: list[DownSet] = field(default_factory=list)
    _told: dict[DownSet, bool] = field(default_factory=dict)

    @cached_property
    def below(self) -> Mapping[SubTable, DownSet]:
        """Of each sub-table all that are public with it."""
        every = st.subsets(st.full(len(self.schema)), self.schema)
        return {subtable: sum(1 << t for t in st.subsets(subtable, self.schema)) for subtable in every}

    def down_set(self, release: Release) -> DownSet:
        found = 0
        for element in release.frontier:
            found |= self.below[element]
        return found

    def is_safe(self, released: DownSet, subtable: SubTable) -> bool:
        """Whether the release with one sub-table more is safe."""
        larger = released | self.below[subtable]
        if larger not in self._told:
            self._told[larger] = self._found(larger)
        return self._told[larger]

    def _found(self, larger: DownSet) -> bool:
        if any(larger & ~known == 0 for known in self._safe):
            return True
        if any(known & ~larger == 0 for known in self._unsafe):
            return False
        self.asked += 1
        answer = self.judge(Release.of(t for t in self.below if larger >> t & 1))
        if answer:
            self._safe = [known for known in self._safe if known & ~larger] + [larger]
        else:
            self._unsafe = [known for known in self._unsafe if larger & ~known] + [larger]
        return answer
