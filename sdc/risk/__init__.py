"""Risk: critical widths of sub-tables and the criterion that decides a release."""
