"""Cause and fix of each error code, for alerts and docs/errors.md.

The texts are in ``systems``, ``loads`` and ``components``; ``guide`` has their form.
"""
