"""Published files, read back and compared; whether a release is safe is decided elsewhere."""
