"""The steps of maintenance and of reconciliation: each calls ``maintenance``."""
