"""Iceberg tables and the single-writer protocol."""
