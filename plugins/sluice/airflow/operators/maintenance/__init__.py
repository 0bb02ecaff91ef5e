"""The steps of maintenance and of reconciliation."""
