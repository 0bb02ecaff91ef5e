"""Avro bodies into columns: plain ones, with the writer's schema named by a record's header.

In: the current schema and its predecessors, and a piece's values and headers. Out: a column of Arrow for each
field of the current schema, with the types that Spark's ``from_avro`` gives, and a reason for each record
that is rejected. Avro has no checksum: a body is accepted only if all of its bytes say what its schema says.

``names`` finds the types that a schema defines, ``types`` is a schema with its types in Arrow, ``parsing``
makes it of a text. ``columnar`` reads a field of all records at once; ``reference`` reads one record by
fastavro, and has the reasons. What is odd for the first way is for the second one: of valid bodies of usual
sizes none is, unless a type has changed since in an unusual way.
``writers`` joins both ways for one schema, ``decoder`` knows all schemas of a stream, and the header that
names one. Start with ``decoder``.
"""
