"""What each of Kafka's clients takes to log in, from the one declaration ``[kafka]``.

Three clients: librdkafka (administration, consumers, producers), kafka-python (the direct path) and Java's
(Spark's source, which plans batches). In: a platform file's ``Kafka``. Out: a client's settings
(``properties``), tokens that are renewed (``tokens``), certificates that are read again after they were
replaced (``certificates``).
"""
