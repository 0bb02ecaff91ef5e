"""Reconciliation of a stream's systems: each disagreement is a named finding. Start with ``findings``."""
