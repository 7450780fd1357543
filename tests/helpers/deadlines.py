"""Deadlines that do not depend on a clock."""

from dataclasses import dataclass, field

from sdc.deadline import Deadline


@dataclass(frozen=True)
class AfterLooks(Deadline):
    """Over once it was looked at so many times; half of it is the same."""

    most: int = 0
    seen: list[None] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        self.seen.append(None)
        return len(self.seen) > self.most
