"""Memory of this process."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

MIB = 1 << 20


def give_back() -> None:
    """Returns to the system what is free in this process, where the C library can; else it stays for the next use."""
    if arrow := sys.modules.get("pyarrow"):  # which has a pool of its own, where it was needed
        arrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):
        # glibc keeps what lies between blocks in use: after a large table that is as much again (malloc_trim(3))
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int:
    """Memory that this process has now; 0 where the system does not say."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def forget_peak() -> None:
    """Lets `peak_bytes` begin anew, where the system can; otherwise it counts from the start of the process."""
    with suppress(OSError):
        # 5 puts the peak, VmHWM, back to what is resident now (proc(5))
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Largest resident memory of this process since `forget_peak`.

    From the system's own account where it has one: `ru_maxrss` of a child starts at its parent's.
    """
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # bytes on macOS, KiB elsewhere
    return most if sys.platform == "darwin" else most << 10


def physical_bytes() -> int:
    """All memory that this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
