"""What is on record of a table: a hash chain, which is the history of a server or the ledger of publications."""
