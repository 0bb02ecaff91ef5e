"""Cause and fix of each error code, for alerts and docs/errors.md. Start with ``guide``."""
