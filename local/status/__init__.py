"""`make status`: the services, and how every stream is, looked at now."""
