"""The steps of supervision, and of drills."""
