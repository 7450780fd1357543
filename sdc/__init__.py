"""sdc decides which marginal sub-tables of a table of counts may be published, and proves it."""

__version__ = "0.1.0"
