"""A stream's continuous queries: counted from the table's snapshots, into sinks.

In: the snapshots of ``main``, the first batch all files of one. Out: results in each sink of the query, its
state and late rows in the queries' table. It promises that every sink holds what the lake holds, whichever
fails when: a batch is written again with the same number, and a query whose checkpoint or snapshot is gone
is rebuilt.

Start with ``run``. ``streaming_query`` is one query, ``recovery`` restores its checkpoint, ``state_table``
keeps its state.
"""
