"""The utility of a release: counts, degrees of freedom, weights, and accuracy of the reconstructed table."""
