"""Records that name their schema by its id in a registry, in Confluent's wire format.

In: a piece's values, or keys, and the schemas of a registry (``core.registry``). Out: columns, as those of
the format without a registry, and a reason for each record that is rejected: it is not framed, its schema is
unknown, refused or of another format, or what is written with it cannot be read with the table's columns. It
promises that records of many schemas stay in their order, and that a registry that cannot be asked is an
error of the batch, never of a record.

Start with ``avro``: values, and keys as the text of JSON; ``protobuf`` has the same. ``json`` takes the frame
off JSON, whose JSON Schema is not evaluated: its id must exist and be one of JSON. ``own``: records that
Sluice's producers send, some of them without a frame. ``unfollowed``: versions that a table may follow. Pure:
the registry is asked by a protocol.
"""
