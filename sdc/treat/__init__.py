"""Simple rules for single tables, beside the bounds: rounding, suppression, dominance, aggregation."""
