"""What a release is worth: counts, degrees of freedom, weights, and how well it reconstructs the full table."""
