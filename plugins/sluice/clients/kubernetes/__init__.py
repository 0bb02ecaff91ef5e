"""Kubernetes: its API, the pods of streams and jobs, and what Kubernetes says of them."""
