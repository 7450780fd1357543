"""Waits that end: each has a deadline, after which the test fails."""

import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

SECONDS = 300.0
"""Far more than any of these waits takes, on a busy machine too."""


def wait_until(holds: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """What is returned once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"it does not hold within {seconds:g} seconds"
        time.sleep(0.02)
    return found


def at_once(work: Callable[[Any], object], given: Iterable[Any], seconds: float = SECONDS) -> None:
    """Do the work for each item in a thread of its own; raise what one of them raises."""
    futures = list[Future[object]]()
    for item in given:
        futures.append(Future())
        threading.Thread(target=_settle, args=(futures[-1], work, item), daemon=True).start()
    deadline = time.monotonic() + seconds
    for future in futures:
        future.result(deadline - time.monotonic())


def _settle(future: Future[object], work: Callable[[Any], object], item: Any) -> None:
    try:
        future.set_result(work(item))
    except BaseException as error:
        future.set_exception(error)


def line_of(process: subprocess.Popen[str], seconds: float = SECONDS) -> str:
    """The first line that a process prints; empty if it ends without one."""
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], seconds)[0], f"no line within {seconds:g} seconds"
    return process.stdout.readline()
