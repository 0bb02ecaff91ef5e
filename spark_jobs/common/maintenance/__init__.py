"""Rewrites of a table."""
