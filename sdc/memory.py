"""Memory of this process."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

MIB = 1 << 20


def give_back() -> None:
    """Return free memory of this process to the system, where the C library can."""
    if arrow := sys.modules.get("pyarrow"):  # it has its own pool
        arrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):
        # glibc holds the free space between used blocks, which doubles memory after a large table (malloc_trim(3))
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int:
    """Return the resident memory of this process, or 0 if the system does not report it."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def forget_peak() -> None:
    """Reset `peak_bytes`, where the system can; otherwise the peak counts from the start of the process."""
    with suppress(OSError):
        # 5 puts the peak, VmHWM, back to what is resident now (proc(5))
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Return the largest resident memory of this process since `forget_peak`.

    It is read from /proc: `ru_maxrss` of a child starts at its parent's value.
    """
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # bytes on macOS, KiB elsewhere
    return most if sys.platform == "darwin" else most << 10


def physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
