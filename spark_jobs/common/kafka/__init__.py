"""Records and offsets of Kafka, as jobs need them: how a value is encoded, and where a stream is.

In: bytes of records, or offsets to keep. Out: the schemas of a stream (``avro``), keys (``keys``), exact
ranges of any topics (``read_ranges``), offsets that a stream commits in a consumer group (``offsets``) and
heartbeats in their metadata (``heartbeat``). Start with ``offsets``.
"""
