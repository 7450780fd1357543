"""Servers tried before they open, and histories decided again under other rules."""
