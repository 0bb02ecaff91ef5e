"""Values that the column of further fields kept, for columns that the table has got since.

In: a row's text of further fields, its values, the schemas that records were written with and the one of the
table. Out: the values of its columns as a decoder gives them for the same record with that schema, and what
is left of the text. What a text leaves open, as whether a number had 32 or 64 bits, is decided by the
schemas; if they do not decide it, or a column has a value already, the text keeps it, and it is said why.

Start with ``filler``. ``from_json`` reads a value of a type back from its text. Pure.
"""
