"""Sensors: questions that a load waits for an answer to."""
