"""The DAGs of streams: what they hold, their forms and their documentation."""
