"""The steps of a change."""
