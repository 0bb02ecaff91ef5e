"""I/O over PyIceberg: snapshots, files, results."""
