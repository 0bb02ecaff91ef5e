"""Values that the column of further fields kept, for columns that the table has got since.

In: a row's text of further fields, its values, and how its records are decoded: of Avro the schemas that they
may be written with and the table's. Out: the values of its columns as the decoder gives them for the same
record, and what is left of the text. What a text leaves open, as whether a number had 32 or 64 bits, is
decided by the schemas; if they do not decide it, or a column has a value already, the text keeps it, and it
is said why.

Start with ``batches``, which fills many rows by a filler: ``avro`` or ``json``. ``from_json`` reads a
value of a type of Avro back from its text, ``merging`` merges it into what its column has. Pure.
"""
