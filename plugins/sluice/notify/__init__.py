"""Which change of health a person is told of, and the texts: once per outage, and then its end."""
