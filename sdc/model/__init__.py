"""The data model: schema, sub-table, release, table, graph, cell bounds. It uses NumPy and NetworkX only."""
