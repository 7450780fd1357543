"""A build: its stages without an engine, what they need, and trials of that."""
