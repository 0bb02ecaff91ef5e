"""Iceberg catalogs through PyIceberg: a database, a REST server.

Start with ``pointers``: where a table's current metadata is, by each kind. ``rest`` bounds PyIceberg's
client, ``commits`` makes a commit of Iceberg's JSON, ``errors`` makes every failure one of Sluice's.
"""
