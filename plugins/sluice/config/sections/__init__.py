"""Sections of stream.toml: a file each; small ones that belong together share one."""
