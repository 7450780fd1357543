"""The states of a request, what users see of each, what leads to them, and what goes wrong; and replies.

Every outcome, code and HTTP status of the server is in these tables, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table

Decided: TypeAlias = Literal["answered", "released", "refused", "pending"]
Outcome: TypeAlias = Literal[
    "answered", "released", "answered_in_part", "released_in_part", "refused", "undecided", "held", "waiting"
]
RequestState: TypeAlias = Literal["pending"] | Outcome

NOT_RELEASED, NOR_IN_PART = "This table is not released.", "This table is not released, nor with suppressed cells."
WHOLE = "This table is public from now on, whole: none of its cells has to be suppressed."


@dataclass(frozen=True)
class PublicState:
    """What users see of a request: a word, a stable code, an HTTP status and a sentence.

    Of a refusal there may be more to say, see `refusal_message`.
    """

    decision: Decided
    code: str
    status: int
    message: str


_IN_PROGRESS = PublicState(
    "pending", "in-progress", 202, "This request is not decided yet; ask again later under its number."
)
_REFUSED = PublicState("refused", "not-released", 200, NOT_RELEASED)

PUBLIC_STATES: Mapping[RequestState, PublicState] = {
    # stored, and without a decision
    "pending": _IN_PROGRESS,
    # for a round of the rule batch
    "waiting": PublicState(
        "pending", "next-round", 202, "This request waits for the next round, in which many are decided together."
    ),
    # drawn tables would let it out and the criterion not: nobody can tell it from what is pending
    "held": _IN_PROGRESS,
    "answered": PublicState("answered", "already-released", 200, "This table is public already."),
    "released": PublicState("released", "released", 200, "This table is public from now on."),
    # asked for with suppressed cells
    "answered_in_part": PublicState(
        "answered", "already-released-in-part", 200, "This table is public already, with suppressed cells."
    ),
    "released_in_part": PublicState(
        "released", "released-in-part", 200, "This table is public from now on, with suppressed cells."
    ),
    "refused": _REFUSED,
    # neither safe nor unsafe is proven: nobody can tell it from what is refused
    "undecided": _REFUSED,
}

PUBLIC = ("answered", "released", "answered_in_part", "released_in_part")
"""Where what was asked for can be had."""


class Transition(Enum):
    """What decides a request, what becomes of it, and why, in words for operators: `{}` is what the decision says."""

    IS_PUBLIC = "answered", "it is public"
    IS_KNOWN = "refused", "with it the criterion would be broken, which was known before"
    WAITS = "waiting", "it waits for the next round"
    OBJECTED = "refused", "{}"
    SAFE = "released", "it is safe"
    UNSAFE = "refused", "with it the criterion would be broken"
    UNPROVEN = "undecided", "neither safe nor unsafe is proven"
    HELD = "held", "the drawn tables would release it, but {}"
    IS_PUBLIC_IN_PART = "answered_in_part", "it is public with suppressed cells"
    SAFE_IN_PART = "released_in_part", "it is safe with suppressed cells, {}"
    NOT_IN_PART = "refused", "it is released neither whole nor with suppressed cells: {}"
    ROUND_HAS_IT = "answered", "it is public since this round"
    ROUND_HAS_OTHERS = "refused", "this round released what serves more interest"

    def __init__(self, after: RequestState, why: str) -> None:
        self.after, self.why = after, why


PROBLEMS: Mapping[str, int] = {
    # the address
    "unknown-path": 404,
    "not-allowed": 405,
    # who asks, and how often
    "bad-host": 400,
    "unauthorised": 401,
    "forbidden": 403,
    "form-expired": 403,
    "too-many-requests": 429,
    # the body
    "bad-body": 400,
    "body-too-large": 413,
    "request-timeout": 408,
    "unsupported-media-type": 415,
    # what is asked for
    "empty-request": 400,
    "repeated-variable": 400,
    "unknown-variable": 400,
    "not-possible": 400,
    "refused": 400,
    "not-released": 404,
    "unknown-request": 404,
    "unknown-version": 404,
    "unknown-key": 404,
    "unknown-user": 404,
    "unknown-format": 406,
    "too-large": 413,
    # the history is away, or a process that decides has died: nothing is answered that is not stored
    "unavailable": 503,
}
"""The codes of answers that are none, with their HTTP status; the request then stands where it stood, or nowhere."""


@dataclass(frozen=True)
class Reply:
    """The answer to a user; nothing in it depends on what is confidential, except whether it was released.

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
    def to(request: Request, state: State) -> Reply:
        """The answer to a request now."""
        subtable, decision = request.sub_table, request.decision
        parts = () if decision in PUBLIC else state.projection(subtable)
        job = request.own if decision == "pending" else None
        shown = decision, request.code, request.message
        return Reply(*shown, subtable, state.version, parts, job, request.in_part)

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
    """What is public of a suppressed table of N records.

    marginal  its published cells, with their exact counts; suppressed  (n, axes) those that are not
    within    public marginals over fewer of its axes, which tell totals
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
    min_width: Sequence[int] | None
    witness: dict[str, Any] | None
    milliseconds: float


@dataclass(frozen=True)
class Moment:
    """The frontiers and suppressed tables at one version, with the size of R(t); `cause` is what was released."""

    version: int
    at: str
    cause: SubTable | None
    released: tuple[SubTable, ...]
    unreleasable: tuple[SubTable, ...]
    sub_tables: int
    suppressed_tables: tuple[SubTable, ...] = ()
