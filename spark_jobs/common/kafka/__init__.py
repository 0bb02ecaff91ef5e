"""What stands on topics and in consumer groups."""
