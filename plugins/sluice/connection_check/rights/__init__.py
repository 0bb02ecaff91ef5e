"""What each role may do on Kafka, S3 and in the catalog: asked by a check, granted by the embedded stack.

Values alone: ``kafka`` has rights on topics, groups and transactional ids, ``s3`` those on buckets and
objects, ``tables`` those in the catalog and in databases of results.
"""
