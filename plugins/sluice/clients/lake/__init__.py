"""The lake's Iceberg tables through PyIceberg: commits, files; start with ``catalog``."""
