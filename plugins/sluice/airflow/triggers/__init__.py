"""Triggers: waiting, in the triggerer, without a worker's slot."""
