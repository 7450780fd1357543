"""Requests and what becomes of them: rules, verdicts, decisions, rounds, the audit of all."""
