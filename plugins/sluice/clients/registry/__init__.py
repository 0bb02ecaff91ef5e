"""A schema registry with Confluent's API, over HTTP, and its schemas, kept for ever.

In: ``[registry]`` of a platform file, a schema id or a subject. Out: values of ``core.registry``, or one of
its errors. It reads, and registers nothing. What it gives is bounded in size and time; no redirect is
followed, so no login goes to another address; no address that a schema names is opened.

Start with ``schemas``: the schemas of a registry for a decoder, in any process. ``kept`` decides what is
asked and what is remembered, ``objects`` keeps documents on S3, ``client`` knows the API's paths, ``http``
sends requests and reads answers.
"""
