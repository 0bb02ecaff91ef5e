"""Drills: the running stack is broken on purpose, and must notice, recover and lose nothing."""
