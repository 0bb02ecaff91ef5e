"""The services of the stack. Each module: `program(s)`, `prepare`, `probe`, `provision`, for one service."""
