"""Records that cannot be changed unnoticed: hash chains for server histories and publication ledgers."""
