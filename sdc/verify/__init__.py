"""Verify: claims of safety checked from the files alone, with nothing of what made them but their names."""
