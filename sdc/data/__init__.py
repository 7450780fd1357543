"""Input: where records come from, how they are recoded and counted."""
