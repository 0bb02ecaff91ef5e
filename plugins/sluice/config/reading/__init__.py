"""Typed reading of a declaration: values, bounds, names and addresses that a later step can carry."""
