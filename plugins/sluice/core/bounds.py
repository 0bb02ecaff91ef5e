"""Bounds of a stream's table."""

from __future__ import annotations

# Columns of a table, with the fields of records in them.
MAX_COLUMNS = 2_000
