"""What a query has committed, and what it reports of itself."""
