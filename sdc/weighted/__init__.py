"""Weighted totals beside released counts: which of them may go out, and what shows that they narrow no count."""
