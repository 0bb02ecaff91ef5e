"""Where a row of a stream came from, and where the rows of a source are.

In: a partition and an offset, or a source. Out: the batch, snapshot, file, object version and line of the
row, from the table, the quarantine and the ledger; what retention or expiry took is said to be gone.
``rows`` has the pure part, ``record_schema`` asks topic and registry. ``stream_schema``: which schemas a
stream's records have, against the registry's newest. Start with ``find``.
"""
