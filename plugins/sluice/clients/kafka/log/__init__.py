"""The log of a partition, read as it is stored: exact ranges of offsets, in record batches.

In: a topic, its id, a partition and ``[begin, end)``. Out: the range's committed records as Arrow, in pieces
of a few MB, and an account of every offset. It promises that each offset is accounted for or the read fails
with the offsets named, whatever brokers do meanwhile: leaders move, connections end, retention deletes,
the topic is created again.

Start with ``range_reader``. ``fetching`` repeats requests while a partition moves, ``brokers`` is the one
file that knows the network library. What is in the bytes says ``sluice.core.record_batches``.
"""
