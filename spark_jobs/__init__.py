"""The jobs that move records: one folder a stream, and what they share in common/."""
