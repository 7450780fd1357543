"""Searches for a release that satisfies the criterion."""
