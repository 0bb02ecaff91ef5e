"""Avro bodies into columns: plain ones, with the writer's schema named by a record's header.

In: the current schema and its predecessors, and a piece's values and headers. Out: a column of Arrow for each
field of the current schema, with the types that Spark's ``from_avro`` gives, and a reason for each record that
is not accepted. Avro has no checksum, so a body is accepted only if all of its bytes say what the schema says.

``types`` is a schema. The fast way: ``readers`` (with ``lists``, ``decimals``) read a type's values at many
positions of ``bodies`` into ``columns`` of NumPy, ``arrays`` makes arrays of them, ``evolution`` those of the
current schema. The reference: ``body`` says whether one body is laid out as its schema says, fastavro reads
its ``values``, ``resolution`` makes them the current schema's. What is odd for the fast way is for the
reference. Start with ``decoder``; ``writers`` joins both ways for one schema.
"""
