"""Hits of an ISP's customers as JSON: generated, aggregated, and sent to every kind of sink."""
