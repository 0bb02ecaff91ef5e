"""Injected faults that the stack must detect and recover from."""
