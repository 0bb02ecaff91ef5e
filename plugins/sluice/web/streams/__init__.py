"""The pages of streams: one for all, one of each."""
