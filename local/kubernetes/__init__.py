"""Resources of a cluster that depend on an installation's streams: printed for `kubectl apply`."""
