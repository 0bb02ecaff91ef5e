"""Hits of an ISP's customers, as JSON: generated, counted, and carried to every kind of sink."""
