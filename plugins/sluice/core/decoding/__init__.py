"""Values of records into columns, all records of a piece at once.

In: the keys, values and headers of a piece of a topic, as ``core.record_batches`` reads it. Out: a column of
Arrow for each column of the stream's table, and for each record that is not accepted the reason, in words. It
promises that a value is exactly what was sent, or its record is rejected; and that what is accepted can be
read by all of DuckDB, PyArrow, pandas and Spark.

What is regular is decoded by NumPy and Arrow, all records at once. What is odd is decoded one by one by a
reference, another library's: one set of reasons, and an odd record slows its piece alone. The consumer has a
sample of each piece decoded again by the reference.

Start with ``decoder``: what a format is. ``avro`` and ``json`` are the formats, ``identity`` reads keys,
``readable`` finds what readers cannot read, ``duplicates`` what is there already; ``assessment`` puts these
together. Pure.
"""
