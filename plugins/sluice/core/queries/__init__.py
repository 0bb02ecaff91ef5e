"""Continuous queries as values: what sinks and tables keep of them."""
