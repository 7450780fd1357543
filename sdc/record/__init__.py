"""What is on record of a table: the ledger of its publications and the history of a server, each one hash chain."""
