"""Tables that may not be published whole: suppression, recoding, rounding, and rules for magnitude tables."""
