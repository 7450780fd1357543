"""Published files, read back and compared; nothing here says whether a release is safe."""
