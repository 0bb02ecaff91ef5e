"""Sluice: records from Kafka to the lake, each load verified."""
