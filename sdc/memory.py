"""Memory of this process."""

from __future__ import annotations

import sys
from pathlib import Path

MIB = 1 << 20


def peak_bytes() -> int:
    """The most memory this process has held, in bytes.

    From the system's own account where it tells: `ru_maxrss` of a child starts at its parent's.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
