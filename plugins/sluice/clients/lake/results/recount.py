"""The name by which ``table`` imports the positions."""

from sluice.clients.lake.results.positions import read_positions as read_positions
