"""The lake's Iceberg tables through PyIceberg, without a JVM. Start with ``catalog``, one role's view of it.

``commits`` and ``position`` read what snapshots say, ``snapshots`` what they exchanged, ``reading`` files
and rows, ``results`` the tables of queries; ``errors`` makes every failure a client error.
"""
