"""Kafka through librdkafka, independent of the Java client of the jobs.

``admin`` asks for topics and offsets, ``broker_topics`` and ``strimzi_topics`` provision them, ``reader``
and ``consumers`` read without a group, ``progress`` reads what queries report. Start with ``admin``.
"""
