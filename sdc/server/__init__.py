"""The table server: one query at a time, judged with all earlier answers."""
