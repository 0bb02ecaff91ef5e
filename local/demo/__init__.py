"""`make demo`: the taxi load end to end, and its figures read from the systems themselves."""
