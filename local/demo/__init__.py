"""`make demo`: a stream's load end to end, and its figures read from the systems themselves."""
