"""What a server answers over HTTP: the interface for programs, and the pages for people."""
