"""What each client of S3 takes to log in, from the one declaration ``[s3]``.

Clients: boto3 (checks, the ledger, data files of the direct path, PyIceberg's files, AWS Glue), Iceberg's
S3FileIO and Hadoop's s3a (both Java's). In: a platform file's ``S3``. Out: boto3's clients (``session``),
credentials that are renewed by botocore (``credentials``, which ``sources`` give) and given to the JVM of the
same process (``endpoint``), and what Java's clients are told (``java``).
"""
