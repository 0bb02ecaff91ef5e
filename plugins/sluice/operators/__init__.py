"""Operators: the steps of a load. Each is idempotent and can be cleared alone."""
