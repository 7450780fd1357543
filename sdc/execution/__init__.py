"""Executors, and the cluster of a Dask executor."""

import os

LOOPBACK = "127.0.0.1", "localhost", "::1"
"""Loopback names of this machine."""

os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")  # read when Dask is imported, later
