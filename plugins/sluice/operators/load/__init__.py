"""The steps of a load, in order."""
