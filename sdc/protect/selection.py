"""A selection of differences: each target goes as far as it must, and they change as little as can be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Differences, Flags

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Chosen:
    """A difference, the places that it changes, and the targets, each by so much."""

    difference: Differences
    places: Ints
    targets: Ints
    changes: Ints


class Selection:
    """Which places are hidden since differences that were taken change them, and how far targets go with these.

    A target is proven where it goes up by what it needs less how far it goes down, as far as that counts.

    always  (places,) flags of those that are hidden whatever is taken; free  of those that cost nothing so far
    costs   (places,) of hiding each
    low, high  (targets,) how far each goes down and up with what was taken; without it they were the `base`
    needed  (targets,) by how much each has to move in all; useful  as far as going down counts
    hidden  (places,) flags; spent  what these cost
    """

    def __init__(self, always: Flags, free: Flags, costs: Ints, base: tuple[Ints, Ints], needed: Ints, useful: Ints):
        self._always, self._free, self.costs = always, free, costs
        self._base, self.low, self.high = base, base[0].copy(), base[1].copy()
        self.needed, self.useful = needed, useful
        self.hidden = always | free
        self.spent = int(costs[self.hidden].sum())
        self._uses = np.zeros(len(always), np.int64)
        self._kept = dict[int, Chosen]()
        self._of_place, self._of_target = dict[int, set[int]](), dict[int, dict[int, int]]()
        self._number = 0

    @property
    def is_begun(self) -> bool:
        """Whether something costs nothing so far."""
        return bool(self._free.any())

    @property
    def differences(self) -> list[Differences]:
        """Those taken, in the order in which they were first."""
        return [self._kept[at].difference for at in sorted(self._kept)]

    @property
    def extra(self) -> Ints:
        """Hidden places that need not be, the dearest first."""
        places = np.flatnonzero(self.hidden & ~self._always)
        return np.asarray(places[np.argsort(-self.costs[places], kind="stable")])

    def is_open(self, targets: Ints) -> Flags:
        """(n,) whether each of some is not proven."""
        reached = self.high[targets] + np.minimum(self.low[targets], self.useful[targets])
        return np.asarray(reached < self.needed[targets])

    def open(self, targets: Ints) -> Ints:
        """Those that are not proven."""
        return np.asarray(targets[self.is_open(targets)])

    def cost(self, *some: Ints) -> int:
        """What hiding all of these costs beside what is hidden; each has a place once."""
        if len(some) != 1:
            return self.cost(np.unique(np.concatenate(some)))
        places = some[0]
        return int(self.costs[places[~self.hidden[places]]].sum())

    def users(self, places: Iterable[int]) -> list[int]:
        """The numbers of those taken that change some of these places."""
        return sorted({at for place in places for at in self._of_place.get(place, ())})

    def take(self, chosen: Chosen, at: int | None = None) -> int:
        """Its number among those taken, a new one where it had none."""
        if at is None:
            at = self._number = self._number + 1
        self._kept[at] = chosen
        self._uses[chosen.places] += 1
        self._hide(chosen.places)
        for place in chosen.places.tolist():
            self._of_place.setdefault(place, set()).add(at)
        for target, change in zip(chosen.targets.tolist(), chosen.changes.tolist(), strict=True):
            self._of_target.setdefault(target, {})[at] = change
        np.maximum.at(self.low, chosen.targets, -chosen.changes)
        np.maximum.at(self.high, chosen.targets, chosen.changes)
        return at

    def drop(self, at: int) -> Chosen:
        """No longer taken."""
        chosen = self._kept.pop(at)
        self._uses[chosen.places] -= 1
        self._hide(chosen.places)
        for place in chosen.places.tolist():
            self._of_place[place].remove(at)
        for target in chosen.targets.tolist():
            changes = self._of_target[target]
            del changes[at]
            self.low[target] = max(int(self._base[0][target]), -min(changes.values(), default=0))
            self.high[target] = max(int(self._base[1][target]), max(changes.values(), default=0))
        return chosen

    def _hide(self, places: Ints) -> None:
        hidden = self._always[places] | self._free[places] | (self._uses[places] > 0)
        self.spent += int(self.costs[places] @ (hidden.astype(np.int64) - self.hidden[places]))
        self.hidden[places] = hidden

    def drop_spare(self, at: int) -> bool:
        """Drops a difference unless some target needs it beside the others; whether it did."""
        targets = self._kept[at].targets
        before = int(self.is_open(targets).sum())
        chosen = self.drop(at)
        if int(self.is_open(targets).sum()) == before:
            return True
        self.take(chosen, at)
        return False

    def shrink(self) -> None:
        """Drops all that no target needs beside the others, those first that hide most by themselves.

        From then on nothing is free.
        """
        self._free = np.zeros_like(self._free)
        self._hide(np.arange(len(self.hidden)))
        for at in sorted(self._kept, key=lambda at: (-self._alone(at), at)):
            self.drop_spare(at)

    def _alone(self, at: int) -> int:
        places = self._kept[at].places
        alone = places[(self._uses[places] == 1) & ~self._always[places]]
        return int(self.costs[alone].sum())
