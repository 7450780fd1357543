"""What several publications imply together: read back, related to each other, and evaluated as one."""
