"""Where a row of a stream came from, and where the rows of a source are. Start with ``find``."""
