"""Schemas of a registry, and records that name them.

In: a piece's values and headers, as ``core.record_batches`` reads them; what a registry answered. Out: the
schema id and the body of each record, or the reason why it has none; a schema as one text that needs no
other. It promises that no schema costs more than its bounds and that none is fetched
from an address that it names.

Start with ``framing``: what a record says of its schema. ``schemas`` is a registered schema and what reads
it, ``errors`` why there is none; ``json_text`` reads untrusted JSON, ``avro_references`` puts a schema of
Avro and those that it refers to into one. ``subjects`` has the names under which schemas are registered,
``lookups`` what is made of the schemas of ids, ``preparing`` how long that takes at most. Pure; the client is
``clients.registry``.
"""
