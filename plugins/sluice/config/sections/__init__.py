"""Sections of the declarations, a file each."""
