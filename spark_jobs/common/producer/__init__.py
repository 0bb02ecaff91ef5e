"""Objects and generated rows to a topic."""
