"""Bounds of cells under a release: one signature, several methods, and enumeration as their judge."""
