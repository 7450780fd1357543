"""Input: reading, recoding and counting records."""
