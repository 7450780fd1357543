"""Who does the work: the executors, and the cluster a Dask executor talks to."""
