"""The version of the software, and of the libraries that decide; for what must not import the package's verbs."""

import importlib.metadata
from functools import lru_cache

VERSION = "0.2.0"

DECIDING = ("arviz-stats", "networkx", "numba", "numpy", "ortools", "pyarrow", "scipy")
"""Libraries whose version may change a result. HiGHS comes with SciPy, CP-SAT and GLOP with OR-tools."""


@lru_cache(maxsize=1)
def deciding() -> dict[str, str]:
    """The versions of these libraries: a part of each stage's key, so that another solver's result is never reused."""
    return {name: importlib.metadata.version(name) for name in DECIDING}
