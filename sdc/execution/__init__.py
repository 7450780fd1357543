"""Who does the work: the executors, and the cluster a Dask executor talks to."""

import os

os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")  # read when Dask is imported, which is later than this
