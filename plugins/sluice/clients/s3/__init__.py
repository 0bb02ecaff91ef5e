"""S3 by boto3.

``requests`` makes the client of a role, with its timeouts and retries; ``objects`` knows versions,
``documents`` are written once, ``unpacking`` unpacks bodies, ``csv_head`` checks how objects begin,
``csv_rows`` counts rows, ``routed`` sends what concerns a table with the table's keys, ``unlisted`` reads a
bucket that cannot be listed, ``errors`` makes every failure a client error.
"""
