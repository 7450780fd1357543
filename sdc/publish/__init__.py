"""Publication: what may go out, and the files it goes out as."""
