"""The intruder: what the released marginals make probable of the full table, not only possible."""
