"""Who does the work: the executors, and the cluster a Dask executor talks to."""

import os

LOOPBACK = "127.0.0.1", "localhost", "::1"
"""How this machine is called on itself."""

os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")  # read when Dask is imported, which is later than this
