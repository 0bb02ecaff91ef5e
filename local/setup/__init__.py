"""The set-up: fetches and builds the stack's artifacts, once, into the cache."""
