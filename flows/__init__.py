"""Prefect flows: stages as coarse tasks, and nothing else."""
