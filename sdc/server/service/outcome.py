"""The states of a request, what users see of each, the transitions between them, and what goes wrong.

Every outcome, code and HTTP status of the server is in these tables, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

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
    # nothing proves it to be safe or unsafe: nobody can tell it from what is refused
    "undecided": _REFUSED,
}

PUBLIC = ("answered", "released", "answered_in_part", "released_in_part")
"""Where what was asked for can be had."""


class Transition(Enum):
    """What leads a request on: from where it may stand, where to, and why, in words for operators.

    Each but the last six is an entry of the history. `{}` is what the decision itself says.
    """

    IS_PUBLIC = ("pending",), "answered", "it is public"
    IS_KNOWN = ("pending",), "refused", "with it the criterion would be broken, which was known before"
    WAITS = ("pending",), "waiting", "it waits for the next round"
    OBJECTED = ("pending", "waiting"), "refused", "{}"
    SAFE = ("pending", "waiting"), "released", "it is safe"
    UNSAFE = ("pending", "waiting"), "refused", "with it the criterion would be broken"
    UNPROVEN = ("pending", "waiting"), "undecided", "nothing proves it to be safe or unsafe"
    HELD = ("pending", "waiting"), "held", "drawn tables would let it out, but {}"
    IS_PUBLIC_IN_PART = ("pending", "waiting"), "answered_in_part", "it is public with suppressed cells"
    SAFE_IN_PART = ("pending", "waiting"), "released_in_part", "it is safe with suppressed cells, {}"
    NOT_IN_PART = ("pending", "waiting"), "refused", "it is released neither whole nor with suppressed cells: {}"
    ROUND_HAS_IT = ("waiting",), "answered", "it is public since this round"
    ROUND_HAS_OTHERS = ("waiting",), "refused", "this round released what serves more interest"

    # without an entry but the request's own
    STORED = (), "pending", "it is in the history, and only then answered"
    LOOKED_INTO = ("pending",), "pending", "nothing proves it at once, and it is looked into for longer"
    OVERTAKEN = ("pending",), "pending", "something was released meanwhile, and it is decided again"
    FAILED = ("pending",), "pending", "it could not be decided, or that not be stored, and it is tried again"
    LEFT = ("pending",), "pending", "its server ended, and another or the next start takes it up"
    NOT_HELD = ("waiting",), "waiting", "the round could not be decided or stored, and is to be held again"

    def __init__(self, before: tuple[RequestState, ...], after: RequestState, why: str) -> None:
        self.before, self.after, self.why = before, after, why


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
