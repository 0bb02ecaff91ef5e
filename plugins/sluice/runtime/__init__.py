"""Runtimes: start, stop and observe processes."""
