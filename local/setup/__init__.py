"""The set-up: makes what the stack is built of, once, into the cache."""
