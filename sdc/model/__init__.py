"""The nouns: schema, sub-table, release, table, graph, bounds of cells. NumPy and NetworkX only."""
