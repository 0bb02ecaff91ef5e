"""S3 by boto3: requests, objects and their versions, errors as client errors."""
