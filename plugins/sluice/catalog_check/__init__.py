"""Whether a catalog keeps what a writer relies on, tried on a scratch table before any stream commits to it.

In comes a catalog twice, as two clients have it, and the name of a table that may be made and dropped; out
come findings: a promise, what was expected, what was found. Start with ``promises``, which is pure: nine
commits one after the other, and three pairs of commits that exclude each other. ``trial`` makes them.
"""
