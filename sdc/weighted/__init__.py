"""Weighted totals beside released counts: which may be published, and the proof that counts stay wide enough."""
