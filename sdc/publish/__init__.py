"""Publication: the gate that clears a release, and the files that are published."""
