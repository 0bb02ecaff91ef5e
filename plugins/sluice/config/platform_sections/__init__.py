"""Sections of platform files: a file each; small ones that belong together share one."""
