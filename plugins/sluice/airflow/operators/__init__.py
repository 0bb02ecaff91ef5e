"""Operators: a class per task. Each is idempotent and can be cleared alone. Start with ``base``."""
