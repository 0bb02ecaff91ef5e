"""Iceberg catalogs through PyIceberg: a database, a REST server, AWS Glue.

Start with ``pointers``: where a table's current metadata is, by each kind. ``rest`` and ``glue`` bound
PyIceberg's clients, ``tokens`` renews the login of a REST server, ``signing`` signs requests to one of AWS,
``table_keys`` are the keys of S3 that a catalog gives for a table, which ``vended`` hands to all clients of a
process, ``commits`` makes a commit of Iceberg's JSON, ``errors`` makes every failure one of Sluice's.
"""
