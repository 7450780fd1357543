"""What shows that cells can move: feasible tables of the components of a release, and how components fit together."""

from __future__ import annotations

from dataclasses import dataclass

from sdc.feasible.differences import Differences
from sdc.model.graph import Decomposition
from sdc.model.subtable import SubTable


@dataclass(frozen=True, eq=False)
class ComponentProof:
    """How far the marginal cells of one component can move.

    variables    the component
    cover        decomposable, contains what is released of the component: its explicit bounds are inner ones; None
                 where there is none
    differences  from the component's marginal table; each claims to give a table that is feasible for what is
                 released of the component

    `cover` and `differences` number the variables as the marginal table has them.
    """

    variables: SubTable
    cover: Decomposition | None
    differences: Differences


@dataclass(frozen=True, eq=False)
class Proof:
    """The parts in perfect order, and the released separators between them, one for each part but the first."""

    parts: tuple[ComponentProof, ...]
    separators: tuple[SubTable, ...]

    @property
    def differences(self) -> int:
        """How many there are."""
        return sum(len(part.differences) for part in self.parts)
