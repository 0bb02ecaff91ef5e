"""Where a query's results go: one module per kind of sink, all with the protocol ``base.Sink``."""
