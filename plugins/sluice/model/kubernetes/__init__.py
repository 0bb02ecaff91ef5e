"""What Sluice asks of Kubernetes, and what Kubernetes says of it: plain data, no requests."""
