"""`make put`: upload a file to the source bucket, for a load to read."""

from __future__ import annotations

from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from local.base import UsageError
from local.stack.systems import Systems


def main(stack: Systems, file: str, key: str) -> int:
    """Upload ``file`` as ``key``; print its address, size and version.

    Raises UsageError without one of them, if the file cannot be read, or if the bucket does not accept it.
    """
    if not file or not key:
        raise UsageError("FILE or KEY is missing. Fix: make put FILE=rides.csv KEY=rides/rides.csv")
    path = Path(file).expanduser()
    if not path.is_file():
        raise UsageError(f"FILE={file} is no file. Fix: give its path, absolute or from the repository")
    if not stack.is_running():
        raise UsageError("the stack does not run. Fix: make up")
    bucket = stack.platform("airflow").source.bucket
    try:
        with path.open("rb") as body:
            version = stack.source_s3().put_object(Bucket=bucket, Key=key, Body=body).get("VersionId")
    except OSError as error:
        raise UsageError(f"FILE={file} cannot be read: {error}. Fix: check its permissions") from error
    except (BotoCoreError, ClientError) as error:
        fix = "Fix: make status; on your own S3 role airflow needs PutObject in the source bucket"
        raise UsageError(f"s3://{bucket}/{key} cannot be written: {error}. {fix}") from error
    print(f"s3://{bucket}/{key}: {path.stat().st_size} bytes, version {version or 'none'}")
    return 0
