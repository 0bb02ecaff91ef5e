"""What releases stored: `record` writes a file per release from a stack, `tests/unit/release` reads it."""
