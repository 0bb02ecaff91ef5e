"""Verify a load from table, quarantine and sources alone, and write its proof. Start with ``verify``."""
