"""Metrics for Prometheus, of streams and of queries, and their route."""
