"""`make status`: the services, and what is known of every component."""
