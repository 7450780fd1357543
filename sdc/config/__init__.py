"""The typed config, a file for each group of sections, and how it is read."""
