"""The embedded stack: what is fetched, built, started and supervised on one machine, without Docker."""
