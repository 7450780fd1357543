"""The integer and linear solvers; no other package imports solvers."""
