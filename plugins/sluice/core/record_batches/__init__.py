"""Kafka's record batches, as a broker stores and sends them: into Arrow, with an account of every offset.

In: the bytes of a fetch response, and the offset that was asked for. Out: the records as Arrow arrays, and
for each offset what it is: a record, a control record, a record of an aborted transaction, or absent. A
batch's header names the offsets that it stands for, so none of this is guessed. Bytes that are no batch, a
wrong checksum, lying lengths, counts and deltas end in DamagedBatch with the offset, never in a wrong row.

Start with ``header``. ``codecs`` decompresses within a limit, ``records`` reads all records of a piece at
once (by ``cursor``, a position per record), ``transactions`` says which batches were aborted, ``account``
adds up. Pure: ``sluice.clients.kafka.log`` fetches.
"""
