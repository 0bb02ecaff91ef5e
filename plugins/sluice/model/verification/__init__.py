"""Verification of offsets, rows, events and files."""
