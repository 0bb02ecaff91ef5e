"""CSV as the world writes it: bytes to records, cells, typed columns and Avro bodies. Pure; NumPy and
PyArrow.

In: blocks of bytes, a ``form.Form`` and the columns of an Avro schema. Out: for each record its Avro body, or
the reason why it is rejected. One record has one path: ``records`` finds where records and cells end and
which are malformed, Arrow's reader cuts the others into texts, ``columns`` types a column at a time, and
encodes. A text is exactly a value of its column, or its row is rejected.

Start with ``layout.Layout.rows``. ``header`` names columns, ``advice`` says what would accept a rejected row,
``summary`` sums up many, ``inference`` says what a file seems to be. A change of what is accepted, or of a
value, raises ``config.sending_rules.VERSION``.
"""
