"""Hooks: one role's clients, opened when they are first asked for."""
