"""Read a table's files: bounds from metadata first, and columns of those files whose bounds do not tell."""
