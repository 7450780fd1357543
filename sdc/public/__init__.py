"""What several publications tell together: their tables read back, related to each other, judged as one."""
