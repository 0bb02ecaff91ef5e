"""The steps of a change: each calls ``changes``."""
