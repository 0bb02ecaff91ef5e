"""What the JVM of a job is told of a login: ``s3``, its credentials and its CA."""
