"""I/O without policy: Kafka, S3, schema registries, the lake's tables, databases, Kubernetes, runtimes.

In: addresses, credentials, keys. Out: plain values of :mod:`~sluice.core`, or one of the errors of
:mod:`~sluice.core.errors`, whose message names the thing, the value found and the fix, and no secret.
Every request has a deadline, set where a client is made. Start in the folder of the system, as ``s3`` or
``lake``. A client decides nothing: whether a value is right is for the capabilities.
Neither Airflow nor Spark is imported here; the jobs use ``kafka.consumers``, ``s3.requests``,
``s3.object_file``, ``databases.postgresql`` and ``registry.schemas`` too.
"""
