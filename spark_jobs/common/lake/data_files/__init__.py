"""Data files of an Iceberg table that Python writes, committed by their footers.

In: rows as Arrow, in a Spark task or in the driver. Out: Parquet files in the table's folder, and an append
to a branch that names them with their counts and bounds. It promises that a file is there whole before a
commit names it; a commit reads no file again.

Start with ``parquet_file``, which writes one. ``schema`` gives the table's columns their field ids,
``append`` hands footers to Iceberg.
"""
