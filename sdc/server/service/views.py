"""What the service shows: replies to users, their requests, and for operators why and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table
from sdc.server.service.outcome import NOT_RELEASED, PUBLIC_STATES, Decided


@dataclass(frozen=True)
class Reply:
    """The answer to a user; nothing in it depends on what is confidential, except whether it was released.

    decision, code, message  as in `outcome`
    projection  of a request that is not answered the largest parts of it that are public, which can be had
    job         the number under which its user asks again, of one that is pending
    in_part     whether it would have been taken with suppressed cells
    """

    decision: Decided
    code: str
    message: str
    sub_table: SubTable
    version: int
    projection: tuple[SubTable, ...] = ()
    job: int | None = None
    in_part: bool = False

    @staticmethod
    def not_released(subtable: SubTable, state: State, message: str = NOT_RELEASED) -> Reply:
        """The same whether it was refused, is undecided, or was never asked for."""
        shown = PUBLIC_STATES["refused"]
        return Reply(shown.decision, shown.code, message, subtable, state.version, state.projection(subtable))

    @property
    def status(self) -> int:
        """Of an HTTP answer with it."""
        return next(shown.status for shown in PUBLIC_STATES.values() if shown.code == self.code)


@dataclass(frozen=True, eq=False)
class SuppressedAnswer:
    """What is public of a suppressed table.

    marginal  its published cells, with their exact counts; suppressed  (n, axes) those that are not
    within    public marginals over fewer of its axes, which tell totals
    records   N
    """

    marginal: Table
    suppressed: Codes
    within: tuple[Table, ...]
    records: int


@dataclass(frozen=True)
class Request:
    """One request and what became of it, as its user may see it; `decided` is None while it is pending.

    number   of its entry in the history, for operators: numbers between two of a user's tell what happened meanwhile
    own      1, 2, 3, ... of the requests of its owner, who knows it by this
    owner    the user, or `public/VISITOR`
    in_part  whether it accepts suppressed cells where it does not go out whole
    """

    number: int
    own: int
    at: str
    owner: str
    sub_table: SubTable
    decision: Decided
    code: str
    message: str
    version: int
    in_part: bool = False

    @property
    def who(self) -> str:
        """The user; all visitors are `public`."""
        return self.owner.partition("/")[0]


@dataclass(frozen=True)
class Explained:
    """Why a request was decided as it was; for operators and auditors alone.

    rule     that decided; verdict  of the criterion, where it was asked; min_width  (lo, hi)
    witness  the cell that shows it: {"cell": {"A": "no"}, "count": 1, "outer": [0, 2], "inner": [1, 1]}
    """

    request: Request
    rule: str
    why: str
    verdict: str | None
    min_width: tuple[int, int] | None
    witness: dict[str, Any] | None
    milliseconds: float


@dataclass(frozen=True)
class Moment:
    """The frontiers at one version, with the size of R(t); `cause` is what was released.

    in_part  what was public with suppressed cells
    """

    version: int
    at: str
    cause: SubTable | None
    released: tuple[SubTable, ...]
    unreleasable: tuple[SubTable, ...]
    sub_tables: int
    in_part: tuple[SubTable, ...] = ()
