"""Connections: how many may be open, and how long a client may take to send headers or to read."""

from __future__ import annotations

import asyncio
import errno
import resource
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from sdc.events import PROBLEM, SERVER, emit

HEADER_SECONDS = 10  # for the headers of a request
UNREAD_SECONDS = 60  # for a client that does not read what it is sent
REFUSED, SLOW_HEADERS, SLOW_READER = "refused as too many", "slow to send headers", "slow to read"
NOT_ACCEPTED = "not accepted for want of descriptors"
ACCEPTED_AT_ONCE = 32  # what is refused is closed when the loop has gone round four times
OWN_DESCRIPTORS = 256 + 4 * ACCEPTED_AT_ONCE  # for files, workers, databases, and connections that are being refused


@dataclass
class Connections:
    """The connections of a server: how many may be open, how many are, and how many were ended, by reason."""

    most: int
    open: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    _reported: Counter[str] = field(default_factory=Counter)

    def report(self) -> None:
        """Log in one line how many were ended since the last report."""
        if new := self.ended - self._reported:
            text = ", ".join(f"{number} {reason}" for reason, number in sorted(new.items()))
            emit(PROBLEM, f"connections ended in the last minute: {text}", SERVER)
            self._reported = Counter(self.ended)

    def failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Count connections that the system has no descriptor for; asyncio would log each, with its stack."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            self.ended[NOT_ACCEPTED] += 1
        else:
            loop.default_exception_handler(context)


class _Connection(H11Protocol):
    """A connection that ends if there are too many, and if the client is too slow to send headers or to read."""

    shared: Connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._timers = dict[str, asyncio.TimerHandle]()
        self.shared.open += 1
        if self.shared.open > self.shared.most:
            self._end(REFUSED)
        else:
            self._start(SLOW_HEADERS, HEADER_SECONDS)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop(SLOW_HEADERS)
        else:
            self._start(SLOW_HEADERS, HEADER_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start(SLOW_READER, UNREAD_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop(SLOW_READER)

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.open -= 1
        for reason in list(self._timers):
            self._stop(reason)
        super().connection_lost(exc)

    def _start(self, reason: str, seconds: float) -> None:
        """End the connection after some seconds, counted from the first start."""
        if reason not in self._timers:
            self._timers[reason] = self.loop.call_later(seconds, self._end, reason)

    def _stop(self, reason: str) -> None:
        if timer := self._timers.pop(reason, None):
            timer.cancel()

    def _end(self, reason: str) -> None:
        self.shared.ended[reason] += 1
        self.transport.abort()


def room_for(wanted: int) -> Connections:
    """Raise the limit of open files of this process; fewer connections than wanted if it does not suffice."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OWN_DESCRIPTORS
    if soft < needed or soft == resource.RLIM_INFINITY:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return Connections(max(1, min(wanted, soft - OWN_DESCRIPTORS)))


def connection_class(shared: Connections) -> type[asyncio.Protocol]:
    """What uvicorn makes of each connection."""
    return type("Connection", (_Connection,), {"shared": shared})
