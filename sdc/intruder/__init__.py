"""The intruder's view: how probable counts are given the released marginals."""
