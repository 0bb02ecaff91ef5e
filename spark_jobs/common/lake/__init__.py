"""The lake's tables from Spark, and the protocol by which one writer at a time publishes.

In: rows of a batch. Out: files on the writer's branch, verified by their metadata, then ``main`` moved to
them by a compare-and-set. It promises that a writer that lost its lease publishes nothing, whatever it
still does.

Start with ``writer_lease``. ``tables`` creates, ``iceberg`` calls Iceberg's Java API with the keys of
``loaded_keys``, ``write`` appends, ``written`` proves what was appended; ``deduplicate`` and ``loaded_rows``
find duplicates; ``quarantine`` keeps records that the consumer rejects, ``source_quarantine`` rows that the
producer rejects.
"""
