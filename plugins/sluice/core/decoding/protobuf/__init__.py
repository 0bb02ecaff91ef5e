"""Records that are Protobuf messages, one by one.

In: a compiled schema (a serialized FileDescriptorSet, by ``config.reading.protoc``) and values. Out: columns
by the names of fields, what the table lacks of a message as the text of JSON, and a reason for each value
that is no message, with the path and the byte. It promises that what is read is what was sent, or its record
is rejected.

Google's library reads messages; ``wire`` reads them again by itself, for a sample of all records, and says
why bytes are none. Both give the same values to the same conversions. Start with ``types``: what a field is
in the table. ``schema`` has the messages of a compiled schema, ``values`` and ``lacking`` make rows,
``json_text`` and ``well_known`` write values; ``reader`` puts these together, and ``decoder`` is the format.
``frames`` reads which message of a registered schema a record is. Pure.
"""
