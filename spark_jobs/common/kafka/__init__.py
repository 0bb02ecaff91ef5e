"""Keys, Avro, offsets, heartbeats."""
