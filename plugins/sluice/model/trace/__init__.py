"""What each batch published, and where a row came from. Pure."""
