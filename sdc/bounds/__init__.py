"""How far a cell can move given a release: one signature, several methods, one judge (enumeration)."""
