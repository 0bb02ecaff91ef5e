"""Spark and the process around it. The lowest room."""
