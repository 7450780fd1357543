"""Processes that Python starts afresh (`spawn`)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LOCK = threading.Lock()
_HIDDEN: list[dict[str, Any]] = []  # for each that is inside, what it hid


@contextmanager
def without_main_script() -> Iterator[None]:
    """Processes that are spawned meanwhile do not import the script that called, as they otherwise do.

    A script that calls `sdc.run` outside of `if __name__ == "__main__":` would start a build in each of them. They
    need nothing of it: what they are sent is of `sdc` alone. `multiprocessing` looks for the script in
    `__main__.__spec__` and `__main__.__file__` ("Safe importing of main module"), and finds neither, as in a REPL.
    """
    names = vars(sys.modules["__main__"])
    with _LOCK:
        _HIDDEN.append({name: names.pop(name) for name in ("__spec__", "__file__") if names.get(name) is not None})
        names["__spec__"] = None
    try:
        yield
    finally:
        with _LOCK:  # whoever ends last puts all back, in whatever order they end
            mine = _HIDDEN.pop()
            (_HIDDEN[0] if _HIDDEN else names).update(mine)
