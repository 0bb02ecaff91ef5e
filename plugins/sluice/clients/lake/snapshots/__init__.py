"""What snapshots exchanged: by rewrites, by changes, and between two states of a table."""
