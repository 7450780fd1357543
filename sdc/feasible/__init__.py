"""Feasible tables: the equations they satisfy, how they are searched, and differences that lead to them."""
