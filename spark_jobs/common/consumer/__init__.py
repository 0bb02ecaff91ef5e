"""A topic to its table."""
