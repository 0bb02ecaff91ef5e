"""S3 by boto3.

``requests`` makes the client of a role, with its timeouts and retries; ``objects`` knows versions,
``csv_lines`` counts rows without Spark, ``errors`` makes every failure a client error.
"""
