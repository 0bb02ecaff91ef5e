"""The replay server: recorded events of Wikimedia's EventStreams as a live feed. `python -m local.replay`."""
