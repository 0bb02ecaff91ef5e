"""Session, checkpoints, process start and stop."""
