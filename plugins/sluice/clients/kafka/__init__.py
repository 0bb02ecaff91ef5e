"""Kafka through librdkafka, independent of the Java client of the jobs: topics, offsets, records; and
Strimzi's topics.
"""
