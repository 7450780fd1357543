"""Processes that Python spawns."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LOCK = threading.Lock()
_HIDDEN: list[dict[str, Any]] = []  # the hidden names of each active block


@contextmanager
def without_main_script() -> Iterator[None]:
    """Keep spawned processes from importing the caller's script.

    A script that calls `sdc.run` outside `if __name__ == "__main__":` would start a build in each of them. Everything
    they need is in `sdc`. `multiprocessing` looks for the script in `__main__.__spec__` and `__main__.__file__` ("Safe
    importing of main module") and finds neither, as in a REPL.
    """
    names = vars(sys.modules["__main__"])
    with _LOCK:
        _HIDDEN.append({name: names.pop(name) for name in ("__spec__", "__file__") if names.get(name) is not None})
        names["__spec__"] = None
    try:
        yield
    finally:
        with _LOCK:  # the last block to end restores all names
            mine = _HIDDEN.pop()
            (_HIDDEN[0] if _HIDDEN else names).update(mine)
