"""The consumer: a topic into its table, every record once.

In: the topic's records from the offsets that the table's newest snapshot says. Out: on ``main`` a snapshot
per batch, with rows and offsets in one commit; rejected records in the quarantine; the batch in the batch
log. It promises that a batch is published whole, once, by the holder of the lease, and verified by metadata
before.

Start with ``run``, which acquires the lease and runs the query; ``writer`` appends a batch to the writer's
branch, verifies and publishes it; ``direct`` reads, decodes and writes its rows; ``decoded_rows`` decodes
those of a DataFrame; ``state`` reads where ``main`` is.
"""
